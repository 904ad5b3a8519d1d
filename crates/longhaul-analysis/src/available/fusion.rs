//! What do the methods say together, and do they agree?
//!
//! The share of probes that found the queue empty is one more piece of evidence for A/C in the
//! posterior of the sweep. Where both contradict each other they are not mixed: a sweep well above
//! the empty queue means several loaded hops, one well below it a load that changed.
//!
//! Source: docs/decisions/0013-two-methods-fused.md. Units: bit/s of IP. Error: measured coverage in
//! docs/methods/available-bandwidth.md. Wrong when: both methods err the same way.

use super::evidence::Evidence;
use super::idle::Emptiness;
use super::sweep::{self, Level, Posterior, Prior};
use crate::stats::quantile::median;

/// Error of the fluid model itself, as a share of C.
const MODEL_ERROR: f64 = 0.015;
/// The same where others' packets stood between those of the bursts, and C is less sure for it.
const THIN_ERROR: f64 = 0.03;
/// Beyond this many standard errors, and this share of C, several hops are loaded.
const APART: f64 = 1.6;
const APART_RATIO: f64 = 0.08;
/// Too little for a flag, but the interval then holds the sweep's value too.
const HINT_RATIO: f64 = 0.06;
/// The other way round the load changed.
const APART_BELOW: f64 = 2.5;
/// Three tenths of a full packet, in bits: noise that lasts longer hides queues.
const NOISE_BITS: f64 = 3_600.0;
const HIDES: f64 = 2.0;
/// Trains that a sweep needs.
const LEAST_TRAINS: usize = 8;
/// With several loaded hops the fluid model is off by this share of C.
const SEVERAL_HOPS_ERROR: f64 = 0.08;
/// A known capacity holds when the present figure is at most this much below it.
const KNOWN_RATIO: f64 = 0.15;

/// How the two methods go together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Accord {
    Agree,
    SeveralHops,
    Changed,
    /// One method only.
    Alone,
}

/// Both methods, and both together.
#[derive(Debug, Clone, PartialEq)]
pub struct Fusion {
    pub capacity: Level,
    /// Absent: neither method is valid.
    pub available: Option<Level>,
    pub by_queue: Option<Level>,
    pub by_sweep: Option<Level>,
    /// Of the empty queue in the fused figure.
    pub queue_weight: f64,
    pub accord: Accord,
    pub burst_bits: f64,
    /// Of one train, where there were trains.
    pub train_s: Option<f64>,
}

impl Fusion {
    /// Spread of the available bandwidth over the time of a train.
    pub fn spread_bps(&self) -> Option<f64> {
        let seconds = self.train_s?;
        Some(
            (self.burst_bits * self.capacity.value / seconds)
                .sqrt()
                .min(0.5 * self.capacity.value),
        )
    }
}

/// `known_bps`: capacity from earlier runs. `None` when no burst could be read.
pub fn fuse(evidence: &Evidence, known_bps: Option<f64>) -> Option<Fusion> {
    let dispersion = evidence.dispersion?;
    let base_bps = match known_bps {
        Some(known) if (1.0 - KNOWN_RATIO..1.0).contains(&(dispersion.capacity_bps / known)) => {
            known
        }
        _ => dispersion.capacity_bps,
    };
    let queue = evidence.emptiness.filter(|q| q.is_valid(base_bps));
    let prior = Prior {
        base_bps,
        error_ratio: dispersion.error_ratio,
        hidden_ratio: dispersion.spread_ratio.min(0.2),
        burst_bits: queue.and_then(|q| burst_bits(q, base_bps)),
    };
    let swept = evidence.data.len() >= LEAST_TRAINS;
    let data = if swept { evidence.data.as_slice() } else { &[] };
    let posterior = sweep::posterior(data, prior);
    let seconds: f64 = data.iter().map(|d| d.seconds).sum();
    // The trains' own scatter may be luck; the bursts that the queue showed are not.
    let sampling = prior
        .burst_bits
        .filter(|_| swept)
        .map_or(0.0, |bits| (bits * base_bps / seconds).sqrt());
    let model_ratio = if dispersion.dense {
        MODEL_ERROR
    } else {
        THIN_ERROR
    };
    let fusion = join(&posterior, swept, queue, sampling, model_ratio);
    Some(Fusion {
        train_s: median(data.iter().map(|d| d.seconds)),
        ..fusion
    })
}

/// Bits of a typical burst, as the mean queue of a link with such bursts shows them.
fn burst_bits(queue: Emptiness, capacity_bps: f64) -> Option<f64> {
    let share = queue.empty_ratio;
    let bits = 2.0 * capacity_bps * queue.queue_s * share * (1.0 - share);
    (bits > 0.0).then_some(bits.max(1e3))
}

fn join(
    posterior: &Posterior,
    swept: bool,
    queue: Option<Emptiness>,
    sampling_bps: f64,
    model_ratio: f64,
) -> Fusion {
    let capacity = posterior.capacity();
    let by_sweep = swept.then(|| posterior.available());
    let queue = queue.filter(|q| !noise_hides(q, by_sweep, capacity));
    let queue_share = queue.map(|q| {
        // Our own probes fill the queue too.
        let ours = q.rate_hz * q.bits / capacity.value;
        ((q.empty_ratio + ours).min(1.0), q.error_ratio)
    });
    let joined = queue_share.map(|(share, error)| posterior.with_share(share, error));
    let by_queue = queue_share.map(|(share, error)| product(capacity, share, error));
    let accord = accord(by_queue, by_sweep, capacity.value, sampling_bps);
    let (level, at, queue_weight) = match (accord, &joined) {
        (Accord::Agree | Accord::Changed, Some(joined)) => {
            let weight = by_sweep.zip(by_queue).map_or(1.0, |(s, q)| {
                let (s, q) = (s.deviation.powi(2), q.deviation.powi(2));
                s / (s + q).max(f64::MIN_POSITIVE)
            });
            (Some(joined.available()), joined.capacity(), weight)
        }
        (Accord::Alone, Some(joined)) => (Some(joined.available()), joined.capacity(), 1.0),
        _ => (by_sweep, capacity, 0.0),
    };
    Fusion {
        available: level.map(|level| widened(level, at, (accord, model_ratio), by_queue, by_sweep)),
        capacity: at,
        by_queue,
        by_sweep,
        queue_weight,
        accord,
        burst_bits: posterior.burst_bits,
        train_s: None,
    }
}

/// Noise as long as a packet hides queues, so a share well above what the trains saw is its doing.
fn noise_hides(queue: &Emptiness, by_sweep: Option<Level>, capacity: Level) -> bool {
    by_sweep.is_some_and(|sweep| {
        let error = sweep
            .deviation
            .hypot(capacity.value * queue.error_ratio.hypot(MODEL_ERROR));
        queue.noise_s > NOISE_BITS / capacity.value
            && queue.empty_ratio * capacity.value - sweep.value > HIDES * error
    })
}

fn accord(
    by_queue: Option<Level>,
    by_sweep: Option<Level>,
    capacity_bps: f64,
    sampling_bps: f64,
) -> Accord {
    let (Some(queue), Some(sweep)) = (by_queue, by_sweep) else {
        return Accord::Alone;
    };
    let model = MODEL_ERROR * capacity_bps;
    let scatter = sweep.deviation.max(sampling_bps);
    let error = queue
        .deviation
        .hypot(scatter)
        .hypot(model * std::f64::consts::SQRT_2);
    let apart = sweep.value - queue.value;
    if apart > APART * error && apart > APART_RATIO * capacity_bps {
        Accord::SeveralHops
    } else if -apart > APART_BELOW * error {
        Accord::Changed
    } else {
        Accord::Agree
    }
}

fn product(capacity: Level, share: f64, error: f64) -> Level {
    let deviation = (capacity.value * error).hypot(capacity.deviation * share);
    let value = capacity.value * share;
    Level {
        value,
        deviation,
        interval: [
            (value - 1.96 * deviation).max(0.0),
            value + 1.96 * deviation,
        ],
    }
}

/// The model's own error goes into the interval, and a contradiction does too.
fn widened(
    level: Level,
    capacity: Level,
    (accord, model_ratio): (Accord, f64),
    by_queue: Option<Level>,
    by_sweep: Option<Level>,
) -> Level {
    let capacity_bps = capacity.value;
    let model = match accord {
        Accord::SeveralHops => SEVERAL_HOPS_ERROR,
        _ => model_ratio,
    } * capacity_bps;
    let reach = |to: f64| (to - level.value).hypot(1.96 * model);
    let mut low = level.value - reach(level.interval[0]);
    let mut high = level.value + reach(level.interval[1]);
    let hint = by_sweep
        .zip(by_queue)
        .map_or(0.0, |(sweep, queue)| sweep.value - queue.value);
    if accord == Accord::Agree && hint > HINT_RATIO * capacity_bps {
        high = high.max(by_sweep.map_or(high, |sweep| sweep.value));
    }
    if accord == Accord::Changed {
        for other in [by_queue, by_sweep].into_iter().flatten() {
            low = low.min(other.value);
            high = high.max(other.value);
        }
    }
    Level {
        deviation: level.deviation.hypot(model),
        interval: [
            low.max(0.0),
            high.min(capacity.interval[1].max(level.value)),
        ],
        ..level
    }
}
