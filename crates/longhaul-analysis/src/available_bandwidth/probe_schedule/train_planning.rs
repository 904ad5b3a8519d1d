//! The trains of one round, planned from the results so far.
//!
//! Source: docs/methods/available-bandwidth.md. Units: bit/s of IP, seconds. Error: none.
//! Wrong when: never; the budget removes excess trains later.

use super::TrainBudget;
use crate::available_bandwidth::fusion::FusedEstimate;
use longhaul_model::report::v1::available::{
    AvailableMode, TrainPlan, TrainPurpose, TrainSchedule,
};
use longhaul_model::splitmix::SplitMix64;

/// The size of a small probe in IP bytes.
pub const SMALL_BYTES: u32 = 100;
/// The assumed rate of an unknown path: slow, so that the time budget holds.
pub const UNKNOWN_BPS: f64 = 1e7;

/// The parameters of the trains of a round.
struct TrainPlanTuning;

impl TrainPlanTuning {
    /// The number of trains in the first sweep, and their minimum number.
    const TRAINS: usize = 24;
    const MIN_TRAINS: usize = 10;
    /// The approximate number of packets in a train at the dispersion rate when the budget is tight.
    const SHORTEST_PACKETS: f64 = 25.0;
    const SWEEP_BITS: f64 = 4e6;
    const CAREFUL_SWEEP_BITS: f64 = 24e6;
    const MIN_TRAIN_S: f64 = 1.2e-3;
    /// The number of trains sent one after another without small probes between them.
    const TRAINS_TOGETHER: usize = 3;
    /// Small probes: their duration, their mean gap, and their maximum share of the path's rate.
    const IDLE_S: f64 = 1.2;
    const CAREFUL_IDLE_S: f64 = 3.0;
    const IDLE_GAP_S: f64 = 2e-3;
    const IDLE_LOAD: f64 = 0.03;
    /// Light mode: the time of its parts, their number, and the small probes of the first one.
    const LIGHT_S: f64 = 0.9;
    const LIGHT_PARTS: u32 = 3;
    const LIGHT_PROBES: u32 = 88;
    /// The transmission time of a packet above which small probes suffice and trains would disturb.
    const SLOW_PACKET_S: f64 = 0.6e-3;
    /// The rest before the long trains, so that a bucket is full again.
    const REFILL_US: u64 = 2_000_000;
    /// A look for a bucket: its duration, its bytes, and the rest before it.
    const LOOK_S: f64 = 0.1;
    const LOOK_BYTES: [f64; 2] = [120_000.0, 400_000.0];
    const LOOK_REST_S: f64 = 0.08;
    /// The share of time and bytes for the long trains; the rest is for their repetitions.
    const LONG_PART: f64 = 0.75;
    /// Repetitions: their length beyond the knee, and the time to drain before them.
    const REPETITION_KNEES: f64 = 1.7;
    const MIN_REPETITION_KNEES: f64 = 1.3;
    const MIN_PACKETS_AFTER_KNEE: u32 = 20;
    const FIRST_REPETITION_REST_US: u64 = 1_000_000;
    const MIN_REPETITION_REST_US: u64 = 60_000;
    /// The target error as a share of the capacity, for which more trains are planned.
    const WANTED_ERROR: f64 = 0.02;
    const MAX_MORE_TRAINS: usize = 48;
    /// The maximum number of packets that a server accepts in one request.
    const MAX_LONG_PACKETS: u32 = 150_000;
}

/// The parameters from which trains are planned.
#[derive(Debug, Clone, Copy)]
pub struct TrainShape {
    pub mode: AvailableMode,
    pub packet_bytes: u32,
    /// The speed of the sender's interface.
    pub interface_bps: Option<u64>,
    pub seed: u64,
    /// The dispersion rate of the bursts.
    pub rate_bps: f64,
    pub capacity_bps: f64,
    /// The rate of the long trains.
    pub long_bps: f64,
    /// Set if a token bucket lets small probes pass queues.
    pub hides_queues: bool,
    pub batching_s: f64,
    /// The available share of the capacity, or an assumption.
    pub free_ratio: f64,
}

impl TrainShape {
    fn bits(&self) -> f64 {
        f64::from(self.packet_bytes) * 8.0
    }

    fn train(&self, rate_bps: f64, seconds: f64, pause_s: f64) -> TrainPlan {
        let packets = (rate_bps * seconds / self.bits()).round() as u32;
        let packets = packets.clamp(10, super::super::MAX_TRAIN_PACKETS);
        let schedule = TrainSchedule::RateBps(rate_bps.max(1.0) as u64);
        self.plan(TrainPurpose::Sweep, packets, schedule, pause_s)
    }

    fn burst(&self, packets: u32, pause_s: f64) -> TrainPlan {
        self.plan(TrainPurpose::Burst, packets, TrainSchedule::BackToBack, pause_s)
    }

    fn idle(&self, packets: u32, gap_s: f64, pause_s: f64, seed: u64) -> TrainPlan {
        let seed = self.seed ^ seed;
        let schedule = TrainSchedule::Poisson { mean_gap_ns: (gap_s * 1e9) as u64, seed };
        let idle = self.plan(TrainPurpose::Idle, packets, schedule, pause_s);
        TrainPlan { packet_bytes: SMALL_BYTES, ..idle }
    }

    /// Returns a train that empties a token bucket.
    fn bucket(&self, packets: u32, pause_us: u64) -> TrainPlan {
        let purpose = TrainPurpose::Bucket;
        TrainPlan { purpose, packets, pause_us, ..self.train(self.long_bps, 0.0, 0.0) }
    }

    fn plan(
        &self,
        purpose: TrainPurpose,
        packets: u32,
        schedule: TrainSchedule,
        pause_s: f64,
    ) -> TrainPlan {
        let (packet_bytes, pause_us) = (self.packet_bytes, (pause_s * 1e6) as u64);
        TrainPlan { index: 0, purpose, packets, packet_bytes, schedule, pause_us }
    }

    /// Returns the time for small probes in one round of the mode.
    fn idle_s(&self) -> f64 {
        match self.mode {
            AvailableMode::Careful => TrainPlanTuning::CAREFUL_IDLE_S,
            _ => TrainPlanTuning::IDLE_S,
        }
    }

    /// Returns the time that the queue left by a train takes to drain.
    fn drain_s(&self, rate_bps: f64, seconds: f64) -> f64 {
        let over = (rate_bps / self.capacity_bps - self.free_ratio).max(0.0);
        (over * seconds / self.free_ratio).min(0.15)
    }
}

/// Plans one of the two rounds of light mode: a burst, with small probes before it and, at the end,
/// also after it.
pub fn plan_light_mode(
    shape: &TrainShape,
    purse: &TrainBudget,
    round: u32,
    packets: u32,
) -> Vec<TrainPlan> {
    let left = purse.bytes.saturating_sub(u64::from(packets * shape.packet_bytes));
    let affordable = (left / u64::from(SMALL_BYTES)) as u32;
    let part_s = TrainPlanTuning::LIGHT_S / f64::from(TrainPlanTuning::LIGHT_PARTS);
    let first = TrainPlanTuning::LIGHT_PROBES.min(affordable);
    if round == 0 {
        return vec![plan_light_probes(shape, first, part_s, 0), shape.burst(packets, 0.003)];
    }
    let part_s = (0.5 * (purse.seconds() - 0.01)).min(part_s);
    let each = affordable / 2;
    let before = plan_light_probes(shape, each, part_s, 1);
    vec![before, shape.burst(packets, 0.003), plan_light_probes(shape, each, part_s, 2)]
}

/// Plans so many small probes within the time.
fn plan_light_probes(shape: &TrainShape, probes: u32, seconds: f64, seed: u64) -> TrainPlan {
    let spread = f64::from(probes) + 2.0 * f64::from(probes).sqrt();
    let gap_s = (seconds - 0.02) / spread.max(1.0);
    shape.idle(probes, gap_s.max(1e-4), 0.012, seed)
}

pub fn plan_bursts(
    shape: &TrainShape,
    purse: &TrainBudget,
    count: u32,
    packets: u32,
) -> Vec<TrainPlan> {
    let affordable = purse.bytes / 3 / u64::from(count * shape.packet_bytes);
    let packets = packets.min(affordable.min(u64::from(super::super::MAX_TRAIN_PACKETS)) as u32);
    if packets < 4 {
        return Vec::new();
    }
    let span_s = f64::from(packets) * shape.bits() / shape.rate_bps;
    let pause_s = (2.0 * span_s + 0.003).min(0.1);
    (0..count).map(|_| shape.burst(packets, pause_s)).collect()
}

/// Plans small probes with the trains of the first sweep among them.
pub fn plan_main_sweep(shape: &TrainShape, purse: &TrainBudget) -> Vec<TrainPlan> {
    let careful = shape.mode == AvailableMode::Careful;
    let bits =
        if careful { TrainPlanTuning::CAREFUL_SWEEP_BITS } else { TrainPlanTuning::SWEEP_BITS };
    let bits = bits.min(purse.bits(shape.rate_bps) / 2.0);
    let seconds = compute_train_seconds(shape, bits, TrainPlanTuning::TRAINS)
        .max(TrainPlanTuning::SHORTEST_PACKETS * shape.bits() / shape.rate_bps);
    let affordable = (bits / (0.75 * shape.rate_bps * seconds)) as usize;
    let count = affordable.clamp(TrainPlanTuning::MIN_TRAINS, TrainPlanTuning::TRAINS);
    let mut rng = SplitMix64::new(shape.seed);
    let is_slow = shape.bits() / shape.rate_bps > TrainPlanTuning::SLOW_PACKET_S;
    if !careful && is_slow && !shape.hides_queues {
        // Trains and their queues would take most of the time and hide it from the probes.
        return interleave_idle_probes(shape, purse, &[], seconds, f64::MAX, &mut rng);
    }
    let mut rates = list_first_rates(shape, count);
    rng.shuffle(&mut rates);
    interleave_idle_probes(shape, purse, &rates, seconds, shape.idle_s(), &mut rng)
}

/// Plans trains slightly above the available bandwidth, and small probes, to narrow the interval.
pub fn plan_more_trains(
    shape: &TrainShape,
    purse: &TrainBudget,
    fusion: &FusedEstimate,
) -> Vec<TrainPlan> {
    let capacity = fusion.capacity.value;
    let available = fusion.available.map_or(0.5 * capacity, |a| a.value);
    let low = available + 0.1 * capacity;
    let high = (available + 0.5 * capacity).max(1.1 * capacity);
    let high = high.min(compute_max_rate(shape)).max(low);
    let middle = low.midpoint(high);
    let needed = fusion.burst_bits / TrainPlanTuning::WANTED_ERROR.powi(2) * middle / capacity;
    let bits = needed.min(purse.bits(shape.rate_bps) / 2.0);
    let least = compute_train_seconds(shape, 0.0, 1);
    // Long trains show a sharper knee; too long ones fill queues.
    let long = least.max(0.01 * (1e8 / capacity).clamp(0.2, 2.0));
    let count = ((bits / middle / long) as usize).clamp(8, TrainPlanTuning::MAX_MORE_TRAINS);
    let seconds = least.max(bits / middle / count as f64);
    let mut rng = SplitMix64::new(shape.seed);
    let step = (high - low) / count as f64;
    let mut rates: Vec<f64> = (0..count).map(|i| low + step * (i as f64 + 0.5)).collect();
    rng.shuffle(&mut rates);
    interleave_idle_probes(shape, purse, &rates, seconds, shape.idle_s(), &mut rng)
}

/// Plans pairs of bursts: one after a rest, and one without, which meets an empty token bucket.
pub fn plan_burst_pairs(shape: &TrainShape) -> Vec<TrainPlan> {
    let packets = 40;
    let gap_s = f64::from(packets) * shape.bits() / shape.rate_bps;
    let pair = || [shape.burst(packets, 0.05 + 2.0 * gap_s), shape.burst(packets, 0.2 * gap_s)];
    (0..3).flat_map(|_| pair()).collect()
}

/// Plans trains at full rate for the requested time, without gaps between them.
pub fn plan_long_trains(shape: &TrainShape, purse: &TrainBudget, time_us: u64) -> Vec<TrainPlan> {
    let rest_s = TrainPlanTuning::REFILL_US as f64 / 1e6 + 0.1;
    let seconds = (time_us as f64 / 1e6)
        .min(TrainPlanTuning::LONG_PART * (purse.seconds() - rest_s))
        .max(0.0);
    let most = (TrainPlanTuning::LONG_PART * purse.bytes as f64 * 8.0 / shape.bits()) as u32;
    let packets = ((shape.long_bps * seconds / shape.bits()) as u32).min(most);
    // Fast paths are probed for a shorter time.
    let mut packets = packets.min(TrainPlanTuning::MAX_LONG_PACKETS);
    let mut trains = Vec::new();
    while packets > 0 {
        let part = packets.min(super::super::MAX_TRAIN_PACKETS);
        packets -= part;
        let pause_us = if trains.is_empty() { TrainPlanTuning::REFILL_US } else { 0 };
        trains.push(shape.bucket(part, pause_us));
    }
    trains
}

/// Plans one train that outlasts a bucket of a usual size.
pub fn plan_bucket_look(shape: &TrainShape) -> Vec<TrainPlan> {
    let [least, most] = TrainPlanTuning::LOOK_BYTES;
    let bytes = (shape.long_bps / 8.0 * TrainPlanTuning::LOOK_S).clamp(least, most);
    let packets = (bytes * 8.0 / shape.bits()) as u32;
    // On a full path it would take too long.
    if f64::from(packets) * shape.bits() > 2.0 * TrainPlanTuning::LOOK_S * shape.long_bps {
        return Vec::new();
    }
    vec![shape.bucket(packets, (TrainPlanTuning::LOOK_REST_S * 1e6) as u64)]
}

/// Repeats the start of the long trains three times, each followed directly by another train.
pub fn plan_repeated_trains(
    shape: &TrainShape,
    knee_bytes: f64,
    sustained_bps: f64,
    is_search: bool,
) -> Vec<TrainPlan> {
    let knee = (knee_bytes * 8.0 / shape.bits()) as u32;
    let packets = (TrainPlanTuning::REPETITION_KNEES * f64::from(knee)) as u32
        + TrainPlanTuning::MIN_PACKETS_AFTER_KNEE;
    let packets = packets.min(super::super::MAX_TRAIN_PACKETS);
    if f64::from(packets) < TrainPlanTuning::MIN_REPETITION_KNEES * f64::from(knee) {
        return Vec::new();
    }
    let pair_s = f64::from(2 * packets) * shape.bits() / sustained_bps;
    let later_us = (1e6 * pair_s) as u64 + TrainPlanTuning::MIN_REPETITION_REST_US;
    let first_us = if is_search { TrainPlanTuning::FIRST_REPETITION_REST_US } else { later_us };
    [first_us, later_us, later_us]
        .into_iter()
        .flat_map(|rest_us| [shape.bucket(packets, rest_us), shape.bucket(packets, 0)])
        .collect()
}

fn compute_train_seconds(shape: &TrainShape, bits: f64, count: usize) -> f64 {
    let by_bits = bits / (0.75 * shape.rate_bps * count as f64);
    TrainPlanTuning::MIN_TRAIN_S.max(super::super::TRAIN_BATCHES * shape.batching_s).max(by_bits)
}

fn compute_max_rate(shape: &TrainShape) -> f64 {
    let line = shape.interface_bps.map_or(f64::MAX, |bps| 0.98 * bps as f64);
    line.min(1.6 * shape.rate_bps.max(0.8 * shape.capacity_bps))
}

/// Returns rates from well below to above the dispersion rate, and some at the maximum useful rate.
fn list_first_rates(shape: &TrainShape, count: usize) -> Vec<f64> {
    let most = compute_max_rate(shape);
    let low = 0.12 * shape.rate_bps;
    let high = (1.25 * shape.rate_bps).min(most);
    let even = count - count / 6;
    let step = (high - low) / (even - 1) as f64;
    let rates = (0..even).map(|i| low + step * i as f64);
    rates.chain(std::iter::repeat_n(most, count / 6)).collect()
}

/// Plans groups of three trains, with small probes before, between and after them, so that both
/// sample the same period.
fn interleave_idle_probes(
    shape: &TrainShape,
    purse: &TrainBudget,
    rates: &[f64],
    seconds: f64,
    idle_s: f64,
    rng: &mut SplitMix64,
) -> Vec<TrainPlan> {
    let gap_s = TrainPlanTuning::IDLE_GAP_S
        .max(f64::from(SMALL_BYTES) * 8.0 / (TrainPlanTuning::IDLE_LOAD * shape.rate_bps));
    let cost_s = |rate: f64| {
        let sent = (10.0 * shape.bits() / rate).max(seconds);
        sent + shape.drain_s(rate, sent) + (0.15 * seconds).max(1e-3) + 1e-3
    };
    let left = purse.seconds();
    // Trains use at most two thirds of the time. Their order is random, so the rest can go.
    let mut fits = 0.0;
    let rates: Vec<f64> = rates
        .iter()
        .copied()
        .take_while(|rate| {
            fits += cost_s(*rate);
            fits < 0.67 * left
        })
        .collect();
    let sweep_s: f64 = rates.iter().map(|r| cost_s(*r)).sum();
    // Long trains leave long queues: fewer, longer periods of small probes.
    let together = if seconds > 0.02 {
        2 * TrainPlanTuning::TRAINS_TOGETHER
    } else {
        TrainPlanTuning::TRAINS_TOGETHER
    };
    let groups = rates.len().div_ceil(together) + 1;
    let idle_s = idle_s.min(0.9 * (left - sweep_s)).max(0.0);
    let each = (idle_s / gap_s / groups as f64) as u32;
    let mut trains = Vec::new();
    let mut drain_s = 1e-3;
    for (group, seed) in (0..groups).zip(1u64..) {
        trains.push(shape.idle(each, gap_s, drain_s, seed << 32));
        drain_s = 1e-3;
        for rate in rates.iter().skip(group * together).take(together) {
            let random_s = -rng.between(1e-9, 1.0).ln() * (0.15 * seconds).max(1e-3);
            trains.push(shape.train(*rate, seconds, drain_s + random_s.min(0.1)));
            let sent = (10.0 * shape.bits() / rate).max(seconds);
            drain_s = shape.drain_s(*rate, sent) + 1e-3;
        }
    }
    trains
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::available_bandwidth::probe_schedule::PriorPathFacts;
    use longhaul_accuracy::available_accuracy::build_available_plan;

    #[test]
    fn a_long_look_at_a_fast_path_asks_for_no_more_than_a_far_end_takes() {
        let plan = longhaul_model::report::v1::available::AvailablePlan {
            most_bytes: u64::MAX / 16,
            shaper_time_us: Some(20_000_000),
            ..build_available_plan(AvailableMode::Careful, 1)
        };
        let facts =
            PriorPathFacts { idle_rtt_us: Some(10_000), interface_bps: None, path_mtu_bytes: None };
        let shape = TrainShape {
            mode: AvailableMode::Careful,
            packet_bytes: 1500,
            interface_bps: None,
            seed: 1,
            rate_bps: 1e9,
            capacity_bps: 1e9,
            long_bps: 0.97e9,
            hides_queues: false,
            batching_s: 0.0,
            free_ratio: 1.0,
        };
        let trains = plan_long_trains(&shape, &TrainBudget::new(&plan, facts), 20_000_000);
        let packets: u32 = trains.iter().map(|train| train.packets).sum();
        assert_eq!(packets, TrainPlanTuning::MAX_LONG_PACKETS);
    }
}
