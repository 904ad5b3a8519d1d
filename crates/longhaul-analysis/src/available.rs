//! How fast is the path at most, and how much of it is free?
//!
//! [`Course`] says which trains to send next, from what came back so far; [`conclude`] reads the
//! trains of a finished run. Neither knows a clock or a socket.
//!
//! Source: docs/methods/available-bandwidth.md names them. Units: bit/s of IP packets.
//! Error: given with each figure, as an interval. Wrong when: the flags of the estimate say so.

mod course;

pub use course::{Course, Facts};

use longhaul_model::report::v1::available::{Analysis, Observation, Plan};
use longhaul_model::report::v1::{Available, Caveat, Finding};

/// What a finished run means.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Conclusion {
    pub analysis: Analysis,
    pub findings: Vec<Finding>,
    pub caveats: Vec<Caveat>,
}

/// `history`: earlier runs on the same path, newest first.
pub fn conclude(plan: &Plan, observation: &Observation, history: &[Available]) -> Conclusion {
    let _ = (plan, observation, history);
    Conclusion {
        analysis: Analysis {
            version: crate::VERSION,
            ..Analysis::default()
        },
        ..Conclusion::default()
    }
}
