//! The part of the fault matrix that must be right, each case at one round-trip time. The whole is
//! `cargo xtask bench verdicts`. Needs root.

use crate::quick_cells::{QUICK_PARTS, pick_quick_cells};
use longhaul_bench::verdict_bench;
use longhaul_bench::verdict_bench::read_fault_cells;

crate::virtual_tests!(
    a_clean_path_and_a_slow_reader_are_named,
    a_small_receive_buffer_and_a_slow_writer_are_named,
    a_small_send_buffer_and_a_short_run_are_named,
);

fn a_clean_path_and_a_slow_reader_are_named() {
    assert_right(0);
}

fn a_small_receive_buffer_and_a_slow_writer_are_named() {
    assert_right(1);
}

fn a_small_send_buffer_and_a_short_run_are_named() {
    assert_right(2);
}

/// Runs one part of the quick cells and asserts that no gate is missed.
fn assert_right(part: usize) {
    let longhaul = xtask::program_runner::build_longhaul_for_tests().expect("the program builds");
    let cases = &QUICK_PARTS[part];
    let mut cells = pick_quick_cells(read_fault_cells().expect("the matrix of the checkout"));
    cells.retain(|cell| cases.contains(&cell.case.name.as_str()));
    let outcome = verdict_bench::run_cells(&longhaul, cells, None).expect("the matrix can be run");
    let rows = cases.iter().map(|case| outcome.text.matches(&format!("| {case} |")).count());
    assert!(rows.eq([1, 1]), "{}", outcome.text);
    assert!(outcome.missed.is_empty(), "{}\n{}", outcome.missed.join("\n"), outcome.text);
}
