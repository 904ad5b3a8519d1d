//! Paths whose receiver timestamps packets late, as busy hosts do.

use super::simulated_path::{SimulatedLink, SimulatedPath};
use super::{AccuracyRow, ErrorTally, LINE_RATIOS, TRAFFIC, tally_direction};
use longhaul_model::report::v1::available::AvailableMode;

/// Capacities of the paths with a receiver that timestamps packets late.
pub const BUSY_CAPACITIES: [(f64, &str); 3] =
    [(2e7, "20 Mbit/s"), (1e8, "100 Mbit/s"), (3e8, "300 Mbit/s")];
const BUSY_LOADS: [f64; 3] = [0.0, 0.3, 0.7];
const LATE_S: [f64; 3] = [10e-6, 30e-6, 100e-6];

/// Evaluates a receiver without batching whose CPU has other work.
pub fn evaluate_busy_receiver(seed: u64, cases: usize) -> Vec<AccuracyRow> {
    let mut found = Vec::new();
    for (capacity_bps, rate) in BUSY_CAPACITIES {
        let (mut available, mut capacity) = (ErrorTally::default(), ErrorTally::default());
        for (load, late_s) in BUSY_LOADS.iter().flat_map(|l| LATE_S.map(|s| (*l, s))) {
            for case in 0..cases {
                let seed = seed.wrapping_mul(1_000_003) ^ (case as u64 * 7919);
                let link = SimulatedLink::new(capacity_bps, load, TRAFFIC[case % 3].0, seed);
                let line_bps = LINE_RATIOS[1 + case % 2] * capacity_bps;
                let mut path = SimulatedPath::new(line_bps, vec![link], 0.0, seed ^ 0x63);
                path.late_s = late_s;
                tally_direction(path, AvailableMode::Quick, &mut available, &mut capacity);
            }
        }
        found.extend([
            available.row(format!("available, {rate}, busy receiver")),
            capacity.row(format!("capacity, {rate}, busy receiver")),
        ]);
    }
    found
}
