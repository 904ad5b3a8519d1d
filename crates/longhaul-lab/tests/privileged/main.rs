//! Sets up real paths between namespaces, and checks that nothing remains of them.
//!
//! Needs root, user namespaces, ping and setpriv (util-linux). If one is missing the tests fail
//! instead of being skipped. The accuracy of paths is tested in virtual time (xtask).

mod harness;
mod teardown;

use std::process::ExitCode;

fn main() -> ExitCode {
    let words: Vec<_> = std::env::args_os().skip(1).collect();
    match words.first().and_then(|word| word.to_str()) {
        Some("serve") => harness::be_the_server(),
        Some("as-lab") => harness::be_the_lab(&words[1..]),
        _ => harness::run_all(&words, teardown::TESTS),
    }
}
