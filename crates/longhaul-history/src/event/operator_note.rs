//! Cause: an operator's note of the time of the event.
//!
//! We would see: a note of the time of the event. Refuted by: nothing; a note is not a measurement.
//! Needs: notes with their time. To do: ask its author.
//! Wrong when: the note is about something else, or its time is when it was written.

use super::cause_candidate::{CauseCandidate, weight};
use super::event_case::EventCase;
use super::event_format;

/// Consistency of a note, which may or may not be about the cause.
const NOTE_CONSISTENCY: f64 = 0.75;

pub fn find_candidate(case: &EventCase) -> Option<CauseCandidate> {
    let timing = |at_us: i64| case.timing([at_us, at_us]);
    let nearest =
        case.evidence.notes.iter().max_by(|a, b| timing(a.at_us).total_cmp(&timing(b.at_us)))?;
    let text = format!(
        "Operator note of {}: \"{}\"",
        event_format::format_time(nearest.at_us),
        event_format::sanitize_note(&nearest.text)
    );
    let mut found = CauseCandidate::new("operator_note", weight::NOTE, [nearest.at_us; 2], text);
    found.consistency = NOTE_CONSISTENCY;
    found.contradict("a note is not a measurement");
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::super::change_evidence::OperatorNote;
    use super::super::event_test_builder::{self, DAY, T0};
    use super::*;

    #[test]
    fn a_note_of_the_time_is_just_likely_and_an_old_one_is_not() {
        let mut sketch = event_test_builder::build_goodput_drop();
        for (at_us, text) in [(T0 - 9 * DAY, "moved racks"), (T0, "switched Europe\nto ESnet")] {
            sketch.notes.push(OperatorNote { at_us, text: text.to_owned() });
        }
        let (event, evidence) = (sketch.event(), sketch.evidence());
        let case = EventCase { event: &event, evidence: &evidence };
        let found = find_candidate(&case).expect("a candidate");
        assert!(found.summary.contains("\"switched Europe to ESnet\""), "{}", found.summary);
        let score = found.score(event.between_us, case.tau_us());
        assert!((0.5..0.6).contains(&score), "{score}");
    }
}
