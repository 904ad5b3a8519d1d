//! Due times of a train's packets, and the number of packets per send call.

use longhaul_model::report::v1::available::{TrainPlan, TrainSchedule};
use longhaul_model::splitmix::SplitMix64;

/// Rate from which several packets are sent per call, because single calls are too slow.
const MICRO_BURSTS_FROM_BPS: u64 = 2_000_000_000;
/// Length from which a burst is meant for a fast path.
const MIN_LONG_BURST: u32 = 128;
/// Packets per call for fast trains.
const MICRO_BURST: u32 = 8;

/// Returns the number of packets per send call.
pub(super) fn micro_burst_packets(train: &TrainPlan) -> u32 {
    let many = match train.schedule {
        TrainSchedule::BackToBack => train.packets >= MIN_LONG_BURST,
        TrainSchedule::RateBps(rate) => rate >= MICRO_BURSTS_FROM_BPS,
        TrainSchedule::Poisson { .. } => false,
    };
    if many { MICRO_BURST } else { 1 }
}

/// Iterates over the due times of the packets, in nanoseconds from the first.
pub(super) struct PacketSchedule {
    schedule: TrainSchedule,
    packet_bits: u64,
    packets: u64,
    random: SplitMix64,
    at_ns: u64,
}

impl PacketSchedule {
    pub fn for_train(train: &TrainPlan) -> PacketSchedule {
        let random = match train.schedule {
            TrainSchedule::Poisson { seed, .. } => seed,
            _ => 0,
        };
        PacketSchedule {
            schedule: train.schedule,
            packet_bits: u64::from(train.packet_bytes) * 8,
            packets: 0,
            random: SplitMix64::new(random),
            at_ns: 0,
        }
    }

    /// Returns the next packet's due time.
    pub fn next_due_ns(&mut self) -> u64 {
        let at = match self.schedule {
            TrainSchedule::BackToBack => 0,
            // Computed from the count, so that rounding errors do not accumulate.
            TrainSchedule::RateBps(rate) => {
                let bits = u128::from(self.packet_bits) * u128::from(self.packets);
                let at = bits * 1_000_000_000 / u128::from(rate.max(1));
                u64::try_from(at).unwrap_or(u64::MAX)
            }
            TrainSchedule::Poisson { mean_gap_ns, .. } => {
                let gap =
                    if self.packets == 0 { 0.0 } else { mean_gap_ns as f64 * self.exponential() };
                self.at_ns = self.at_ns.saturating_add(gap as u64);
                self.at_ns
            }
        };
        self.packets += 1;
        at
    }

    /// Returns an exponential variate with mean 1, at most 20.
    fn exponential(&mut self) -> f64 {
        let uniform = ((self.random.next_u64() >> 11) as f64 + 0.5) / (1_u64 << 53) as f64;
        (-uniform.ln()).min(20.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use longhaul_model::report::v1::available::TrainPurpose;

    fn train(schedule: TrainSchedule, packets: u32) -> TrainPlan {
        TrainPlan {
            index: 0,
            purpose: TrainPurpose::Sweep,
            packets,
            packet_bytes: 1500,
            schedule,
            pause_us: 0,
        }
    }

    fn times(schedule: TrainSchedule, packets: u32) -> Vec<u64> {
        let mut due = PacketSchedule::for_train(&train(schedule, packets));
        (0..packets).map(|_| due.next_due_ns()).collect()
    }

    #[test]
    fn a_rate_spaces_packets_evenly_without_adding_up_errors() {
        let times = times(TrainSchedule::RateBps(7_000_000), 2001);
        assert_eq!(times[0], 0);
        // 2000 packets of 12 000 bits at 7 Mbit/s.
        assert_eq!(times[2000], 3_428_571_428);
    }

    #[test]
    fn random_gaps_have_their_mean_and_their_spread_and_come_again_from_the_seed() {
        let schedule = |seed| TrainSchedule::Poisson { mean_gap_ns: 2_000_000, seed };
        let first = times(schedule(5), 4001);
        assert_eq!(first, times(schedule(5), 4001));
        assert_ne!(first, times(schedule(6), 4001));
        let mean = first[4000] as f64 / 4000.0;
        assert!((1.9e6..2.1e6).contains(&mean), "{mean}");
        let longer = first.windows(2).filter(|pair| pair[1] - pair[0] > 2_000_000);
        let share = longer.count() as f64 / 4000.0;
        // exp(-1)
        assert!((0.34..0.40).contains(&share), "{share}");
    }

    #[test]
    fn only_fast_trains_leave_in_micro_bursts() {
        let of = |schedule, packets| micro_burst_packets(&train(schedule, packets));
        assert_eq!(of(TrainSchedule::BackToBack, 17), 1);
        assert_eq!(of(TrainSchedule::BackToBack, 1000), 8);
        assert_eq!(of(TrainSchedule::RateBps(1_999_999_999), 1000), 1);
        assert_eq!(of(TrainSchedule::RateBps(5_000_000_000), 10), 8);
    }
}
