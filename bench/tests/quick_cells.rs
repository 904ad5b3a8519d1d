//! The tests of verdicts in virtual time have every case of the fault matrix that must be right.

#[path = "virtual/quick_cells.rs"]
mod quick_cells;

use longhaul_bench::verdict_bench::{FaultCell, read_fault_cells};
use quick_cells::{QUICK_PARTS, pick_quick_cells};

#[test]
fn in_turn_every_strict_case_and_the_clean_path_come_once() {
    let cells = read_fault_cells().expect("the matrix of the checkout");
    let wanted = |cell: &&FaultCell| cell.case.strict || cell.case.clean;
    let mut cases: Vec<String> =
        cells.iter().filter(wanted).map(|it| it.case.name.clone()).collect();
    cases.dedup();
    let chosen = pick_quick_cells(cells);
    assert!(chosen.iter().map(|cell| &cell.case.name).eq(&cases));
    let mut tested = QUICK_PARTS.as_flattened().to_vec();
    tested.sort_unstable();
    cases.sort();
    assert_eq!(tested, cases);
    for rtt_ms in [2, 40] {
        assert!(chosen.iter().any(|cell| cell.rtt_ms == rtt_ms));
    }
}
