//! Estimates capacity, available bandwidth and a verdict for one direction from its trains.
//!
//! Source: docs/methods/available-bandwidth.md. Units: bit/s of IP. Error: the intervals.
//! Wrong when: the verdict or a flag says so.

use super::capacity::TrainDispersion;
use super::fusion::{FusedEstimate, MethodAgreement, fuse_methods};
use super::rate_sweep::BoundedValue;
use super::{TrainEvidence, bucket_detection};
use longhaul_model::report::v1::available::{
    AvailableEstimate, AvailablePlan, DirectionProbing, EstimateVerdict, MethodEstimate,
    TokenBucketEstimate, TokenBucketKind, TrainPurpose,
};

/// The parameters of the estimate of one direction.
struct DirectionEstimateTuning;

impl DirectionEstimateTuning {
    /// The maximum share of trains left out; with more, the run is disturbed.
    const MAX_DROPPED_RATIO: f64 = 0.5;
    /// A capacity within this ratio of the interface's speed is that of the interface.
    const OF_INTERFACE: f64 = 0.93;
    /// A batch longer than this does not come from a network card's timer.
    const MIN_TIME_SLOT_S: f64 = 1e-3;
    /// Bursts of cross traffic larger than this make short runs uncertain.
    const BURSTY_BITS: f64 = 150_000.0;
    /// The minimum half-width of the capacity's interval, and the maximum that the trains' spread adds.
    const MIN_CAPACITY_ERROR: f64 = 0.02;
    const MAX_SPREAD_RATIO: f64 = 0.2;
    /// Capacities above this ratio of the resolution limit are beyond it.
    const NEAR_RESOLUTION: f64 = 0.9;
    /// The maximum loss ratio without a policer.
    const MAX_UNEXPLAINED_LOSS_RATIO: f64 = 0.2;
}

/// The estimate of one direction, with what its findings need.
#[derive(Debug, Clone, PartialEq)]
pub struct EstimatedDirection {
    pub estimate: AvailableEstimate,
    pub evidence: TrainEvidence,
    pub fusion: Option<FusedEstimate>,
}

/// Estimates one direction. `loopback`: no link lies between the ends.
pub fn estimate_direction(
    plan: &AvailablePlan,
    probing: &DirectionProbing,
    loopback: bool,
) -> EstimatedDirection {
    let evidence = TrainEvidence::of(&probing.trains);
    let mut estimate = AvailableEstimate {
        probe_bytes: probing.probe_bytes,
        duration_us: probing.duration_us,
        loss_ratio: evidence.loss_ratio(),
        ..AvailableEstimate::default()
    };
    // Nothing queues on loopback: apparent cross traffic is other work of the host.
    let found = if loopback {
        None
    } else {
        bucket_detection::find_small_bucket(&evidence)
            .or_else(|| bucket_detection::find_large_bucket(&evidence))
            .or_else(|| bucket_detection::find_repeated_knee(&evidence))
    };
    let fusion = fuse_methods(&evidence);
    estimate.verdict = judge_direction(plan, probing, &evidence, fusion.as_ref(), found.as_ref());
    let told =
        matches!(estimate.verdict, EstimateVerdict::Estimated | EstimateVerdict::CapacityOnly);
    if loopback && told {
        estimate.verdict = EstimateVerdict::SenderLimited;
    }
    if let Some(dispersion) = evidence.dispersion {
        add_resolution(&mut estimate, plan, dispersion);
    }
    estimate.methods = list_methods(&evidence, fusion.as_ref());
    if let Some(fusion) = &fusion {
        let spread = evidence.dispersion.map_or(0.0, |d| d.spread_ratio);
        add_estimates(&mut estimate, fusion, spread);
    }
    match found {
        Some(found) => limit_to_bucket(&mut estimate, found),
        None if estimate.available_bps.is_some() => {
            estimate.longest_train_bytes = bucket_detection::measure_longest_train(&evidence);
        }
        None => {}
    }
    EstimatedDirection { estimate, evidence, fusion }
}

fn judge_direction(
    plan: &AvailablePlan,
    probing: &DirectionProbing,
    evidence: &TrainEvidence,
    fusion: Option<&FusedEstimate>,
    found: Option<&TokenBucketEstimate>,
) -> EstimateVerdict {
    if evidence.sent == 0 || evidence.lost == evidence.sent {
        return EstimateVerdict::NoAnswer;
    }
    let trains = (evidence.readings.len() + evidence.dropped.len()) as f64;
    let dropped = evidence.dropped.len() as f64 / trains;
    let too_lossy = evidence.loss_ratio() > DirectionEstimateTuning::MAX_UNEXPLAINED_LOSS_RATIO
        && found.is_none();
    if evidence.skew.is_some() || dropped > DirectionEstimateTuning::MAX_DROPPED_RATIO || too_lossy
    {
        return EstimateVerdict::Disturbed;
    }
    let (Some(dispersion), Some(fusion)) = (evidence.dispersion, fusion) else {
        // Bursts arrived, but all within a few batches.
        let came = evidence.readings.iter().any(|r| r.lost < r.packets);
        return if came { EstimateVerdict::BeyondResolution } else { EstimateVerdict::Disturbed };
    };
    let most = super::max_resolvable_bps(dispersion.batching_s, plan);
    let own = probing.interface_bps.is_some_and(|bps| {
        dispersion.capacity_bps > DirectionEstimateTuning::OF_INTERFACE * bps as f64
            && !is_slower_than_sender(evidence)
    });
    if dispersion.capacity_bps > DirectionEstimateTuning::NEAR_RESOLUTION * most {
        EstimateVerdict::BeyondResolution
    } else if (own || dispersion.unstrained)
        && fusion.available.is_none_or(|a| has_no_upper_bound(a, dispersion))
    {
        EstimateVerdict::SenderLimited
    } else if fusion.available.is_some() {
        EstimateVerdict::Estimated
    } else {
        EstimateVerdict::CapacityOnly
    }
}

/// Returns whether the path is as fast as the sender and nearly idle: it then has no upper bound.
fn has_no_upper_bound(available: BoundedValue, dispersion: TrainDispersion) -> bool {
    available.interval[1] > DirectionEstimateTuning::OF_INTERFACE * dispersion.capacity_bps
}

/// Returns whether trains below the interface's speed were stretched.
fn is_slower_than_sender(evidence: &TrainEvidence) -> bool {
    let strained = |d: &&super::rate_sweep::TrainStrain| d.strain > 0.1 + 3.0 * d.noise;
    evidence.data.iter().filter(strained).count() * 4 > evidence.data.len()
}

fn add_resolution(
    estimate: &mut AvailableEstimate,
    plan: &AvailablePlan,
    dispersion: TrainDispersion,
) {
    let most = super::max_resolvable_bps(dispersion.batching_s, plan);
    estimate.resolution_bps = Some(most as u64);
    if dispersion.batching_s > 0.0 {
        estimate.batching_ns = Some((dispersion.batching_s * 1e9) as u64);
    }
    if dispersion.batching_s > DirectionEstimateTuning::MIN_TIME_SLOT_S {
        add_flag(estimate, "time_slotted");
    }
}

fn add_estimates(estimate: &mut AvailableEstimate, fusion: &FusedEstimate, spread_ratio: f64) {
    let told = !matches!(
        estimate.verdict,
        EstimateVerdict::NoAnswer | EstimateVerdict::Disturbed | EstimateVerdict::BeyondResolution
    );
    if !told {
        return;
    }
    let capacity = fusion.capacity;
    estimate.capacity_bps = Some(capacity.value as u64);
    if estimate.verdict == EstimateVerdict::SenderLimited {
        add_flag(estimate, "sender_limited");
        return;
    }
    let least = DirectionEstimateTuning::MIN_CAPACITY_ERROR
        + 0.5 * spread_ratio.clamp(0.0, DirectionEstimateTuning::MAX_SPREAD_RATIO);
    estimate.capacity_interval_bps = Some(round_interval(capacity, least * capacity.value));
    let Some(available) = fusion.available else {
        return;
    };
    estimate.available_bps = Some(available.value.min(capacity.value) as u64);
    estimate.available_interval_bps = Some(round_interval(available, 0.0));
    estimate.available_spread_bps = fusion.spread_bps.map(|bps| bps as u64);
    match fusion.accord {
        MethodAgreement::SeveralHops => add_flag(estimate, "multi_hop"),
        MethodAgreement::Changed => add_flag(estimate, "unstable"),
        MethodAgreement::FairQueue => add_flag(estimate, "fair_queue"),
        MethodAgreement::Alone => add_flag(estimate, "one_method"),
        MethodAgreement::Agree => {}
    }
    if fusion.burst_bits > DirectionEstimateTuning::BURSTY_BITS {
        add_flag(estimate, "bursty");
    }
}

fn add_flag(estimate: &mut AvailableEstimate, word: &str) {
    estimate.flags.push(word.to_owned());
}

/// Returns the bounds as integers, at least `least` away from the value.
fn round_interval(level: BoundedValue, least: f64) -> [u64; 2] {
    let low = level.interval[0].min(level.value - least).max(0.0);
    let high = level.interval[1].max(level.value + least);
    [low.floor() as u64, high.ceil() as u64]
}

fn list_methods(evidence: &TrainEvidence, fusion: Option<&FusedEstimate>) -> Vec<MethodEstimate> {
    let queue = fusion.and_then(|f| f.by_queue);
    let sweep = fusion.and_then(|f| f.by_sweep);
    let weight = fusion.map_or(0.0, |f| f.queue_weight);
    let method =
        |name: &str, level: Option<BoundedValue>, weight_ratio: f64, why: String| MethodEstimate {
            name: name.to_owned(),
            available_bps: level.map(|l| l.value as u64),
            interval_bps: level.map(|l| round_interval(l, 0.0)),
            weight_ratio: if level.is_some() { weight_ratio } else { 0.0 },
            invalid: level.is_none().then_some(why),
        };
    vec![
        method("empty_queue", queue, weight, explain_invalid_queue(evidence)),
        method("rate_sweep", sweep, 1.0 - weight, explain_invalid_sweep(evidence)),
    ]
}

fn explain_invalid_queue(evidence: &TrainEvidence) -> String {
    let hidden_s = evidence.dispersion.map_or(0.0, |dispersion| dispersion.hidden_queue_s);
    match evidence.emptiness {
        Some(_) if hidden_s > 0.0 => {
            format!("a token bucket hides queues of up to {:.0} µs", hidden_s * 1e6)
        }
        None => String::from("too few small probes arrived"),
        Some(seen) => format!(
            "timestamp error {:.0} µs > queueing {:.0} µs",
            seen.noise_s * 1e6,
            seen.queue_s * 1e6
        ),
    }
}

fn explain_invalid_sweep(evidence: &TrainEvidence) -> String {
    let sweeps = || evidence.readings.iter().filter(|r| r.purpose == TrainPurpose::Sweep);
    let (all, lossy) = (sweeps().count(), sweeps().filter(|r| r.is_lossy()).count());
    if all == 0 {
        return String::from(
            "no rate sweep was sent: the path is too slow, or too few bytes were allowed",
        );
    }
    format!("{} of {all} trains usable ({lossy} lost too much)", evidence.data.len())
}

/// Limits the estimate to the sustained rate of a token bucket, even if short bursts passed faster.
fn limit_to_bucket(estimate: &mut AvailableEstimate, found: TokenBucketEstimate) {
    add_flag(
        estimate,
        match found.kind {
            TokenBucketKind::Shaper => "shaped",
            TokenBucketKind::Policer => "policed",
        },
    );
    let sustained = found.sustained_bps;
    if estimate.available_bps.is_some_and(|bps| bps > sustained) {
        estimate.available_bps = Some(sustained);
        if let Some([low, high]) = &mut estimate.available_interval_bps {
            *low = (*low).min(found.sustained_interval_bps.map_or(sustained, |i| i[0]));
            *high = (*high).min(found.sustained_interval_bps.map_or(sustained, |i| i[1]));
        }
    }
    estimate.bucket = Some(found);
}
