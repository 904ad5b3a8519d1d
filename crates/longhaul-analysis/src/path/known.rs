//! Which routes of this path were seen before, and by which numbers?
//!
//! Every distinct route of a path has a small number, in the order in which they were first seen. A
//! route that differs by silence alone keeps the number: what was not heard is no other route. So
//! does one that was cut before its end, as far as it went.

use super::compare;
use longhaul_model::report::v1::Path;
use longhaul_model::report::v1::path::{ChangeKind, NarrowLink, Route};

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
            ..KnownRoute::numbered(report, 0)?
        })
    }

    /// The route of a report, whatever its number was.
    pub(super) fn numbered(report: &Path, number: u32) -> Option<KnownRoute> {
        let route = report.observation.route.clone()?;
        let rtt_min_ns = report.analysis.rtt.map(|rtt| rtt.min_ns);
        Some(KnownRoute {
            number,
            run_id: report.run.id.clone(),
            at: report.run.started_at.clone(),
            rtt_min_ns: rtt_min_ns.or_else(|| compare::floor(&route)),
            route,
            narrow_link: report.analysis.narrow_link.clone(),
        })
    }
}

/// The small number of `route` among those of its path: that of the known one that it is, or the
/// next.
pub fn number(known: &[KnownRoute], route: &Route) -> u32 {
    let likest = known
        .iter()
        .filter_map(|earlier| Some((agreement(route, &earlier.route)?, &earlier.at, earlier)))
        .max_by(|a, b| (a.0, a.1).cmp(&(b.0, b.1)));
    let next = || {
        known
            .iter()
            .map(|k| k.number)
            .max()
            .unwrap_or(0)
            .saturating_add(1)
    };
    likest.map_or_else(next, |(_, _, earlier)| earlier.number)
}

/// Hops in which the two agree, if they are one route as far as answers tell.
fn agreement(route: &Route, earlier: &Route) -> Option<usize> {
    // A cut trace is the begin of many routes: it takes a number, and never gives one to a whole.
    if route.reached && !earlier.reached {
        return None;
    }
    let difference = compare::difference(route, earlier);
    (difference.kind <= ChangeKind::SilentHop).then_some(difference.agreeing)
}

/// The route against which a new one stands: the latest, or, since a cut one says little, the latest
/// that reached its end where the new one did.
pub fn before<'k>(known: &'k [KnownRoute], route: &Route) -> Option<&'k KnownRoute> {
    let latest = |reached: bool| {
        let fits = move |k: &&KnownRoute| !reached || k.route.reached;
        let by_time = |k: &&KnownRoute| (k.at.clone(), k.run_id.clone());
        known.iter().filter(fits).max_by_key(by_time)
    };
    if route.reached {
        latest(true).or_else(|| latest(false))
    } else {
        latest(false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::path::scene::{cut_route, route};

    fn known(number: u32, at: &str, route: Route) -> KnownRoute {
        KnownRoute {
            number,
            run_id: format!("run-{at}"),
            at: at.to_owned(),
            route,
            rtt_min_ns: None,
            narrow_link: None,
        }
    }

    const A: [&str; 4] = ["10.1.0.1", "10.2.0.1", "10.3.0.1", "10.4.0.1"];
    const B: [&str; 4] = ["10.1.0.1", "10.7.0.1", "10.8.0.1", "10.4.0.1"];

    #[test]
    fn numbers_follow_the_order_of_first_sight() {
        let mut all = Vec::new();
        assert_eq!(number(&all, &route(&A)), 1);
        all.push(known(1, "2003-06-10", route(&A)));
        assert_eq!(number(&all, &route(&B)), 2);
        all.push(known(2, "2003-06-11", route(&B)));
        assert_eq!(number(&all, &route(&A)), 1, "back on the first");
    }

    #[test]
    fn silence_keeps_the_number_of_the_likest() {
        let all = [
            known(1, "2003-06-10", route(&A)),
            known(2, "2003-06-11", route(&B)),
        ];
        let gaps = |hop: &str| route(&["10.1.0.1", hop, "", "10.4.0.1"]);
        assert_eq!(number(&all, &gaps("10.2.0.1")), 1);
        assert_eq!(number(&all, &gaps("10.7.0.1")), 2);
        // Where nothing tells them apart it is the one that was there last.
        assert_eq!(number(&all, &gaps("")), 2);
    }

    #[test]
    fn a_cut_route_takes_a_number_and_gives_none() {
        let cut = cut_route(&["10.1.0.1", "10.2.0.1", "", ""]);
        let whole = [known(1, "2003-06-10", route(&A))];
        assert_eq!(number(&whole, &cut), 1);
        let only_cut = [known(1, "2003-06-10", cut.clone())];
        assert_eq!(number(&only_cut, &route(&A)), 2);
        assert_eq!(number(&only_cut, &cut), 1);
    }

    #[test]
    fn a_whole_route_stands_against_the_last_whole_one() {
        let all = [
            known(2, "2003-06-12", cut_route(&A[..2])),
            known(1, "2003-06-10", route(&A)),
            known(3, "2003-06-11", route(&B)),
        ];
        assert_eq!(before(&all, &route(&A)).map(|k| k.number), Some(3));
        assert_eq!(before(&all, &cut_route(&A)).map(|k| k.number), Some(2));
        assert_eq!(before(&[], &route(&A)), None);
        let cut_only = &all[..1];
        assert_eq!(before(cut_only, &route(&A)).map(|k| k.number), Some(2));
    }
}
