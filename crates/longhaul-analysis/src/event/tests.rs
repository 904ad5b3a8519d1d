//! Whole events: seeds, injected causes, hostile names.

mod hostile;
mod injected;
mod seeds;

use super::sketch::Sketch;
use super::{Explained, explain};

/// Causes by word, the likeliest first.
fn causes(sketch: &Sketch) -> Vec<String> {
    let explained = explained(sketch);
    explained
        .causes
        .into_iter()
        .map(|finding| finding.cause)
        .collect()
}

fn explained(sketch: &Sketch) -> Explained {
    explain(&sketch.event(), &sketch.evidence())
}
