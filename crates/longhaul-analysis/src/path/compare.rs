//! In what does one route differ from another?

use longhaul_model::report::v1::path::{ChangeKind, Route, RouteChange};

/// `here` against `other`, which was before it.
pub fn compare(_here: &Route, _other: &Route) -> RouteChange {
    RouteChange {
        kind: ChangeKind::Same,
        other_number: None,
        other_run: None,
        ranges: Vec::new(),
        rtt_step_ns: None,
    }
}
