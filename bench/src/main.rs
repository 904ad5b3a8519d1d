//! `cargo xtask bench`: runs one bench and prints its tables.

use clap::Parser;
use longhaul_bench::{BenchArguments, dispersion};
use std::process::ExitCode;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let outcome = match words.first().map(String::as_str) {
        // The two ends of a bench, which it starts inside the namespaces of a path.
        Some(dispersion::RECEIVE) => dispersion::receive_groups(&words[1..]),
        Some(dispersion::SEND) => dispersion::send_groups(&words[1..]),
        _ => longhaul_bench::run(&BenchArguments::parse()),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("error: {failure}");
            ExitCode::FAILURE
        }
    }
}
