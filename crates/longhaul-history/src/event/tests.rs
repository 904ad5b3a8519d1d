//! Whole events: seeds, injected causes, hostile names.

mod hostile;
mod injected;
mod seeds;

use super::event_test_builder::EvidenceBuilder;
use super::{EventExplanation, explain_event};

/// Causes by word, the likeliest first.
fn causes(sketch: &EvidenceBuilder) -> Vec<String> {
    let explained = explained(sketch);
    explained.causes.into_iter().map(|finding| finding.cause).collect()
}

fn explained(sketch: &EvidenceBuilder) -> EventExplanation {
    explain_event(&sketch.event(), &sketch.evidence())
}
