//! `longhaul iperf3`: `test` and `serve` with the options of iperf3.

use super::args::Iperf3Args;
use super::{serve_command, test_command};
use crate::command_failure::CommandFailure;
use std::process::ExitCode;

pub fn run(args: &Iperf3Args) -> Result<ExitCode, CommandFailure> {
    match args {
        Iperf3Args::Server(serve) => serve_command::run(serve),
        Iperf3Args::Client { test, json_interval_us } => test_command::run_with_intervals(
            test,
            json_interval_us.unwrap_or(test_command::JSON_INTERVAL_US),
        ),
    }
}
