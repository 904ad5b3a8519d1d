//! `cargo xtask bench`: runs one bench and prints its tables.

use clap::Parser;
use longhaul_bench::BenchArguments;
use std::process::ExitCode;

fn main() -> ExitCode {
    match longhaul_bench::run(&BenchArguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("error: {failure}");
            ExitCode::FAILURE
        }
    }
}
