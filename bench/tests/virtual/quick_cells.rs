//! The cells of the fault matrix that tests run.

use longhaul_bench::verdict_bench::FaultCell;

/// The maximum RTT of the quick cells: the ramp of longer RTTs takes too long for a test.
const SHORT_MS: u64 = 40;

/// The cases of the quick cells in parts of about equal duration. Each part is a test.
pub const QUICK_PARTS: [[&str; 2]; 3] = [
    ["clean path", "slow reader"],
    ["small receive buffer", "slow writer"],
    ["small send buffer", "too short a run"],
];

/// Picks one cell of each strict case and of the clean path, alternating between the short RTTs.
pub fn pick_quick_cells(mut cells: Vec<FaultCell>) -> Vec<FaultCell> {
    cells.retain(|cell| (cell.case.strict || cell.case.clean) && cell.rtt_ms <= SHORT_MS);
    let cases = cells.chunk_by(|a, b| a.case.name == b.case.name);
    let chosen = cases.enumerate().map(|(turn, of_case)| &of_case[(turn + 1) % of_case.len()]);
    chosen.cloned().collect()
}
