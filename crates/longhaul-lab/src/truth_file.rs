//! The ground truth of a run as JSON, for judging measurements.
//!
//! Bytes are `_bytes` (of IP, or `wire_bytes` with the overhead of each packet), rates `_bps` in
//! bit/s, times `_ns` on the time line of the path's events, on which it began at `begin_at_ns`.
//! Inapplicable members are absent.

use crate::describe::pattern;
use crate::engine::truth::{CrossTruth, HopTruth, LinkTruth, RouteTruth};
use crate::figures;
use crate::runtime::{Backend, Lateness, Reading, timing_caveat};
use crate::spec::{CrossPattern, PathSpec};
use longhaul_model::units::Rate;
use serde_json::{Map, Value, json};
use std::io;
use std::path::Path;
use std::time::Duration;

/// Returns the whole truth file.
pub(crate) fn truth(
    spec: &PathSpec,
    backend: Backend,
    reading: &Reading,
    caveats: &[String],
) -> Value {
    let truth = &reading.truth;
    let caveats: Vec<&str> = caveats.iter().map(String::as_str).collect();
    let events = truth
        .events
        .iter()
        .map(|event| json!({"at_ns": nanos(event.at), "text": event.text}));
    let routes = truth.routes.iter().map(|route| route_truth(spec, route));
    present(json!({
        "path": spec.key,
        "begin_at_ns": nanos(truth.begin_at),
        "at_ns": nanos(truth.at),
        "backend": backend.name(),
        "rtt_ns": nanos(figures::rtt(spec)),
        "mtu_bytes": spec.mtu,
        "goodput_limit_bps": present(json!({
            "forward": figures::goodput_limit(spec, true).map(Rate::as_bps),
            "reverse": figures::goodput_limit(spec, false).map(Rate::as_bps),
        })),
        "routes": routes.collect::<Vec<_>>(),
        "events": events.collect::<Vec<_>>(),
        "lateness": lateness(&reading.lateness),
        "timing_kept": timing_caveat(reading).is_none(),
        "overrun_packets": reading.overrun,
        "refused_packets": reading.refused,
        "memory_bytes": truth.memory_bytes,
        "caveats": caveats,
    }))
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// Removes null members: a value that was not read is absent.
fn present(value: Value) -> Value {
    match value {
        Value::Object(members) => {
            let kept = members.into_iter().filter(|(_, value)| !value.is_null());
            Value::Object(kept.collect::<Map<_, _>>())
        }
        other => other,
    }
}

fn lateness(lateness: &Lateness) -> Value {
    present(json!({
        "packets": lateness.count(),
        "mean_ns": lateness.mean().map(nanos),
        "p99_ns": lateness.p99().map(nanos),
        "max_ns": lateness.max().map(nanos),
    }))
}

fn route_truth(spec: &PathSpec, route: &RouteTruth) -> Value {
    let hops = spec.routes.get(&route.name).unwrap_or(&spec.hops);
    let patterns = |forward: bool, at: usize| {
        let hop = hops.get(at)?;
        figures::direction(hop, forward)
            .cross
            .map(|cross| cross.pattern)
    };
    let hops = route
        .hops
        .iter()
        .enumerate()
        .map(|(at, hop)| hop_truth(hop, at + 1, [patterns(true, at), patterns(false, at)]));
    json!({"name": route.name, "active": route.active, "hops": hops.collect::<Vec<_>>()})
}

fn hop_truth(hop: &HopTruth, number: usize, patterns: [Option<CrossPattern>; 2]) -> Value {
    json!({
        "hop": number,
        "name": hop.name,
        "forward": link_truth(&hop.forward, patterns[0]),
        "reverse": link_truth(&hop.reverse, patterns[1]),
        "icmp_sent": hop.router.icmp_sent,
        "icmp_withheld": hop.router.icmp_withheld,
    })
}

fn link_truth(link: &LinkTruth, pattern: Option<CrossPattern>) -> Value {
    let overhead = u64::from(link.overhead_bytes) * link.left.packets;
    present(json!({
        "entered_packets": link.entered.packets,
        "entered_bytes": link.entered.bytes,
        "packets": link.left.packets,
        "bytes": link.left.bytes,
        "wire_bytes": link.left.bytes + overhead,
        "drops": {
            "queue": link.drops.queue,
            "loss": link.drops.loss,
            "policer": link.drops.policer,
            "shaper": link.drops.shaper,
            "ttl": link.drops.ttl,
            "mtu": link.drops.mtu,
            "total": link.drops.total(),
        },
        "queue_bytes": link.queue_bytes,
        "queue_peak_bytes": link.queue_peak_bytes,
        "queue_limit_bytes": link.queue_limit_bytes,
        "delay_ns": nanos(link.delay),
        "capacity_bps": link.capacity.map(Rate::as_bps),
        "sustained_bps": link.sustained.map(Rate::as_bps),
        "cross": link.cross.map(|cross| cross_truth(cross, pattern)),
    }))
}

fn cross_truth(cross: CrossTruth, known: Option<CrossPattern>) -> Value {
    present(json!({
        "pattern": known.map(pattern),
        "offered_wire_bytes": cross.offered_bytes,
        "carried_wire_bytes": cross.carried_bytes,
        "dropped_wire_bytes": cross.dropped_bytes,
    }))
}

/// Writes the file atomically.
pub(crate) fn write(path: &Path, truth: &Value) -> io::Result<()> {
    let mut unfinished = path.as_os_str().to_owned();
    unfinished.push(format!(".{}.new", std::process::id()));
    let unfinished = Path::new(&unfinished);
    std::fs::write(unfinished, format!("{truth:#}\n"))?;
    std::fs::rename(unfinished, path)
}
