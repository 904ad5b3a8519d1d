//! Detects TCP options that are missing although both hosts offer them.

use super::PathFindingInput;
use longhaul_model::report::v1::ReportFinding;
use longhaul_model::report::v1::observation::TcpOptions;

/// A TCP option.
struct TcpOptionKind {
    name: &'static str,
    has: fn(&TcpOptions) -> bool,
    /// The consequence of its loss.
    cost: &'static str,
}

const KINDS: [TcpOptionKind; 3] = [
    TcpOptionKind {
        name: "window scaling",
        has: |o| o.window_scaling,
        cost: "at most 64 KiB in flight per stream",
    },
    TcpOptionKind {
        name: "selective acknowledgement",
        has: |o| o.sack,
        cost: "only one lost segment per RTT can be repaired",
    },
    TcpOptionKind {
        name: "timestamps",
        has: |o| o.timestamps,
        cost: "few RTT samples, and no protection against wrapped sequence numbers",
    },
];

/// Reports options that both hosts offer but that are not in force at both.
pub fn find_stripped_options(case: &PathFindingInput) -> Option<ReportFinding> {
    let options = case.observation.options.as_ref()?;
    let (here, there) = (options.offered_here?, options.offered_there?);
    let in_force = [options.here, options.there];
    let gone = |kind: &&TcpOptionKind| {
        let missing = in_force.iter().flatten().any(|end| !(kind.has)(end));
        (kind.has)(&here) && (kind.has)(&there) && missing
    };
    let lost: Vec<&TcpOptionKind> = KINDS.iter().filter(gone).collect();
    let cost = lost.first()?.cost;
    let names: Vec<&str> = lost.iter().map(|kind| kind.name).collect();
    let mut found = ReportFinding::new(
        "options_stripped",
        0.9,
        format!("A middlebox strips TCP options: {} ({cost})", names.join(", ")),
    );
    found.support("both hosts have them enabled, but the connection did not negotiate them");
    let far = in_force.iter().flatten().count();
    if far < 2 {
        found.contradict("only one end reported the negotiated options");
        found.confidence_ratio = 0.8;
    }
    found.advise("path", "Look for a firewall or WAN accelerator that normalises TCP options");
    Some(found)
}
