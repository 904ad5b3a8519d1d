//! Findings from the results of one direction.
//!
//! Source: docs/methods/available-bandwidth.md. Units: bit/s of IP. Error: that of the figures.
//! Wrong when: a figure is; each finding names the evidence for it and against it.

use super::direction_estimate::EstimatedDirection;
use super::empty_queue;
use super::fusion::MethodAgreement;
use crate::throughput::{format_whole_percent, to_rate};
use longhaul_model::report::v1::available::{
    AvailableEstimate, AvailableMode, AvailablePlan, EstimateVerdict, TokenBucketKind,
};
use longhaul_model::report::v1::{ReportCaveat, ReportFinding};
use longhaul_model::units::Bytes;

/// The path is full if less than this share of the capacity is available.
const FULL_RATIO: f64 = 0.1;
/// The minimum number of trains left out for a caveat.
const MIN_REPORTED_DROPS: usize = 3;

pub fn list_findings(direction: &EstimatedDirection, word: &str) -> Vec<ReportFinding> {
    let causes: [fn(&EstimatedDirection, &str) -> Option<ReportFinding>; 4] =
        [find_token_bucket, find_several_hops, find_full_path, find_time_slots];
    causes.iter().filter_map(|cause| cause(direction, word)).collect()
}

fn find_token_bucket(direction: &EstimatedDirection, word: &str) -> Option<ReportFinding> {
    let bucket = direction.estimate.bucket.as_ref()?;
    let (cause, name, what, seen) = match bucket.kind {
        TokenBucketKind::Shaper => (
            "shaper",
            "Shaper",
            "queued",
            "trains slow down after the same number of bytes each time",
        ),
        TokenBucketKind::Policer => (
            "policer",
            "Policer",
            "dropped",
            "trains lose what exceeds one rate, and no queue builds up",
        ),
    };
    let summary = format!(
        "{name}, {word}: {} for the first {}, then {}; the excess is {what}",
        to_rate(bucket.peak_bps),
        Bytes(bucket.burst_bytes),
        to_rate(bucket.sustained_bps),
    );
    let mut found = ReportFinding::new(cause, bucket.confidence_ratio, summary);
    found.support(seen);
    if direction.estimate.flags.iter().any(|f| f == "unstable") {
        found.contradict("the load on the path changed during this run");
    }
    let text = format!(
        "Plan with {}; tests shorter than the burst overestimate",
        to_rate(bucket.sustained_bps)
    );
    found.advise("path", text).expected_bps = Some(bucket.sustained_bps);
    Some(found)
}

fn find_several_hops(direction: &EstimatedDirection, word: &str) -> Option<ReportFinding> {
    let fusion = direction.fusion.as_ref().filter(|f| f.accord == MethodAgreement::SeveralHops)?;
    let (queue, sweep) = (fusion.by_queue?, fusion.by_sweep?);
    let summary = format!(
        "More than one hop is loaded, {word}: the rate sweep finds {} available, but all queues are empty only {} of the time",
        to_rate(sweep.value as u64),
        format_whole_percent(queue.value / fusion.capacity.value),
    );
    let mut found = ReportFinding::new("multi_hop_load", 0.7, summary);
    found.support("trains see no added delay at rates at which small probes often find a queue");
    found.contradict("bursty cross traffic at a single hop looks the same in some runs");
    let text = "Repeat the measurement: the finding is reliable if three of five runs show it; longhaul path lists the hops";
    found.advise("path", text);
    Some(found)
}

fn find_full_path(direction: &EstimatedDirection, word: &str) -> Option<ReportFinding> {
    let estimate = &direction.estimate;
    let (capacity, available) = (estimate.capacity_bps?, estimate.available_bps?);
    let high = estimate.available_interval_bps?[1];
    if available as f64 > FULL_RATIO * capacity as f64 {
        return None;
    }
    let summary = format!(
        "The path is full, {word}: {} of {} available",
        to_rate(available),
        to_rate(capacity),
    );
    let sure = if high as f64 <= FULL_RATIO * capacity as f64 { 0.9 } else { 0.6 };
    let mut found = ReportFinding::new("full_path", sure, summary);
    if let Some(queue_s) = empty_queue::median_delay_s(&direction.evidence.readings) {
        found.support(format!("median queueing delay of small probes: {:.2} ms", queue_s * 1e3));
    }
    found.contradict("a new TCP flow still gets a share, taken from the existing flows");
    let text =
        "Check the other traffic before tuning the hosts; a larger window takes bandwidth from it";
    found.advise("path", text);
    Some(found)
}

fn find_time_slots(direction: &EstimatedDirection, word: &str) -> Option<ReportFinding> {
    let estimate = &direction.estimate;
    let slot =
        estimate.batching_ns.filter(|_| estimate.flags.iter().any(|f| f == "time_slotted"))?;
    let summary = format!(
        "Packets arrive in batches every {:.1} ms, {word}: a link with time slots (wireless, PON, DOCSIS)",
        slot as f64 / 1e6
    );
    let mut found = ReportFinding::new("time_slotted_access", 0.6, summary);
    found.support("interrupt coalescing batches for less than a millisecond");
    found.contradict("a CPU-bound receiver batches as well");
    found.advise("path", "Judge this path by rates over 50 ms or more; RTT varies by one slot");
    Some(found)
}

/// Returns caveats about the limits of this measurement.
pub fn list_caveats(
    direction: &EstimatedDirection,
    plan: &AvailablePlan,
    word: &str,
) -> Vec<ReportCaveat> {
    let mut found = Vec::new();
    if let Some(text) = describe_verdict(&direction.estimate, direction) {
        found.push(ReportCaveat::new(direction.estimate.verdict.word(), format!("{word}: {text}")));
    }
    if direction.estimate.flags.iter().any(|flag| flag == "fair_queue") {
        let text = "small probes pass the queues that trains meet, as with fair queueing: the available bandwidth is then what a new flow would get, also from the share of others";
        found.push(ReportCaveat::new("fair_queue", format!("{word}: {text}")));
    }
    let dropped = &direction.evidence.dropped;
    if dropped.len() >= MIN_REPORTED_DROPS {
        let text =
            format!("{word}: {} trains were not used (first: {})", dropped.len(), dropped[0].1);
        found.push(ReportCaveat::new("trains_left_out", text));
    }
    if plan.mode == AvailableMode::Light {
        let text = "light mode has no rate sweep: it cannot detect several loaded hops, nor capacity above the sender's rate";
        found.push(ReportCaveat::new("light_mode", format!("{word}: {text}")));
    }
    found
}

fn describe_verdict(
    estimate: &AvailableEstimate,
    direction: &EstimatedDirection,
) -> Option<String> {
    let most = estimate.resolution_bps.unwrap_or(0);
    match estimate.verdict {
        EstimateVerdict::Estimated => None,
        EstimateVerdict::CapacityOnly => Some(String::from(
            "available bandwidth could not be determined; see the results of the methods",
        )),
        EstimateVerdict::SenderLimited => {
            Some(String::from("the sender could not overrun the path; its capacity may be higher"))
        }
        EstimateVerdict::BeyondResolution if most > 0 => {
            Some(format!("resolution limit of these hosts in this run: {}", to_rate(most)))
        }
        EstimateVerdict::BeyondResolution => Some(String::from(
            "every burst arrived in too few batches to be timed; allow more bytes",
        )),
        EstimateVerdict::Disturbed => Some(describe_disturbance(direction)),
        EstimateVerdict::NoAnswer => Some(String::from("no probe arrived: filtered, or no route")),
    }
}

fn describe_disturbance(direction: &EstimatedDirection) -> String {
    if let Some(skew) = direction.evidence.skew {
        return format!(
            "the receiver's clock rate differs from the sender's by {:.1} %; its timestamps are not used",
            skew * 100.0
        );
    }
    match direction.evidence.dropped.first() {
        Some((_, why)) => format!(
            "{} of {} trains were not usable (first: {why})",
            direction.evidence.dropped.len(),
            direction.evidence.dropped.len() + direction.evidence.readings.len(),
        ),
        None => format!(
            "{} of the probes were lost",
            format_whole_percent(direction.evidence.loss_ratio())
        ),
    }
}
