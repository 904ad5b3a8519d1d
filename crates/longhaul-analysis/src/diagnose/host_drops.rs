//! Packets dropped by the hosts themselves.
//!
//! We would see: drop counters of an interface, or the kernel's own counters of a full or pruned
//! receive queue, growing during the run. Refuted by: constant counters.
//! Needs: interface and protocol counters before and after. To do: rings, backlog, memory.
//!
//! Source: TCPRcvQDrop, PruneCalled, TCPBacklogDrop, TCPMemoryPressures of /proc/net/netstat.
//! Units: packets or events. Wrong when: other traffic of the host is the one dropped.

use super::{DiagnosisCase, FindingAdvice, build_finding, name_of_host, read_protocol_counter};
use crate::limit::run_view::is_drop_counter;
use longhaul_model::report::v1::ReportFinding;
use longhaul_model::report::v1::observation::EndObservation;

/// Kernel counters that show that this host dropped or pruned received data.
const DROP_COUNTERS: [&str; 5] =
    ["TCPRcvQDrop", "PruneCalled", "RcvPruned", "TCPBacklogDrop", "TCPMemoryPressures"];

pub fn diagnose_host_drops(case: &DiagnosisCase) -> Option<ReportFinding> {
    let ends = [(case.sender(), "sender"), (case.receiver(), "receiver")];
    let (end, place, mut counted) = ends
        .into_iter()
        .map(|(end, place)| (end, place, list_drop_counters(end)))
        .find(|(_, _, counted)| !counted.is_empty())?;
    counted.truncate(4);
    let host = name_of_host(&end.host, place);
    let summary = format!("{host} ({place}) dropped packets itself: {}", counted.join(", "));
    let mut found = build_finding(case, "host_drops", summary);
    found.confidence_ratio = if case.scene.is_dropped_by_hosts() { 0.9 } else { 0.5 };
    found.support(format!("{} segments retransmitted in total", case.scene.retransmitted_segments));
    found.advice = list_drop_advice(end, place);
    Some(found)
}

fn list_drop_counters(end: &EndObservation) -> Vec<String> {
    let kernel = DROP_COUNTERS.iter().map(|name| (*name, read_protocol_counter(end, name)));
    let interface = end.interface.iter().filter(|(name, _)| is_drop_counter(name));
    let all = kernel.chain(interface.map(|(name, grown)| (name.as_str(), *grown)));
    all.filter(|(_, grown)| *grown > 0).map(|(name, grown)| format!("{name} {grown}")).collect()
}

fn list_drop_advice(end: &EndObservation, place: &str) -> Vec<FindingAdvice> {
    let memory = read_protocol_counter(end, "TCPMemoryPressures") > 0
        || read_protocol_counter(end, "PruneCalled") > 0;
    let device = end.host.interface.as_ref().map_or("<interface>", |i| i.name.as_str());
    let dropped = end.interface.iter().any(|(name, grown)| *grown > 0 && is_drop_counter(name));
    let mut all = Vec::new();
    if memory {
        all.push(FindingAdvice {
            command: Some(String::from("sysctl net.ipv4.tcp_mem")),
            ..FindingAdvice::new(place, "The kernel is short of TCP memory: raise net.ipv4.tcp_mem (in pages), or request smaller buffers")
        });
    }
    if dropped {
        all.push(FindingAdvice {
            command: Some(format!("ethtool -G {device} rx 8192 tx 8192")),
            ..FindingAdvice::new(
                place,
                "Use larger rings; on a virtual device, a longer txqueuelen",
            )
        });
    }
    if all.is_empty() {
        all.push(FindingAdvice {
            command: Some(String::from("sysctl -w net.core.netdev_max_backlog=30000")),
            ..FindingAdvice::new(place, "Raise the backlog between interface and TCP")
        });
    }
    all
}
