//! The part of the fault matrix that must be right, each case at one round-trip time. The whole is
//! `cargo xtask bench verdicts`. Needs root, and a minute.

use xtask::bench::verdicts;

crate::virtual_tests!(the_reason_given_is_what_was_done_to_the_path,);

fn the_reason_given_is_what_was_done_to_the_path() {
    let longhaul = xtask::process::longhaul_for_tests().expect("the program builds");
    let judged = verdicts::run_in_turn(&longhaul).expect("the matrix can be run");
    let (table, missed) = verdicts::verdict(&judged);
    assert!(
        missed.is_empty(),
        "{}\n{}",
        missed.join("\n"),
        table.markdown()
    );
}
