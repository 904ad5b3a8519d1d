//! Lays real paths between namespaces and checks them with other people's tools and plain sockets.
//!
//! Needs root, user namespaces, iperf3, ping and setpriv (util-linux). What is missing fails the tests: none passes by not running.

mod harness;
mod standing;
mod teardown;
mod truth;

use std::process::ExitCode;

fn main() -> ExitCode {
    let words: Vec<_> = std::env::args_os().skip(1).collect();
    match words.first().and_then(|word| word.to_str()) {
        Some("as-lab") => harness::be_the_lab(&words[1..]),
        Some("as-standing") => harness::be_the_standing_lab(&words[1..]),
        _ => harness::run_all(&words, &[truth::TESTS, teardown::TESTS, standing::TESTS]),
    }
}
