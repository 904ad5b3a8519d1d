//! The ground truth of a run as JSON, for judging measurements.
//!
//! Bytes are `_bytes` (of IP, or `wire_bytes` with the overhead of each packet), rates `_bps` in
//! bit/s, times `_ns` on the time line of the path's events, on which it began at `begin_at_ns`.
//! Inapplicable members are absent.

use crate::emulation_engine::ground_truth::{CrossTruth, HopTruth, LinkTruth, RouteTruth};
use crate::lab_runtime::{LabBackend, LabReading, LatenessHistogram, find_timing_caveat};
use crate::path_spec;
use crate::path_spec::{CrossPattern, PathSpec};
use longhaul_model::units::Rate;
use serde_json::{Map, Value, json};
use std::time::Duration;

/// Returns the whole truth file.
pub(crate) fn build_truth(
    spec: &PathSpec,
    backend: LabBackend,
    reading: &LabReading,
    caveats: &[String],
) -> Value {
    let truth = &reading.truth;
    let caveats: Vec<&str> = caveats.iter().map(String::as_str).collect();
    let events = truth
        .events
        .iter()
        .map(|event| json!({"at_ns": to_json_nanos(event.at), "text": event.text}));
    let routes = truth.routes.iter().map(|route| encode_route(spec, route));
    drop_nulls(json!({
        "path": spec.key,
        "begin_at_ns": to_json_nanos(truth.begin_at),
        "at_ns": to_json_nanos(truth.at),
        "backend": backend.name(),
        "rtt_ns": to_json_nanos(path_spec::compute_rtt(spec)),
        "mtu_bytes": spec.mtu,
        "goodput_limit_bps": drop_nulls(json!({
            "forward": path_spec::compute_goodput_limit(spec, true).map(Rate::as_bps),
            "reverse": path_spec::compute_goodput_limit(spec, false).map(Rate::as_bps),
        })),
        "routes": routes.collect::<Vec<_>>(),
        "events": events.collect::<Vec<_>>(),
        "lateness": encode_lateness(&reading.lateness),
        "timing_kept": find_timing_caveat(reading).is_none(),
        "overrun_packets": reading.overrun,
        "refused_packets": reading.refused,
        "memory_bytes": truth.memory_bytes,
        "caveats": caveats,
    }))
}

fn to_json_nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// Removes null members: a value that was not read is absent.
fn drop_nulls(value: Value) -> Value {
    match value {
        Value::Object(members) => {
            let kept = members.into_iter().filter(|(_, value)| !value.is_null());
            Value::Object(kept.collect::<Map<_, _>>())
        }
        other => other,
    }
}

fn encode_lateness(lateness: &LatenessHistogram) -> Value {
    drop_nulls(json!({
        "packets": lateness.count(),
        "mean_ns": lateness.mean().map(to_json_nanos),
        "p99_ns": lateness.p99().map(to_json_nanos),
        "max_ns": lateness.max().map(to_json_nanos),
    }))
}

fn encode_route(spec: &PathSpec, route: &RouteTruth) -> Value {
    let hops = spec.routes.get(&route.name).unwrap_or(&spec.hops);
    let patterns = |forward: bool, at: usize| {
        let hop = hops.get(at)?;
        path_spec::link_in_direction(hop, forward).cross.map(|cross| cross.pattern)
    };
    let hops = route
        .hops
        .iter()
        .enumerate()
        .map(|(at, hop)| encode_hop(hop, at + 1, [patterns(true, at), patterns(false, at)]));
    json!({"name": route.name, "active": route.active, "hops": hops.collect::<Vec<_>>()})
}

fn encode_hop(hop: &HopTruth, number: usize, patterns: [Option<CrossPattern>; 2]) -> Value {
    json!({
        "hop": number,
        "name": hop.name,
        "forward": encode_link(&hop.forward, patterns[0]),
        "reverse": encode_link(&hop.reverse, patterns[1]),
        "icmp_sent": hop.router.icmp_sent,
        "icmp_withheld": hop.router.icmp_withheld,
    })
}

fn encode_link(link: &LinkTruth, pattern: Option<CrossPattern>) -> Value {
    let overhead = u64::from(link.overhead_bytes) * link.left.packets;
    let mut drops = json!(link.drops);
    drops["total"] = json!(link.drops.total());
    drop_nulls(json!({
        "entered_packets": link.entered.packets,
        "entered_bytes": link.entered.bytes,
        "packets": link.left.packets,
        "bytes": link.left.bytes,
        "wire_bytes": link.left.bytes + overhead,
        "drops": drops,
        "queue_bytes": link.queue_bytes,
        "queue_peak_bytes": link.queue_peak_bytes,
        "queue_limit_bytes": link.queue_limit_bytes,
        "delay_ns": to_json_nanos(link.delay),
        "capacity_bps": link.capacity.map(Rate::as_bps),
        "sustained_bps": link.sustained.map(Rate::as_bps),
        "cross": link.cross.map(|cross| encode_cross(cross, pattern)),
    }))
}

fn encode_cross(cross: CrossTruth, known: Option<CrossPattern>) -> Value {
    drop_nulls(json!({
        "pattern": known.map(CrossPattern::name),
        "offered_wire_bytes": cross.offered_bytes,
        "carried_wire_bytes": cross.carried_bytes,
        "dropped_wire_bytes": cross.dropped_bytes,
    }))
}
