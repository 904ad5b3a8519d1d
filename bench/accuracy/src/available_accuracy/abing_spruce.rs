//! The estimates of older formulas for the same paths.
//!
//! abing 2.2 as in its source: twenty pairs, a histogram of their dispersions, `DBC / (1 + q)`.
//! Spruce: a hundred pairs at the gap of the capacity, which it is given.

use super::simulated_path::SimulatedPath;
use longhaul_model::report::v1::available::{ProbeTrain, TrainPlan, TrainPurpose, TrainSchedule};
use longhaul_model::splitmix::SplitMix64;

const ABING_PAIRS: u32 = 20;
const ABING_BYTES: u32 = 1450;
const ABING_BITS: f64 = 11_600.0;
const CROSS_BITS: f64 = 12_000.0;
/// The gap of a pair at 1 Gbit/s in µs; smaller gaps are raised to it.
const MIN_GAP_US: f64 = 11.6;
const SPRUCE_PAIRS: u32 = 100;
const SPRUCE_BYTES: u32 = 1500;

fn plan_pair(bytes: u32, schedule: TrainSchedule, pause_us: u64) -> TrainPlan {
    TrainPlan {
        index: 0,
        purpose: TrainPurpose::Burst,
        packets: 2,
        packet_bytes: bytes,
        schedule,
        pause_us,
    }
}

fn measure_gaps_us(trains: &[ProbeTrain]) -> Vec<f64> {
    let gap = |train: &ProbeTrain| {
        let (first, second) = (train.received_ns[0]?, train.received_ns[1]?);
        // abing's clock has a resolution of 1 µs.
        Some((second.saturating_sub(first) as f64 / 1e3).round())
    };
    trains.iter().filter_map(gap).collect()
}

/// Estimates the available bandwidth by abing's formula.
pub fn estimate_by_abing(path: &mut SimulatedPath) -> Option<f64> {
    let pairs = (0..ABING_PAIRS).map(|_| plan_pair(ABING_BYTES, TrainSchedule::BackToBack, 25_000));
    let trains = path.send(&pairs.collect::<Vec<_>>());
    let gaps: Vec<f64> =
        measure_gaps_us(&trains[1..]).into_iter().map(|g| g.max(MIN_GAP_US)).collect();
    (!gaps.is_empty()).then(|| compute_abing(&gaps))
}

/// Computes abing's estimate from the dispersions of the pairs in µs.
pub fn compute_abing(gaps: &[f64]) -> f64 {
    let count = gaps.len() as f64;
    let sum: f64 = gaps.iter().sum();
    let peak_us = find_accepted_peak(gaps);
    let capacity = ABING_BITS / peak_us * 1e6;
    let mean_rate = ABING_BITS / (sum / count) * 1e6;
    if capacity < 0.95 * mean_rate {
        return (capacity - mean_rate).max(0.0);
    }
    let excess = sum - count * peak_us;
    let packets = excess.abs() / (count * CROSS_BITS / capacity * 1e6);
    capacity / (1.0 + packets)
}

/// The mean dispersion of the peak with the smallest dispersion that has enough hits.
fn find_accepted_peak(gaps: &[f64]) -> f64 {
    let sum: f64 = gaps.iter().sum();
    let width = if sum / 130.0 > MIN_GAP_US { sum / 130.0 } else { MIN_GAP_US / 5.0 };
    let bin = |gap: f64| (gap / width) as i64;
    let hits = |at: i64, reach: i64| -> Vec<f64> {
        gaps.iter().copied().filter(|g| (bin(*g) - at).abs() <= reach).collect()
    };
    let mean = |of: &[f64]| of.iter().sum::<f64>() / of.len() as f64;
    let mut bins: Vec<i64> = gaps.iter().map(|g| bin(*g)).collect();
    bins.sort_unstable();
    bins.dedup();
    let main = bins.iter().copied().max_by_key(|b| (hits(*b, 0).len(), -*b)).unwrap_or(0);
    let mut peak = hits(main, 0);
    if peak.len() < 6 {
        peak = hits(main, 1);
        if peak.len() < 6 {
            return mean(gaps);
        }
    }
    if peak.len() < 15 {
        let second = bins.iter().copied().filter(|b| *b < main && hits(*b, 0).len() >= 5).min();
        if let Some(second) = second {
            return mean(&hits(second, 0));
        }
    }
    mean(&peak)
}

/// Estimates the available bandwidth by Spruce's formula, given the true capacity.
pub fn estimate_by_spruce(path: &mut SimulatedPath, seed: u64) -> Option<f64> {
    let mut rng = SplitMix64::new(seed);
    let capacity = path.capacity_bps();
    let gap_us = f64::from(SPRUCE_BYTES) * 8e6 / capacity;
    let pairs = (0..SPRUCE_PAIRS).map(|_| {
        let pause = -rng.between(1e-9, 1.0).ln() * 1e4;
        plan_pair(SPRUCE_BYTES, TrainSchedule::RateBps(capacity as u64), pause as u64)
    });
    let trains = path.send(&pairs.collect::<Vec<_>>());
    let gaps = measure_gaps_us(&trains);
    let ones = gaps.iter().map(|out| capacity * (1.0 - (out - gap_us) / gap_us));
    (!gaps.is_empty()).then(|| (ones.sum::<f64>() / gaps.len() as f64).clamp(0.0, capacity))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_dispersions_are_an_idle_path() {
        let found = compute_abing(&[116.0; 19]);
        assert!((found / 1e8 - 1.0).abs() < 1e-9, "{found}");
    }

    #[test]
    fn cross_packets_between_pairs_count_by_the_formula() {
        // Thirteen pairs at 100 Mbit/s, six with one full packet between.
        let gaps: Vec<f64> = [[116.0; 13].as_slice(), &[236.0; 6]].concat();
        let packets = 6.0 / 19.0;
        let found = compute_abing(&gaps);
        assert!((found / (1e8 / (1.0 + packets)) - 1.0).abs() < 1e-6, "{found}");
    }
}
