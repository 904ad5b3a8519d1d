//! The part of the fault matrix that must be right, each case at one round-trip time. The whole is
//! `cargo xtask bench verdicts`. Needs root, and a minute.

use xtask::bench::verdict_bench;

crate::virtual_tests!(the_reason_given_is_what_was_done_to_the_path,);

fn the_reason_given_is_what_was_done_to_the_path() {
    let longhaul = xtask::program_runner::build_longhaul_for_tests().expect("the program builds");
    let judged = verdict_bench::run_quick_cells(&longhaul).expect("the matrix can be run");
    let (table, missed) = verdict_bench::tabulate_verdicts(&judged);
    assert!(
        missed.is_empty(),
        "{}\n{}",
        missed.join("\n"),
        table.markdown()
    );
}
