//! Combines both methods and checks whether they agree.
//!
//! The share of probes that found the queue empty is further evidence for A/C in the posterior of
//! the sweep. If the methods contradict each other, they are not combined: a sweep well above the
//! empty queue means several loaded hops, one well below it a load that changed.
//!
//! Source: docs/decisions/0013-two-methods-fused.md. Units: bit/s of IP. Error: measured coverage
//! in docs/methods/available-bandwidth.md. Wrong when: both methods err the same way.

use super::TrainEvidence;
use super::empty_queue::{self, EmptyQueueShare};
use super::hidden_queue;
use super::rate_sweep::{self, BoundedValue, SweepPosterior, SweepPrior};
use crate::stats::median;

/// The parameters of the fusion of the two methods.
struct FusionTuning;

impl FusionTuning {
    /// The error of the fluid model itself, as a share of C.
    const MODEL_ERROR: f64 = 0.015;
    /// The same error if cross traffic got between the bursts' packets: C is then less certain.
    const SPARSE_BURST_ERROR: f64 = 0.03;
    /// The difference above which several hops are loaded, in standard errors and as a share of C.
    const MIN_DIFFERENCE_SIGMAS: f64 = 1.6;
    const MIN_DIFFERENCE_RATIO: f64 = 0.08;
    /// A difference too small for the flag, but the interval is then extended to the sweep's value.
    const HINT_RATIO: f64 = 0.06;
    /// The difference in the other direction above which the load changed, in standard errors.
    const MIN_CHANGE_SIGMAS: f64 = 2.5;
    /// Three tenths of a full-size packet in bits: noise that lasts longer hides queues.
    const NOISE_BITS: f64 = 3_600.0;
    const MIN_HIDDEN_SIGMAS: f64 = 2.0;
    /// The minimum ratio of the available bandwidth to the rate of bursts if a link is fair, and the
    /// error of a flow's share by bursts only, as a share of C.
    const FAIR_TRAIN_RATIO: f64 = 0.8;
    const FAIR_BURST_ERROR: f64 = 0.04;
    /// The minimum number of trains in a sweep.
    const MIN_SWEEP_TRAINS: usize = 8;
    /// The error of the fluid model with several loaded hops, as a share of C.
    const SEVERAL_HOPS_ERROR: f64 = 0.08;
}

/// The agreement of the two methods.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MethodAgreement {
    Agree,
    SeveralHops,
    Changed,
    /// The link serves flows fairly: trains get a share, and small probes do not wait.
    FairQueue,
    /// Only one method is valid.
    Alone,
}

/// The result of each method, and the combined one.
#[derive(Debug, Clone, PartialEq)]
pub struct FusedEstimate {
    pub capacity: BoundedValue,
    /// Absent if neither method is valid.
    pub available: Option<BoundedValue>,
    pub by_queue: Option<BoundedValue>,
    pub by_sweep: Option<BoundedValue>,
    /// The weight of the empty-queue method in the combined result.
    pub queue_weight: f64,
    pub accord: MethodAgreement,
    pub burst_bits: f64,
    /// The spread of the available bandwidth over the duration of a train, if trains were sent.
    pub spread_bps: Option<f64>,
}

/// Combines both methods; `None` without a usable burst.
pub fn fuse_methods(evidence: &TrainEvidence) -> Option<FusedEstimate> {
    let dispersion = evidence.dispersion?;
    let base_bps = dispersion.capacity_bps;
    let queue =
        evidence.emptiness.filter(|q| q.is_valid(base_bps) && dispersion.hidden_queue_s <= 0.0);
    let swept = evidence.data.len() >= FusionTuning::MIN_SWEEP_TRAINS;
    let hidden = evidence.emptiness.filter(|q| !swept && q.credit_s > 0.0);
    let queue = queue.filter(|_| hidden.is_none());
    let prior = SweepPrior {
        base_bps,
        error_ratio: dispersion.error_ratio,
        // Only a sweep decides whether all bursts were too slow.
        hidden_ratio: if swept { dispersion.spread_ratio.min(0.2) } else { 0.0 },
        burst_bits: queue.and_then(|q| compute_burst_bits(q, base_bps)),
    };
    let data = if swept { evidence.data.as_slice() } else { &[] };
    let posterior = rate_sweep::compute_posterior(data, prior);
    let seconds: f64 = data.iter().map(|d| d.seconds).sum();
    // The trains' own scatter may be low by chance; the bursts seen in the queue are real.
    let sampling =
        prior.burst_bits.filter(|_| swept).map_or(0.0, |bits| (bits * base_bps / seconds).sqrt());
    let model_ratio =
        if dispersion.dense { FusionTuning::MODEL_ERROR } else { FusionTuning::SPARSE_BURST_ERROR };
    let fusion = match hidden {
        Some(seen) => estimate_hidden_queue(&posterior, &seen, model_ratio),
        None => combine_estimates(&posterior, swept, queue, sampling, model_ratio),
    };
    let fusion = check_fair_queue(fusion, evidence, swept);
    let bps = fusion.capacity.value;
    let spread_bps = median(data.iter().map(|d| d.seconds))
        .map(|seconds| (fusion.burst_bits * bps / seconds).sqrt().min(0.5 * bps));
    Some(FusedEstimate { spread_bps, ..fusion })
}

/// Returns the size in bits of a typical burst, derived from the mean queue.
fn compute_burst_bits(queue: EmptyQueueShare, capacity_bps: f64) -> Option<f64> {
    let share = queue.empty_ratio;
    let bits = 2.0 * capacity_bps * queue.queue_s * share * (1.0 - share);
    (bits > 0.0).then_some(bits.max(1e3))
}

/// Replaces the estimate where bursts and trains show fair queueing: trains are then as fast as bursts,
/// or small probes hardly wait, although neighbouring packets show a faster link.
fn check_fair_queue(fusion: FusedEstimate, evidence: &TrainEvidence, swept: bool) -> FusedEstimate {
    let (Some(dispersion), Some(seen)) = (evidence.dispersion, evidence.emptiness) else {
        return fusion;
    };
    let Some(pair_bps) = dispersion.pair_bps else {
        return fusion;
    };
    let stretch_bps = dispersion.capacity_bps;
    if !are_pairs_on_time(evidence, pair_bps, stretch_bps, seen.noise_s) {
        return fusion;
    }
    let by_sweep = fusion
        .by_sweep
        .filter(|sweep| swept && sweep.value > FusionTuning::FAIR_TRAIN_RATIO * stretch_bps);
    let by_bursts = Some(dispersion.rate_bps)
        .filter(|_| {
            let waits = empty_queue::waits_for_one_packet(seen, stretch_bps);
            !swept && waits && seen.credit_s <= 0.0
        })
        .map(|value| BoundedValue {
            value,
            deviation: FusionTuning::FAIR_BURST_ERROR * pair_bps,
            interval: [-1.96, 1.96].map(|z| value + z * FusionTuning::FAIR_BURST_ERROR * pair_bps),
        });
    let Some(level) = by_sweep.or(by_bursts) else {
        return fusion;
    };
    let faster = pair_bps / fusion.capacity.value;
    let capacity = BoundedValue {
        value: pair_bps,
        deviation: fusion.capacity.deviation * faster,
        interval: fusion.capacity.interval.map(|bps| bps * faster),
    };
    let (accord, model) = (MethodAgreement::FairQueue, FusionTuning::SPARSE_BURST_ERROR);
    let available = widen_interval(level, capacity, accord, model, None, None);
    FusedEstimate { capacity, available: Some(available), accord, queue_weight: 0.0, ..fusion }
}

/// Returns false if late timestamps may make packets look closer together than the link passes them: a
/// host that was late takes them one after the other in its own time.
fn are_pairs_on_time(
    evidence: &TrainEvidence,
    pair_bps: f64,
    stretch_bps: f64,
    noise_s: f64,
) -> bool {
    let bits = evidence.readings.iter().map(|reading| reading.bits).fold(0.0, f64::max);
    bits / stretch_bps - bits / pair_bps > noise_s
}

/// Estimates from small probes only, of which a token bucket passes some at once.
fn estimate_hidden_queue(
    posterior: &SweepPosterior,
    seen: &EmptyQueueShare,
    model_ratio: f64,
) -> FusedEstimate {
    let logs = hidden_queue::compute_share_logs(seen, posterior.capacity().value);
    let joined = posterior.with_share_logs(&logs);
    let (capacity, by_queue) = (joined.capacity(), Some(joined.available()));
    let accord = MethodAgreement::Alone;
    let widen = |level| widen_interval(level, capacity, accord, model_ratio, by_queue, None);
    FusedEstimate {
        capacity,
        available: by_queue.map(widen),
        by_queue,
        by_sweep: None,
        queue_weight: 1.0,
        accord,
        burst_bits: posterior.burst_bits,
        spread_bps: None,
    }
}

fn combine_estimates(
    posterior: &SweepPosterior,
    swept: bool,
    queue: Option<EmptyQueueShare>,
    sampling_bps: f64,
    model_ratio: f64,
) -> FusedEstimate {
    let capacity = posterior.capacity();
    let by_sweep = swept.then(|| posterior.available());
    let queue = queue.filter(|q| !is_queue_hidden_by_noise(q, by_sweep, capacity));
    let queue_share = queue.map(|q| {
        // Our own probes contribute to the queue too.
        let ours = q.probe_bps / capacity.value;
        ((q.empty_ratio + ours).min(1.0), q.error_ratio)
    });
    let joined = queue_share.map(|(share, error)| posterior.with_share(share, error));
    let by_queue = queue_share.map(|(share, error)| multiply_share(capacity, share, error));
    let accord = compare_methods(by_queue, by_sweep, capacity.value, sampling_bps);
    let is_fair = queue
        .zip(by_sweep)
        .is_some_and(|(seen, sweep)| empty_queue::is_fair_queue(seen, capacity.value, sweep.value));
    let contradicts = matches!(accord, MethodAgreement::SeveralHops | MethodAgreement::Changed);
    let accord = if contradicts && is_fair { MethodAgreement::FairQueue } else { accord };
    let (level, at, queue_weight) = match (accord, &joined) {
        (
            // A queue that small probes pass, as through a token bucket, misleads the other method.
            MethodAgreement::SeveralHops | MethodAgreement::FairQueue | MethodAgreement::Changed,
            _,
        )
        | (_, None) => (by_sweep, capacity, 0.0),
        (_, Some(joined)) => {
            let weight = by_sweep.zip(by_queue).map_or(1.0, |(s, q)| {
                let (s, q) = (s.deviation.powi(2), q.deviation.powi(2));
                s / (s + q).max(f64::MIN_POSITIVE)
            });
            (Some(joined.available()), joined.capacity(), weight)
        }
    };
    FusedEstimate {
        available: level
            .map(|level| widen_interval(level, at, accord, model_ratio, by_queue, by_sweep)),
        capacity: at,
        by_queue,
        by_sweep,
        queue_weight,
        accord,
        burst_bits: posterior.burst_bits,
        spread_bps: None,
    }
}

/// Returns whether noise as long as a packet hides queues and so inflates the empty share.
fn is_queue_hidden_by_noise(
    queue: &EmptyQueueShare,
    by_sweep: Option<BoundedValue>,
    capacity: BoundedValue,
) -> bool {
    by_sweep.is_some_and(|sweep| {
        let error = sweep
            .deviation
            .hypot(capacity.value * queue.error_ratio.hypot(FusionTuning::MODEL_ERROR));
        queue.noise_s > FusionTuning::NOISE_BITS / capacity.value
            && queue.empty_ratio * capacity.value - sweep.value
                > FusionTuning::MIN_HIDDEN_SIGMAS * error
    })
}

fn compare_methods(
    by_queue: Option<BoundedValue>,
    by_sweep: Option<BoundedValue>,
    capacity_bps: f64,
    sampling_bps: f64,
) -> MethodAgreement {
    let (Some(queue), Some(sweep)) = (by_queue, by_sweep) else {
        return MethodAgreement::Alone;
    };
    let model = FusionTuning::MODEL_ERROR * capacity_bps;
    let scatter = sweep.deviation.max(sampling_bps);
    let error = queue.deviation.hypot(scatter).hypot(model * std::f64::consts::SQRT_2);
    let apart = sweep.value - queue.value;
    if apart > FusionTuning::MIN_DIFFERENCE_SIGMAS * error
        && apart > FusionTuning::MIN_DIFFERENCE_RATIO * capacity_bps
    {
        MethodAgreement::SeveralHops
    } else if -apart > FusionTuning::MIN_CHANGE_SIGMAS * error {
        MethodAgreement::Changed
    } else {
        MethodAgreement::Agree
    }
}

fn multiply_share(capacity: BoundedValue, share: f64, error: f64) -> BoundedValue {
    let deviation = (capacity.value * error).hypot(capacity.deviation * share);
    let value = capacity.value * share;
    BoundedValue {
        value,
        deviation,
        interval: [(value - 1.96 * deviation).max(0.0), value + 1.96 * deviation],
    }
}

/// Adds the model's own error and any contradiction to the interval.
fn widen_interval(
    level: BoundedValue,
    capacity: BoundedValue,
    accord: MethodAgreement,
    model_ratio: f64,
    by_queue: Option<BoundedValue>,
    by_sweep: Option<BoundedValue>,
) -> BoundedValue {
    let capacity_bps = capacity.value;
    let model = match accord {
        MethodAgreement::SeveralHops => FusionTuning::SEVERAL_HOPS_ERROR,
        _ => model_ratio,
    } * capacity_bps;
    let reach = |to: f64| (to - level.value).hypot(1.96 * model);
    let mut low = level.value - reach(level.interval[0]);
    let mut high = level.value + reach(level.interval[1]);
    let hint = by_sweep.zip(by_queue).map_or(0.0, |(sweep, queue)| sweep.value - queue.value);
    if accord == MethodAgreement::Agree && hint > FusionTuning::HINT_RATIO * capacity_bps {
        high = high.max(by_sweep.map_or(high, |sweep| sweep.value));
    }
    if accord == MethodAgreement::Changed {
        for other in [by_queue, by_sweep].into_iter().flatten() {
            low = low.min(other.value);
            high = high.max(other.value);
        }
    }
    BoundedValue {
        deviation: level.deviation.hypot(model),
        interval: [low.max(0.0), high.min(capacity.interval[1].max(level.value))],
        ..level
    }
}
