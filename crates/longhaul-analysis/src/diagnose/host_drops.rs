//! Packets dropped by the hosts themselves.
//!
//! We would see: drop counters of an interface, or the kernel's own counters of a full or pruned
//! receive queue, growing during the run. Refuted by: constant counters.
//! Needs: interface and protocol counters before and after. To do: rings, backlog, memory.
//!
//! Source: TCPRcvQDrop, PruneCalled, TCPBacklogDrop, TCPMemoryPressures of /proc/net/netstat.
//! Units: packets or events. Wrong when: other traffic of the host is the one dropped.

use super::{Advice, Case, advice, finding, host_name, protocol};
use crate::limit::scene::is_drop_counter;
use longhaul_model::report::v1::Finding;
use longhaul_model::report::v1::observation::End;

/// Kernel counters that show that this host dropped or pruned received data.
const KERNEL: [&str; 5] = [
    "TCPRcvQDrop",
    "PruneCalled",
    "RcvPruned",
    "TCPBacklogDrop",
    "TCPMemoryPressures",
];

pub fn diagnose(case: &Case) -> Option<Finding> {
    let ends = [(case.sender(), "sender"), (case.receiver(), "receiver")];
    let (end, place, mut counted) = ends
        .into_iter()
        .map(|(end, place)| (end, place, counters(end)))
        .find(|(_, _, counted)| !counted.is_empty())?;
    counted.truncate(4);
    let host = host_name(&end.host, place);
    let summary = format!(
        "{host} ({place}) itself dropped packets: {}",
        counted.join(", ")
    );
    let mut found = finding(case, "host_drops", summary);
    found.confidence_ratio = if case.scene.dropped_by_hosts() {
        0.9
    } else {
        0.5
    };
    found.supports.push(format!(
        "{} segments were sent again in all",
        case.scene.retransmitted_segments()
    ));
    found.advice = advices(end, place);
    Some(found)
}

fn counters(end: &End) -> Vec<String> {
    let kernel = KERNEL.iter().map(|name| (*name, protocol(end, name)));
    let interface = end
        .interface
        .iter()
        .filter(|(name, _)| is_drop_counter(name));
    let all = kernel.chain(interface.map(|(name, grown)| (name.as_str(), *grown)));
    all.filter(|(_, grown)| *grown > 0)
        .map(|(name, grown)| format!("{name} {grown}"))
        .collect()
}

fn advices(end: &End, place: &str) -> Vec<Advice> {
    let memory = protocol(end, "TCPMemoryPressures") > 0 || protocol(end, "PruneCalled") > 0;
    let device = end
        .host
        .interface
        .as_ref()
        .map_or("<interface>", |i| i.name.as_str());
    let dropped = end
        .interface
        .iter()
        .any(|(name, grown)| *grown > 0 && is_drop_counter(name));
    let mut all = Vec::new();
    if memory {
        all.push(Advice {
            command: Some(String::from("sysctl net.ipv4.tcp_mem")),
            ..advice(place, String::from("The kernel's memory for TCP is short: raise net.ipv4.tcp_mem (pages), or ask for smaller buffers"))
        });
    }
    if dropped {
        all.push(Advice {
            command: Some(format!("ethtool -G {device} rx 8192 tx 8192")),
            ..advice(
                place,
                String::from("Longer rings; on a virtual device a longer txqueuelen"),
            )
        });
    }
    if all.is_empty() {
        all.push(Advice {
            command: Some(String::from("sysctl -w net.core.netdev_max_backlog=30000")),
            ..advice(
                place,
                String::from("A longer backlog between interface and TCP"),
            )
        });
    }
    all
}
