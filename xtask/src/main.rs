//! `cargo xtask`: the command for all development tasks.

use clap::Parser;
use std::process::ExitCode;

fn main() -> ExitCode {
    match xtask::DevelopmentTask::parse().run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("error: {failure}");
            ExitCode::FAILURE
        }
    }
}
