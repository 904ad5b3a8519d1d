//! Are TCP options gone that both hosts would use?

use super::Case;
use crate::diagnose::{advice, unproven};
use longhaul_model::report::v1::Finding;
use longhaul_model::report::v1::observation::TcpOptions;

/// An option: its name, whether it is there, and what its loss costs.
const OPTIONS: [(&str, fn(&TcpOptions) -> bool, &str); 3] = [
    (
        "window scaling",
        |o| o.window_scaling,
        "no more than 64 KiB can be in flight on a stream",
    ),
    (
        "selective acknowledgement",
        |o| o.sack,
        "one lost segment per round trip can be repaired",
    ),
    (
        "timestamps",
        |o| o.timestamps,
        "round trips are measured rarely, and old segments cannot be told from new ones",
    ),
];

/// Offered by both hosts, in force at neither or one of them.
pub fn stripped(case: &Case) -> Option<Finding> {
    let options = case.observation.options.as_ref()?;
    let (here, there) = (options.offered_here?, options.offered_there?);
    let in_force = [options.here, options.there];
    let gone = |has: &fn(&TcpOptions) -> bool| {
        let missing = in_force.iter().flatten().any(|end| !has(end));
        has(&here) && has(&there) && missing
    };
    let lost: Vec<_> = OPTIONS.iter().filter(|(_, has, _)| gone(has)).collect();
    let (_, _, cost) = lost.first()?;
    let names: Vec<&str> = lost.iter().map(|(name, _, _)| *name).collect();
    let mut found = unproven(
        "options_stripped",
        0.9,
        format!(
            "A device on the path strips TCP options: {} ({cost})",
            names.join(", ")
        ),
    );
    found.supports.push(String::from(
        "both hosts have them switched on, and the connection is without them",
    ));
    let far = in_force.iter().flatten().count();
    if far < 2 {
        found.contradicts.push(String::from(
            "only one end told what is in force on the connection",
        ));
        found.confidence_ratio = 0.8;
    }
    found.advice.push(advice(
        "path",
        String::from("Look for a firewall or accelerator that normalises TCP options"),
    ));
    Some(found)
}
