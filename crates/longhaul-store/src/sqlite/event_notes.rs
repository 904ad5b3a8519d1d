//! Notes of people on events. They stay in this archive: a collector has its own.

use crate::archive::Archive;
use crate::history_store::{EventHandling, EventNote, MAX_EVENT_NOTES, NoteAction, check_note};
use crate::store_error::StoreError;
use longhaul_model::serde_name::parse_variant;
use rusqlite::{Row, params};

impl Archive {
    /// Stores a note. Returns false if the event is unknown.
    ///
    /// # Errors
    /// [`StoreError::Refused`] for a note beyond the limits, and for an event with too many notes.
    pub fn add_event_note(&mut self, event_id: &str, note: &EventNote) -> Result<bool, StoreError> {
        check_note(note, self.event_notes(event_id)?.len())?;
        self.write("store the note", |to| {
            let known =
                to.prepare_cached("SELECT 1 FROM event WHERE id = ?1")?.exists([event_id])?;
            if known {
                to.prepare_cached(
                    "INSERT INTO event_note (event, at_us, who, action, text, until_us) \
                     VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
                )?
                .execute(params![
                    event_id,
                    note.at_us,
                    note.who,
                    note.action.word(),
                    note.text,
                    note.until_us
                ])?;
            }
            Ok(known)
        })
    }

    /// Returns the notes on an event, the oldest first.
    pub fn event_notes(&self, event_id: &str) -> Result<Vec<EventNote>, StoreError> {
        self.read("read the notes", |from| {
            from.prepare_cached(
                "SELECT at_us, who, action, text, until_us FROM event_note \
                 WHERE event = ?1 ORDER BY id LIMIT ?2",
            )?
            .query_map(params![event_id, MAX_EVENT_NOTES as i64], read_note)?
            .collect()
        })
    }

    /// Returns the effect of the notes on an event.
    pub fn event_handling(&self, event_id: &str) -> Result<EventHandling, StoreError> {
        Ok(EventHandling::of_notes(&self.event_notes(event_id)?))
    }
}

fn read_note(row: &Row<'_>) -> rusqlite::Result<EventNote> {
    let word: String = row.get(2)?;
    Ok(EventNote {
        at_us: row.get(0)?,
        who: row.get(1)?,
        // Another word can only be of a later version; its text is still shown.
        action: parse_variant(&word).unwrap_or(NoteAction::Comment),
        text: row.get(3)?,
        until_us: row.get(4)?,
    })
}
