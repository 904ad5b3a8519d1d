//! The fault matrix, every case at one of its round-trip times: every gate must hold. The whole is
//! `cargo xtask bench verdicts`. Needs root, and two to three minutes.

use xtask::bench::verdicts;

#[test]
fn the_reason_given_is_what_was_done_to_the_path() {
    xtask::needs::namespaces().expect("the matrix lies between network namespaces");
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
