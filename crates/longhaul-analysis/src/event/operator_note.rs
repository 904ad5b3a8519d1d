//! Cause: an operator's note of the time of the event.
//!
//! We would see: a note of the time of the event. Refuted by: nothing; a note is not a measurement.
//! Needs: notes with their time. To do: ask its author.
//! Wrong when: the note is about something else, or its time is when it was written.

use super::candidate::{Candidate, weight};
use super::case::Case;
use super::words;

/// Consistency of a note, which may or may not be about the cause.
const UNPROVEN: f64 = 0.75;

pub fn candidate(case: &Case) -> Option<Candidate> {
    let timing = |at_us: i64| case.timing([at_us, at_us]);
    let nearest = case
        .evidence
        .notes
        .iter()
        .max_by(|a, b| timing(a.at_us).total_cmp(&timing(b.at_us)))?;
    let text = format!(
        "A note of {} says: \"{}\"",
        words::moment(nearest.at_us),
        words::noted(&nearest.text)
    );
    let mut found = Candidate::new("operator_note", [nearest.at_us; 2], text);
    found.weight = weight::NOTE;
    found.consistency = UNPROVEN;
    found
        .contradicts
        .push(String::from("a note is no measurement"));
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::super::evidence::Note;
    use super::super::sketch::{self, DAY, T0};
    use super::*;

    #[test]
    fn a_note_of_the_time_is_just_likely_and_an_old_one_is_not() {
        let mut sketch = sketch::fell();
        for (at_us, text) in [
            (T0 - 9 * DAY, "moved racks"),
            (T0, "switched Europe\nto ESnet"),
        ] {
            sketch.notes.push(Note {
                at_us,
                text: text.to_owned(),
            });
        }
        let (event, evidence) = (sketch.event(), sketch.evidence());
        let case = Case {
            event: &event,
            evidence: &evidence,
        };
        let found = candidate(&case).expect("a candidate");
        assert!(
            found.summary.contains("\"switched Europe to ESnet\""),
            "{}",
            found.summary
        );
        let score = found.score(event.between_us, case.tau_us());
        assert!((0.5..0.6).contains(&score), "{score}");
    }
}
