#![forbid(unsafe_code)]
//! The program `longhaul`, which measures long fat paths and reports what limits them, for its users.
//!
//! - [`cli`]: the command line, one file for each command
//! - [`command_failure`]: exit codes, errors, hints

mod cli;
mod command_failure;

use cli::args::CliCommand;
use std::io::Write;
use std::process::ExitCode;

fn main() -> ExitCode {
    command_failure::install_panic_hook();
    let outcome = std::panic::catch_unwind(|| {
        let cli = cli::usage_hints::parse_command_line(std::env::args_os().collect());
        let command = cli.unwrap_or_else(|error| error.exit()).command;
        // A lab restores what another one has left.
        if !matches!(command, CliCommand::Lab(_))
            && let Some(line) = cli::lab_command::describe_stale_lab()
        {
            let _ = writeln!(anstream::stderr(), "warning: {line}");
        }
        run(command)
    });
    match outcome {
        // Whatever the command made of its partial result, or of a terminal that is gone.
        Ok(ended) if cli::interrupt::was_cut_short() => {
            print_failure(Some(ended.err().unwrap_or_else(cli::interrupt::interrupted_failure)));
            ExitCode::from(command_failure::INTERRUPTED)
        }
        Ok(Ok(code)) => code,
        Ok(Err(fail)) => {
            let code = ExitCode::from(fail.code);
            print_failure(Some(fail));
            code
        }
        Err(_told_by_the_hook) => ExitCode::from(command_failure::BUG),
    }
}

fn print_failure(failure: Option<command_failure::CommandFailure>) {
    if let Some(failure) = failure.filter(|failure| !failure.silent) {
        // If stderr is closed as well, the message is lost.
        let text = failure.text();
        let text = cli::command_output::fit_locale(&text);
        let _ = write!(anstream::stderr(), "{text}");
    }
}

fn run(command: CliCommand) -> Result<ExitCode, command_failure::CommandFailure> {
    match command {
        CliCommand::Serve(args) => cli::serve_command::run(&args),
        CliCommand::Test(args) => cli::test_command::run(&args.with_default_end()),
        CliCommand::Tune(args) => cli::tune_command::run(&args),
        CliCommand::Path(args) => cli::path_command::run(&args),
        CliCommand::Latency(args) => cli::latency_command::run(&args),
        CliCommand::Available(args) => cli::available_command::run(&args),
        CliCommand::Load(args) => cli::load_command::run(&args),
        CliCommand::Copy(args) => cli::copy_command::run(&args),
        CliCommand::Explain(args) => cli::explain_command::run(&args),
        CliCommand::Host(args) => cli::host_command::run(&args),
        CliCommand::Iperf3(args) => cli::iperf3_command::run(&args),
        CliCommand::Ndt7(args) => cli::ndt7_command::run(&args),
        CliCommand::Predict(args) => cli::predict_command::run(&args),
        CliCommand::Lab(args) => cli::lab_command::run(args.command),
        CliCommand::Report(args) => cli::report_command::run(args.command),
        CliCommand::Record(args) => cli::record_command::run(&args),
        CliCommand::Archive(args) => cli::archive_command::run(&args.command),
        CliCommand::Capture(args) => cli::capture_command::run(&args),
        CliCommand::Import(args) => cli::import_command::run(&args),
        CliCommand::Demo(args) => cli::demo::run(&args),
        CliCommand::Watch(args) => cli::watch_command::run(&args),
        CliCommand::Psconfig(args) => cli::psconfig_command::run(&args),
        CliCommand::Pscheduler(args) => cli::pscheduler_command::run(&args),
        CliCommand::Mcp(args) => cli::mcp_command::run(&args),
        CliCommand::Completions(args) => cli::manual::write_completions(&args),
        CliCommand::Man(args) => cli::manual::write_manual(&args),
    }
}
