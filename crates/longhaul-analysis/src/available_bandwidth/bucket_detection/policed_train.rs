//! Detection of a policer by the losses of one long train.
//!
//! A policer passes the first packets, until its bucket is empty, and from then on one packet for
//! each packet of tokens. Its losses are therefore spread evenly over the rest of the train,
//! whereas random losses wander around their mean, and nothing queues.
//!
//! Source: the largest deviation from the mean is compared with that of a random walk (Kolmogorov).
//! Units: bytes of IP, bit/s. Error: one packet of those that passed.
//! Wrong when: others use much of the policer's rate; repeated trains may show it then.

use super::{BucketDetectionTuning, TokenBucketEstimate, TokenBucketKind, knee, list_bounds};
use crate::available_bandwidth::TrainEvidence;
use crate::available_bandwidth::train_reading::{
    ReceivedPacket, TrainReading, compute_packet_rate,
};
use crate::stats::median;

/// The parameters of the losses of one train.
struct PolicedTrainTuning;

impl PolicedTrainTuning {
    /// The maximum deviation from even losses, in standard deviations of the number of random ones:
    /// these stay as close to their mean in fewer than one of a hundred trains.
    const MAX_DEVIATION: f64 = 0.4;
    /// The maximum growth of the delay, as a share of the time that the burst would be queued.
    const MAX_QUEUED_RATIO: f64 = 0.5;
}

/// Finds a policer whose bucket the first long train emptied.
pub fn find_policed_train(evidence: &TrainEvidence) -> Option<TokenBucketEstimate> {
    fit_policer(knee::list_first_long_trains(evidence).first()?)
}

fn fit_policer(train: &TrainReading) -> Option<TokenBucketEstimate> {
    let is_after_loss = |(place, point): (usize, &ReceivedPacket)| point.index != place;
    let first_lost = train.points.iter().enumerate().position(is_after_loss)?;
    let (before, after) = train.points.split_at(first_lost);
    let passed_ratio = after.len() as f64 / (train.packets - first_lost) as f64;
    let packet_bytes = train.bits / 8.0;
    // Tokens arrive while the burst passes.
    let burst_bytes = first_lost as f64 * packet_bytes * (1.0 - passed_ratio);
    let span_s = after.last()?.received_s - after.first()?.received_s;
    let sustained_bps = (after.len() - 1) as f64 * train.bits / span_s.max(1e-9);
    let least_s = before.iter().map(ReceivedPacket::delay_s).fold(f64::INFINITY, f64::min);
    let waited_s = median(after.iter().map(ReceivedPacket::delay_s))? - least_s;
    let queued_s = PolicedTrainTuning::MAX_QUEUED_RATIO * burst_bytes * 8.0 / sustained_bps;
    if burst_bytes < BucketDetectionTuning::MIN_BURST_PACKETS * packet_bytes
        || !are_losses_even(after, first_lost, passed_ratio)
        || waited_s > queued_s
    {
        return None;
    }
    let packet_ratio = 1.0 / after.len() as f64;
    let burst_error = BucketDetectionTuning::BURST_ERROR.max(packet_bytes / burst_bytes);
    Some(TokenBucketEstimate {
        kind: TokenBucketKind::Policer,
        peak_bps: compute_packet_rate(before, train.bits)? as u64,
        sustained_bps: sustained_bps as u64,
        sustained_interval_bps: Some(list_bounds(sustained_bps, packet_ratio.max(0.02))),
        burst_bytes: burst_bytes as u64,
        burst_interval_bytes: Some(list_bounds(burst_bytes, burst_error)),
        confidence_ratio: 0.9,
    })
}

/// Returns whether the packets that arrived from this place on are those of even losses.
fn are_losses_even(after: &[ReceivedPacket], first_lost: usize, passed_ratio: f64) -> bool {
    let deviations = after.iter().zip(1u32..).map(|(point, passed)| {
        let sent = (point.index + 1 - first_lost) as f64;
        (f64::from(passed) - passed_ratio * sent).abs()
    });
    let random = (after.len() as f64 * (1.0 - passed_ratio)).sqrt();
    deviations.fold(0.0, f64::max) <= PolicedTrainTuning::MAX_DEVIATION * random
}

#[cfg(test)]
mod tests {
    use super::*;
    use longhaul_model::report::v1::available::{ProbeTrain, TrainPurpose};
    use longhaul_model::splitmix::SplitMix64;

    const PACKETS: u64 = 266;
    const PACKET_BYTES: f64 = 1500.0;
    const OFFERED_BPS: f64 = 185e6;

    /// Builds a long train with the delays that `pass` returns for its packets.
    fn build_evidence(mut pass: impl FnMut(u64) -> Option<f64>) -> TrainEvidence {
        let gap_s = PACKET_BYTES * 8.0 / OFFERED_BPS;
        let at_ns = |packet: u64, delay_s: f64| ((packet as f64 * gap_s + delay_s) * 1e9) as u64;
        TrainEvidence::of(&[ProbeTrain {
            index: 0,
            purpose: TrainPurpose::Bucket,
            packet_bytes: PACKET_BYTES as u32,
            rate_bps: Some(OFFERED_BPS as u64),
            micro_burst_packets: 1,
            sent_at_ns: 0,
            sent_ns: (0..PACKETS).map(|packet| at_ns(packet, 0.0)).collect(),
            received_at_ns: 0,
            received_ns: (0..PACKETS).map(|it| Some(at_ns(it, pass(it)?))).collect(),
            clock_step_ns: None,
            spoilt: None,
        }])
    }

    /// Returns the delay of each packet behind a bucket of 60 kB and a queue of this length.
    fn police(rate_bps: f64, queue_bytes: f64) -> impl FnMut(u64) -> Option<f64> {
        let (bucket, mut tokens) = (60_000.0, 60_000.0);
        move |_| {
            let filled = tokens + rate_bps / OFFERED_BPS * PACKET_BYTES;
            tokens = f64::min(bucket, filled);
            let left = tokens - PACKET_BYTES;
            (left >= -queue_bytes).then(|| {
                tokens = left;
                (-left).max(0.0) * 8.0 / rate_bps
            })
        }
    }

    #[test]
    fn one_long_train_tells_the_rate_and_the_bucket_of_a_policer() {
        let found = find_policed_train(&build_evidence(police(30e6, 0.0))).expect("a policer");
        assert!((found.sustained_bps as f64 / 30e6 - 1.0).abs() < 0.02, "{found:?}");
        assert!((found.burst_bytes as f64 / 60_000.0 - 1.0).abs() < 0.05, "{found:?}");
        assert_eq!(found.kind, TokenBucketKind::Policer);
    }

    #[test]
    fn an_overflowing_queue_is_no_policer() {
        assert_eq!(find_policed_train(&build_evidence(police(30e6, 120_000.0))), None);
    }

    #[test]
    fn random_loss_is_hardly_ever_a_policer() {
        let found = (0..200).filter(|seed| {
            let mut random = SplitMix64::new(*seed);
            let lossy = |_| (random.between(0.0, 1.0) > 0.2).then_some(0.0);
            find_policed_train(&build_evidence(lossy)).is_some()
        });
        assert_eq!(found.count(), 0);
    }
}
