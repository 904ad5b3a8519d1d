//! A lab path as JSON, by the rules of reports: units in names; absent means unlimited or unset.

use longhaul_lab::path_limits;
use longhaul_lab::path_spec::{HopSpec, LinkSpec, PathSpec};
use serde_json::{Map, Value, json};
use std::time::Duration;

/// Returns the whole path and the values that follow from it.
pub fn path_json(path: &PathSpec) -> Value {
    let direction = |forward| {
        let narrow = path_limits::find_narrow_link(path, forward);
        object_of_present([
            ("path_mtu_bytes", Some(json!(path_limits::find_path_mtu(path, forward)))),
            ("capacity_bps", narrow.map(|n| json!(n.rate.as_bps()))),
            ("narrow_link_hop", narrow.map(|n| json!(n.hop + 1))),
            (
                "goodput_limit_bps",
                path_limits::compute_goodput_limit(path, forward).map(|rate| json!(rate.as_bps())),
            ),
        ])
    };
    let hops = |hops: &[HopSpec]| hops.iter().map(hop_json).collect::<Value>();
    let routes: Map<String, Value> =
        path.routes.iter().map(|(name, route)| (name.clone(), hops(route))).collect();
    object_of_present([
        ("key", Some(json!(path.key))),
        ("name", Some(json!(path.name))),
        ("near_city", path.near.city.as_ref().map(|c| json!(c))),
        ("far_city", path.far.city.as_ref().map(|c| json!(c))),
        ("rtt_us", Some(micros_json(path_limits::compute_rtt(path)))),
        ("bdp_bytes", path_limits::compute_bdp_bytes(path).map(|n| json!(n))),
        ("forward", Some(direction(true))),
        ("reverse", Some(direction(false))),
        ("near_sysctl", Some(json!(path.near.sysctl))),
        ("far_sysctl", Some(json!(path.far.sysctl))),
        ("machine_sysctl", Some(json!(path.machine.sysctl))),
        ("hops", Some(hops(&path.hops))),
        ("routes", Some(Value::Object(routes))),
        ("events", Some(json!(path.events.len()))),
        ("begin_at_us", (!path.begin_at.is_zero()).then(|| micros_json(path.begin_at))),
    ])
}

fn hop_json(hop: &HopSpec) -> Value {
    object_of_present([
        ("name", Some(json!(hop.name))),
        ("city", hop.city.as_ref().map(|c| json!(c))),
        ("silent", Some(json!(hop.silent))),
        ("icmp_per_second", hop.icmp_limit.map(|n| json!(n))),
        ("forward", Some(link_json(&hop.forward))),
        ("reverse", Some(link_json(&hop.reverse))),
    ])
}

fn link_json(link: &LinkSpec) -> Value {
    let rate = |rate: longhaul_model::units::Rate| json!(rate.as_bps());
    let some = |time: Duration| (!time.is_zero()).then(|| micros_json(time));
    object_of_present([
        ("delay_us", Some(micros_json(link.delay))),
        ("jitter_us", some(link.jitter)),
        ("rate_bps", link.rate.map(rate)),
        ("queue_bytes", link.queue.map(|bytes| json!(bytes.0))),
        ("loss_ratio", (link.loss > 0.0).then(|| json!(link.loss))),
        (
            "reorder",
            link.reorder.map(
                |r| json!({"share_ratio": r.share, "late_by_us": r.late_by.as_micros() as u64}),
            ),
        ),
        (
            "policer",
            link.policer.map(|p| json!({"rate_bps": p.rate.as_bps(), "burst_bytes": p.burst.0})),
        ),
        (
            "shaper",
            link.shaper.map(|s| {
                json!({
                    "peak_bps": s.peak.as_bps(),
                    "sustained_bps": s.sustained.as_bps(),
                    "burst_bytes": s.burst.0,
                })
            }),
        ),
        (
            "cross",
            link.cross.map(|c| json!({"rate_bps": c.rate.as_bps(), "pattern": c.pattern.name()})),
        ),
        ("mtu_bytes", link.mtu.map(|n| json!(n))),
    ])
}

fn micros_json(time: Duration) -> Value {
    json!(time.as_micros() as u64)
}

/// Returns an object without the absent fields.
fn object_of_present<const N: usize>(fields: [(&str, Option<Value>); N]) -> Value {
    let present = fields.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
    Value::Object(present.collect())
}
