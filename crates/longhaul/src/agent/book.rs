//! The planned runs that have not ended. Passes decisions of the schedule on to the archive, the
//! page and the log.

use super::desk::{Desk, News};
use super::scribe::{Noted, Scribe};
use super::voice::Voice;
use crate::watch::jobs::Key;
use crate::watch::schedule::{Note, Planned, Reason};
use longhaul_model::report::v1::series::Pair;
use longhaul_store::watched::{self, Outcome, PlannedRow};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// The reason in the archive of a run that was tried and gave no result.
pub const FAILED: &str = "failed";

/// Planned runs that have not ended.
#[derive(Debug, Default)]
pub struct Book {
    open: HashMap<String, (Key, watched::Planned)>,
    /// The number of missed runs by reason.
    pub missed: BTreeMap<&'static str, u64>,
}

impl Book {
    /// Records the decisions of the schedule.
    pub fn take(&mut self, notes: Vec<Note>, (desk, scribe, voice): (&Desk, &Scribe, Voice)) {
        let mut noted = Vec::new();
        let mut missed: BTreeMap<(Key, Reason), usize> = BTreeMap::new();
        for note in notes {
            match note {
                Note::Planned(planned) => {
                    let row = row_of(&planned);
                    noted.push(Noted::Planned(row.clone()));
                    tell(desk, row.clone(), None);
                    self.open.insert(row.id.clone(), (planned.key, row));
                }
                // Storing the result has settled the planned run.
                Note::Done(id) => drop(self.open.remove(&*id)),
                Note::Failed(id) => {
                    noted.extend(self.end(&id, FAILED, desk).map(|(_, note)| note));
                }
                Note::Missed(id, reason) => {
                    *self.missed.entry(reason.word()).or_insert(0) += 1;
                    if let Some((key, note)) = self.end(&id, reason.word(), desk) {
                        noted.push(note);
                        *missed.entry((key, reason)).or_insert(0) += 1;
                    }
                }
                Note::Started(_) | Note::Refused(_) => {}
            }
        }
        for ((key, reason), runs) in missed {
            voice.missed(&key, runs, (reason.word(), &reason.to_string()));
        }
        if !noted.is_empty() && scribe.note(noted) > 0 {
            voice.trouble("the archive takes nothing for too long: planned runs are not noted");
        }
    }

    fn end(&mut self, id: &str, reason: &str, desk: &Desk) -> Option<(Key, Noted)> {
        let (key, row) = self.open.remove(id)?;
        let reason = reason.to_owned();
        let outcome = Outcome::Missed { reason };
        tell(desk, row, Some(outcome.clone()));
        Some((key, Noted::Ended(id.to_owned(), outcome)))
    }
}

fn tell(desk: &Desk, planned: watched::Planned, outcome: Option<Outcome>) {
    // Sending fails if there is no subscriber.
    let _ = desk
        .news
        .send(News::Planned(Arc::new(PlannedRow { planned, outcome })));
}

fn row_of(planned: &Planned) -> watched::Planned {
    let Key { measure, from, to } = &planned.key;
    // An audit concerns one host, so it has no pair.
    let pair = (from != to).then(|| Pair {
        from: from.to_string(),
        to: to.to_string(),
    });
    watched::Planned {
        id: planned.id.to_string(),
        due_us: planned.due_us,
        measurement: measure.to_string(),
        pair,
    }
}
