//! Paths whose receiver timestamps packets late, as busy hosts do.

use super::path::{Link, Path};
use super::{LINES, Row, TRAFFIC, Tally, judge};
use longhaul_model::report::v1::available::Mode;

/// Capacities and row names of the paths with a receiver that timestamps packets late.
pub const BUSY: [(f64, [&str; 2]); 3] = [
    (
        2e7,
        [
            "available, 20 Mbit/s, busy receiver",
            "capacity, 20 Mbit/s, busy receiver",
        ],
    ),
    (
        1e8,
        [
            "available, 100 Mbit/s, busy receiver",
            "capacity, 100 Mbit/s, busy receiver",
        ],
    ),
    (
        3e8,
        [
            "available, 300 Mbit/s, busy receiver",
            "capacity, 300 Mbit/s, busy receiver",
        ],
    ),
];
const BUSY_LOADS: [f64; 3] = [0.0, 0.3, 0.7];
const LATE_S: [f64; 3] = [10e-6, 30e-6, 100e-6];

/// Evaluates a receiver without batching whose CPU has other work.
pub fn busy_receiver(seed: u64, cases: usize) -> Vec<Row> {
    let mut found = Vec::new();
    for (capacity_bps, [available_name, capacity_name]) in BUSY {
        let (mut available, mut capacity) = (Tally::default(), Tally::default());
        for (load, late_s) in BUSY_LOADS.iter().flat_map(|l| LATE_S.map(|s| (*l, s))) {
            for case in 0..cases {
                let seed = seed.wrapping_mul(1_000_003) ^ (case as u64 * 7919);
                let link = Link::new(capacity_bps, load, TRAFFIC[case % 3], seed);
                let line_bps = LINES[1 + case % 2] * capacity_bps;
                let mut path = Path::new(line_bps, vec![link], 0.0, seed ^ 0x63);
                path.late_s = late_s;
                judge(path, Mode::Quick, &mut available, &mut capacity);
            }
        }
        found.extend([available.row(available_name), capacity.row(capacity_name)]);
    }
    found
}
