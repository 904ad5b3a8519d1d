//! Detection of a policer: the excess over a rate is dropped instead of queued.
//!
//! Fast trains pass without loss until the tokens are gone; then the share that passes is the rate.
//!
//! Source: token replay, after Flach et al. (SIGCOMM 2016). Units: bytes of IP, bit/s.
//! Error: rate 3 %, burst a tenth. Wrong when: a link's queue is shorter than a train's excess.

use super::{TokenBucketEstimate, TokenBucketKind};
use crate::available_bandwidth::train_evidence::TrainEvidence;
use crate::available_bandwidth::train_reading::TrainReading;
use crate::stats::quantile::{median, quantile, sort_finite};
use longhaul_model::report::v1::available::TrainPurpose;

/// The parameters of the detection of a policer by trains.
struct PolicerDetectionTuning;

impl PolicerDetectionTuning {
    /// The minimum number of lossy trains.
    const MIN_LOSSY_TRAINS: usize = 4;
    /// The minimum number of packets after the first loss.
    const MIN_PACKETS_AFTER_LOSS: usize = 12;
    /// The maximum growth of the delay, as a share of the train, at which nothing was queued.
    const MAX_DELAY_STRAIN: f64 = 0.05;
    /// The maximum spread of the rates found by the trains.
    const MAX_RATE_SPREAD: f64 = 0.25;
}

pub fn find_policer(evidence: &TrainEvidence) -> Option<TokenBucketEstimate> {
    let lossy: Vec<&TrainReading> = evidence
        .readings
        .iter()
        .filter(|r| matches!(r.purpose, TrainPurpose::Sweep | TrainPurpose::Burst) && r.is_lossy())
        .collect();
    let unqueued = |r: &&&TrainReading| {
        r.strain().is_none_or(|(strain, _)| strain < PolicerDetectionTuning::MAX_DELAY_STRAIN)
    };
    let calm = lossy.iter().filter(unqueued).count();
    if lossy.len() < PolicerDetectionTuning::MIN_LOSSY_TRAINS || 4 * calm < 3 * lossy.len() {
        return None;
    }
    let looks: Vec<(f64, f64, f64)> =
        lossy.iter().filter_map(|r| estimate_policed_rate(r)).collect();
    let rates = sort_finite(looks.iter().map(|l| l.0));
    let (low, high) = (quantile(&rates, 0.25)?, quantile(&rates, 0.75)?);
    let sustained = median(rates.iter().copied())?;
    if rates.len() < PolicerDetectionTuning::MIN_LOSSY_TRAINS
        || high - low > PolicerDetectionTuning::MAX_RATE_SPREAD * sustained
    {
        return None;
    }
    let burst = median(looks.iter().map(|l| l.1))?;
    let peak = looks.iter().map(|l| l.2).fold(0.0, f64::max);
    Some(TokenBucketEstimate {
        kind: TokenBucketKind::Policer,
        peak_bps: peak as u64,
        sustained_bps: sustained as u64,
        sustained_interval_bps: Some([(0.97 * low) as u64, (1.03 * high) as u64]),
        burst_bytes: burst as u64,
        burst_interval_bytes: None,
        confidence_ratio: 0.8,
    })
}

/// Returns the rate after the first loss, the excess bytes that passed before it, and the send
/// rate.
fn estimate_policed_rate(reading: &TrainReading) -> Option<(f64, f64, f64)> {
    let first_lost = reading.points.iter().enumerate().find(|(i, p)| p.index != *i)?.0;
    let sent_bps = reading.sent_bps()?;
    let after = reading.points.get(first_lost..)?;
    let (from, to) = (after.first()?, after.last()?);
    let offered = (to.index - from.index) as f64;
    if offered < PolicerDetectionTuning::MIN_PACKETS_AFTER_LOSS as f64 {
        return None;
    }
    let rate = sent_bps * (after.len() - 1) as f64 / offered;
    let before = first_lost as f64 * reading.bits / 8.0;
    Some((rate, before * (1.0 - rate / sent_bps).max(0.0), sent_bps))
}
