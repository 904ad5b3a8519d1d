#![forbid(unsafe_code)]
//! longhaul: measures a long fat path, and reports what limited it.
//!
//! - [`cli`]: the command line, one file for each command
//! - [`render`]: reports as text
//! - [`plot`]: figures of scans and predictions
//! - [`watch`]: scheduled measurements, in the library of this package
//! - [`agent`]: the agent of `longhaul watch`; [`api`]: its web page
//! - [`fail`]: exit codes, errors, hints

mod agent;
mod api;
mod cli;
mod fail;
mod plot;
mod render;

use clap::Parser;
use cli::args::{Cli, Color, Command};
use longhaul_watch::watch;
use std::io::Write;
use std::process::ExitCode;

fn main() -> ExitCode {
    fail::install_panic_hook();
    let outcome = std::panic::catch_unwind(|| {
        let mut words = std::env::args_os();
        if cli::iperf3::is_called(words.next().as_deref()) {
            return Ok(cli::iperf3::run(&words.collect::<Vec<_>>()));
        }
        let cli = Cli::parse();
        choose_colour(cli.color);
        run(cli.command)
    });
    match outcome {
        Ok(Ok(code)) => code,
        Ok(Err(fail)) => {
            if !fail.silent {
                // If stderr is closed as well, the message is lost.
                let _ = write!(anstream::stderr(), "{}", fail.text());
            }
            ExitCode::from(fail.code)
        }
        Err(_told_by_the_hook) => ExitCode::from(fail::BUG),
    }
}

fn run(command: Command) -> Result<ExitCode, fail::Fail> {
    match command {
        Command::Serve(args) => cli::serve::run(&args),
        Command::Test(args) => cli::test::run(&args),
        Command::Tune(args) => cli::tune::run(&args),
        Command::Path(args) => cli::path::run(&args),
        Command::Available(args) => cli::available::run(&args),
        Command::Load(args) => cli::load::run(&args),
        Command::Copy(args) => cli::copy::run(&args),
        Command::Host(args) => cli::host::run(&args),
        Command::Iperf3(args) => Ok(cli::iperf3::run(&args.words)),
        Command::Predict(args) => cli::predict::run(&args),
        Command::Lab(args) => cli::lab::run(args.command),
        Command::Report(args) => cli::report::run(args.command),
        Command::Record(args) => cli::record::run(&args),
        Command::Capture(args) => cli::capture::run(&args),
        Command::Import(args) => cli::import::run(&args),
        Command::Demo(args) => cli::demo::run(&args),
        Command::Data(args) => cli::data::run(args.command),
        Command::Watch(args) => cli::watch::run(&args),
        Command::Completions(args) => cli::manual::complete(&args),
        Command::Man(args) => cli::manual::run(&args),
    }
}

fn choose_colour(color: Color) {
    match color {
        Color::Auto => {}
        Color::Always => anstream::ColorChoice::Always.write_global(),
        Color::Never => anstream::ColorChoice::Never.write_global(),
    }
}
