//! Findings from the results of one direction.
//!
//! Source: docs/methods/available-bandwidth.md. Units: bit/s of IP. Error: that of the figures.
//! Wrong when: a figure is; each finding names the evidence for it and against it.

use super::estimate::{Direction, middle_queue_s};
use super::fusion::Accord;
use crate::diagnose::{advice, unproven};
use crate::throughput::words::{percent, rate};
use longhaul_model::report::v1::available::{BucketKind, Estimate, Plan, Verdict};
use longhaul_model::report::v1::{Advice, Caveat, Finding};
use longhaul_model::units::Bytes;

/// The path is full if less than this share of the capacity is available.
const FULL_RATIO: f64 = 0.1;
/// The minimum number of trains left out for a caveat.
const TELLING_DROPS: usize = 3;

pub fn findings(direction: &Direction, word: &str) -> Vec<Finding> {
    let causes: [fn(&Direction, &str) -> Option<Finding>; 4] =
        [token_bucket, several_hops, full_path, time_slots];
    causes
        .iter()
        .filter_map(|cause| cause(direction, word))
        .collect()
}

fn token_bucket(direction: &Direction, word: &str) -> Option<Finding> {
    let bucket = direction.estimate.bucket.as_ref()?;
    let (cause, name, what) = match bucket.kind {
        BucketKind::Shaper => ("shaper", "Shaper", "the excess waits"),
        BucketKind::Policer => ("policer", "Policer", "the excess is dropped"),
    };
    let summary = format!(
        "{name}, {word}: {} for the first {}, then {}; {what}",
        rate(bucket.peak_bps),
        Bytes(bucket.burst_bytes),
        rate(bucket.sustained_bps),
    );
    let mut found = unproven(cause, bucket.confidence_ratio, summary);
    found.supports.push(match bucket.kind {
        BucketKind::Shaper => String::from("trains slow down after the same bytes each time"),
        BucketKind::Policer => {
            String::from("trains lose what exceeds one rate, and no queue grows")
        }
    });
    if direction.estimate.flags.iter().any(|f| f == "unstable") {
        found
            .contradicts
            .push(String::from("the load changed within this run"));
    }
    let text = format!(
        "Plan with {}; tests shorter than the burst report too much",
        rate(bucket.sustained_bps)
    );
    found.advice.push(Advice {
        expected_bps: Some(bucket.sustained_bps),
        ..advice("path", text)
    });
    Some(found)
}

fn several_hops(direction: &Direction, word: &str) -> Option<Finding> {
    let fusion = direction
        .fusion
        .as_ref()
        .filter(|f| f.accord == Accord::SeveralHops)?;
    let (queue, sweep) = (fusion.by_queue?, fusion.by_sweep?);
    let summary = format!(
        "More than one hop is loaded, {word}: trains find {} free, but all queues are empty only {} of the time",
        rate(sweep.value as u64),
        percent(queue.value / fusion.capacity.value),
    );
    let mut found = unproven("multi_hop_load", 0.7, summary);
    found.supports.push(String::from(
        "trains gain no delay at rates at which small probes often meet a queue",
    ));
    found.contradicts.push(String::from(
        "bursty traffic of one hop shows the same in some runs",
    ));
    found.advice.push(advice(
        "path",
        String::from("Measure again: three of five runs with this finding settle it; longhaul path tells the hops"),
    ));
    Some(found)
}

fn full_path(direction: &Direction, word: &str) -> Option<Finding> {
    let estimate = &direction.estimate;
    let (capacity, available) = (estimate.capacity_bps?, estimate.available_bps?);
    let high = estimate.available_interval_bps?[1];
    if available as f64 > FULL_RATIO * capacity as f64 {
        return None;
    }
    let summary = format!(
        "The path is full, {word}: {} of {} are free",
        rate(available),
        rate(capacity),
    );
    let sure = if high as f64 <= FULL_RATIO * capacity as f64 {
        0.9
    } else {
        0.6
    };
    let mut found = unproven("full_path", sure, summary);
    if let Some(queue_s) = middle_queue_s(&direction.evidence) {
        found.supports.push(format!(
            "small probes wait {:.2} ms in the middle",
            queue_s * 1e3
        ));
    }
    found.contradicts.push(String::from(
        "a new TCP flow still gets a share, from the flows that are there",
    ));
    found.advice.push(advice(
        "path",
        String::from(
            "Look at the other traffic before tuning hosts; a larger window takes from it",
        ),
    ));
    Some(found)
}

fn time_slots(direction: &Direction, word: &str) -> Option<Finding> {
    let estimate = &direction.estimate;
    let slot = estimate
        .batching_ns
        .filter(|_| estimate.flags.iter().any(|f| f == "time_slotted"))?;
    let summary = format!(
        "Packets arrive in batches every {:.1} ms, {word}: a link that grants time slots",
        slot as f64 / 1e6
    );
    let mut found = unproven("time_slotted_access", 0.6, summary);
    found.supports.push(String::from(
        "network cards batch for less than a millisecond",
    ));
    found.contradicts.push(String::from(
        "a receiver short of processor time batches as well",
    ));
    found.advice.push(advice(
        "path",
        String::from("Judge this path by rates over 50 ms and more; round trips swing by a slot"),
    ));
    Some(found)
}

/// Returns caveats about the limits of this measurement.
pub fn caveats(direction: &Direction, plan: &Plan, word: &str) -> Vec<Caveat> {
    let mut found = Vec::new();
    if let Some(text) = verdict_text(&direction.estimate, direction) {
        found.push(Caveat::new(
            direction.estimate.verdict.word(),
            format!("{word}: {text}"),
        ));
    }
    let dropped = &direction.evidence.dropped;
    if dropped.len() >= TELLING_DROPS {
        let text = format!(
            "{word}: {} trains were left out; the first because {}",
            dropped.len(),
            dropped[0].1
        );
        found.push(Caveat::new("trains_left_out", text));
    }
    if plan.mode == longhaul_model::report::v1::available::Mode::Light {
        let text = "light mode sends no trains of set rate: several loaded hops, and capacity behind a fast sender's load, go unseen";
        found.push(Caveat::new("light_mode", format!("{word}: {text}")));
    }
    found
}

fn verdict_text(estimate: &Estimate, direction: &Direction) -> Option<String> {
    let most = estimate.resolution_bps.unwrap_or(0);
    match estimate.verdict {
        Verdict::Estimated => None,
        Verdict::CapacityOnly => Some(String::from(
            "what is free could not be told; see the methods",
        )),
        Verdict::SenderLimited => Some(String::from(
            "the path is at least as fast as the sender; its capacity may be higher",
        )),
        Verdict::BeyondResolution if most > 0 => Some(format!(
            "these hosts tell capacities up to {}, with the clocks, batches and bytes of this run",
            rate(most)
        )),
        Verdict::BeyondResolution => Some(String::from(
            "every burst came in too few batches to be timed; ask for more bytes",
        )),
        Verdict::Disturbed => Some(disturbance(direction)),
        Verdict::NoAnswer => Some(String::from("no probe arrived: filtered, or no way")),
    }
}

fn disturbance(direction: &Direction) -> String {
    if let Some(skew) = direction.evidence.skew {
        return format!(
            "the receiver's clock runs {:.1} % off the sender's; no time of it is believed",
            skew * 100.0
        );
    }
    match direction.evidence.dropped.first() {
        Some((_, why)) => format!(
            "{} of {} trains could not be used; the first because {why}",
            direction.evidence.dropped.len(),
            direction.evidence.dropped.len() + direction.evidence.readings.len(),
        ),
        None => format!(
            "{} of the probes were lost",
            percent(estimate_loss(direction))
        ),
    }
}

fn estimate_loss(direction: &Direction) -> f64 {
    direction.evidence.loss_ratio()
}
