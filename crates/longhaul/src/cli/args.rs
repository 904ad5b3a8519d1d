//! The commands and their options, as typed by the user.

mod available_args;
mod capture_args;
mod comparison_args;
mod copy_args;
mod data_args;
mod host_args;
mod import_args;
mod iperf3_args;
mod lab_args;
mod load_args;
mod path_args;
mod predict_args;
mod record_args;
mod report_args;
mod serve_args;
mod shell_args;
mod test_args;
mod tune_args;
mod watch_args;

pub use available_args::AvailableArgs;
pub use capture_args::{CaptureArgs, CaptureCommand, TestCaptureArgs};
pub use comparison_args::{AsymmetryArgs, CaseArgs, CompareArgs, ReportOutputArgs, SiteArgs};
pub use copy_args::CopyArgs;
pub use data_args::{DataArgs, DataCommand};
pub use host_args::HostArgs;
pub use import_args::ImportArgs;
pub use iperf3_args::{Iperf3Args, Iperf3UserArgs, add_replacement};
pub use lab_args::{
    LabArgs, LabBackendArg, LabCommand, LabExecArgs, LabRunArgs, LabSetupArgs, LabUpArgs,
};
pub use load_args::LoadArgs;
pub use path_args::PathArgs;
pub use predict_args::PredictArgs;
pub use record_args::{BundleArgs, RecordArgs, RecordCommand, RecordMakeArgs, RecordVerifyArgs};
pub use report_args::{EventsArgs, ReportArgs, ReportCommand, RoutesArgs};
pub use serve_args::ServeArgs;
pub use shell_args::{CompletionsArgs, ManArgs};
pub use test_args::{TestArgs, TestFormat};
pub use tune_args::{ScanFilesArgs, TuneArgs};
pub use watch_args::WatchArgs;

use crate::cli::value_parsers;
use clap::{Args, Parser, Subcommand, ValueEnum};
use longhaul_agent::PAGE_DIGEST;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::LazyLock;

const EXAMPLES: &str = "\
Examples:
  longhaul serve                   run the server; prints a token
  longhaul test far.example.net    measure throughput and what limited it
  longhaul lab run la-geneva -- longhaul test far
                                   the same over an emulated path
  longhaul report show last        show the latest run again

Exit codes:
  0    success
  1    success, but an --expect was not met
  2    usage error
  3    no server, or the server failed
  4    incompatible versions
  5    missing privilege or kernel feature
  6    archive error
  70   bug in longhaul
  130  interrupted (Ctrl-C)";

/// The help of `longhaul`, with the commands in groups. Headings have clap's style.
const HELP_TEMPLATE: &str = "\
{about-with-newline}
{usage-heading} {usage}

\x1b[1m\x1b[4mMeasure:\x1b[0m
  test         Measure throughput and report what limited it
  path         Measure RTT, routes, path MTU and where queues build up
  available    Estimate capacity and available bandwidth with short trains
  load         Measure RTT and loss under load, and the effect on other flows
  copy         Copy files and report whether disk, CPU or network was the limit
  serve        Run the server side of tests
  iperf3       Measure or serve with the options of iperf3

\x1b[1m\x1b[4mTune:\x1b[0m
  tune         Find the best window, number of streams and congestion control
  host         Audit, change and restore this host's settings for long fat paths
  predict      Predict throughput for windows and streams; compare with a scan

\x1b[1m\x1b[4mMonitor:\x1b[0m
  watch        Measure regularly, detect changes and serve a web page

\x1b[1m\x1b[4mArchive:\x1b[0m
  report       Show and compare archived runs
  import       Import results of iperf, NTttcp, perfSONAR, ping and mtr
  record       Bundle a record with its evidence, verify bundles, check claims
  capture      Analyse, print or anonymise packet captures
  data         Manage databases of AS numbers and locations of addresses

\x1b[1m\x1b[4mLab:\x1b[0m
  lab          Emulate long paths with known properties on this machine
  demo         Run two measurements over an emulated path

\x1b[1m\x1b[4mOther:\x1b[0m
  completions  Generate a shell completion script
  man          Generate manual pages
  help         Print the help of a command

\x1b[1m\x1b[4mOptions:\x1b[0m
{options}{after-help}";

/// The text of `--version` after the name. build.rs provides commit and target.
static VERSION: LazyLock<String> = LazyLock::new(|| {
    format!(
        "{}\ncommit  {}\ntarget  {}\npage    {PAGE_DIGEST}",
        env!("CARGO_PKG_VERSION"),
        env!("LONGHAUL_COMMIT"),
        env!("LONGHAUL_TARGET")
    )
});

/// Measure long fat network paths and report what limits them.
#[derive(Debug, Parser)]
#[command(
    name = "longhaul",
    version,
    long_version = VERSION.as_str(),
    after_help = EXAMPLES,
    help_template = HELP_TEMPLATE,
    max_term_width = 80,
)]
pub struct CliArgs {
    #[command(subcommand)]
    pub command: CliCommand,
    /// When to use colour (NO_COLOR is respected)
    #[arg(long, global = true, value_name = "WHEN", value_enum, default_value_t = ColorMode::Auto)]
    pub color: ColorMode,
}

#[derive(Debug, Subcommand)]
pub enum CliCommand {
    /// Run the server side of tests
    Serve(ServeArgs),
    /// Measure throughput and report what limited it
    Test(Box<TestArgs>),
    /// Find the best window, number of streams and congestion control
    Tune(Box<TuneArgs>),
    /// Measure RTT, routes, path MTU and where queues build up
    Path(Box<PathArgs>),
    /// Estimate capacity and available bandwidth with short trains
    Available(Box<AvailableArgs>),
    /// Measure RTT and loss under load, and the effect on other flows
    Load(Box<LoadArgs>),
    /// Copy files and report whether disk, CPU or network was the limit
    Copy(Box<CopyArgs>),
    /// Audit, change and restore this host's settings for long fat paths
    Host(Box<HostArgs>),
    /// Measure or serve with the options of iperf3
    Iperf3(Box<Iperf3Args>),
    /// Predict throughput for windows and streams; compare with a scan
    Predict(Box<PredictArgs>),
    /// Emulate long paths with known properties on this machine
    Lab(LabArgs),
    /// Show and compare archived runs
    Report(ReportArgs),
    /// Measure regularly, detect changes and serve a web page
    Watch(WatchArgs),
    /// Bundle a record with its evidence, verify bundles, check claims
    Record(Box<RecordArgs>),
    /// Analyse, print or anonymise packet captures
    Capture(CaptureArgs),
    /// Import results of iperf, NTttcp, perfSONAR, ping and mtr
    Import(Box<ImportArgs>),
    /// Run two measurements over an emulated path
    Demo(DemoArgs),
    /// Manage databases of AS numbers and locations of addresses
    Data(DataArgs),
    /// Generate a shell completion script
    Completions(CompletionsArgs),
    /// Generate manual pages
    Man(ManArgs),
}

/// Options of `longhaul demo`.
#[derive(Debug, Args)]
pub struct DemoArgs {
    /// Run an agent and its web page instead, on a path whose route changes (10 min)
    #[arg(long)]
    pub watch: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ColorMode {
    Auto,
    Always,
    Never,
}

/// From where this host speaks to the far end.
#[derive(Debug, Clone, Default, Args)]
pub struct LocalArgs {
    /// Use IPv4 only
    #[arg(short = '4', long, help_heading = "Host", conflicts_with = "ipv6")]
    pub ipv4: bool,
    /// Use IPv6 only
    #[arg(short = '6', long, help_heading = "Host")]
    pub ipv6: bool,
    /// Local address to bind to
    #[arg(short = 'B', long, value_name = "ADDR", help_heading = "Host")]
    pub bind: Option<IpAddr>,
    /// Local interface to bind to
    #[arg(long, value_name = "DEV", value_parser = value_parsers::parse_device, help_heading = "Host")]
    pub bind_dev: Option<String>,
}

/// Where the report of a measurement goes.
#[derive(Debug, Clone, Args)]
pub struct OutputArgs {
    #[command(flatten)]
    pub form: ReportOutputArgs,
    /// Print no progress
    #[arg(short, long, help_heading = "Output")]
    pub quiet: bool,
    /// Do not archive the run
    #[arg(long, help_heading = "Output")]
    pub no_save: bool,
    #[command(flatten)]
    pub archive: ArchiveArgs,
}

/// Where the archive is.
#[derive(Debug, Clone, Args)]
pub struct ArchiveArgs {
    /// Archive file [default: longhaul/archive.sqlite3 in the XDG data folder]
    #[arg(
        long,
        value_name = "FILE",
        env = "LONGHAUL_ARCHIVE",
        hide_env_values = true,
        help_heading = "Output"
    )]
    pub archive: Option<PathBuf>,
}

/// The secret that the two ends share.
#[derive(Debug, Clone, Args)]
pub struct TokenArgs {
    /// Token of the server; prefer --token-file or LONGHAUL_TOKEN, because other users can see
    /// this option in the process list
    #[arg(long, value_name = "TOKEN", conflicts_with = "token_file", help_heading = "Access")]
    pub token: Option<String>,
    /// File with the token in its first line
    #[arg(long, value_name = "FILE", help_heading = "Access")]
    pub token_file: Option<PathBuf>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;
    use std::collections::BTreeSet;

    /// Collects every command with its options, including nested ones.
    fn commands(command: &clap::Command, found: &mut Vec<clap::Command>) {
        found.push(command.clone());
        for inner in command.get_subcommands() {
            commands(inner, found);
        }
    }

    fn all() -> Vec<clap::Command> {
        let mut found = Vec::new();
        commands(&CliArgs::command(), &mut found);
        found
    }

    #[test]
    fn the_definitions_are_sound() {
        CliArgs::command().debug_assert();
    }

    #[test]
    fn the_help_lists_every_command_with_its_summary() {
        for command in CliArgs::command().get_subcommands() {
            let about = command.get_about().map(ToString::to_string);
            let about = about.unwrap_or_default();
            let line = format!("\n  {:<11}  {about}\n", command.get_name());
            assert!(HELP_TEMPLATE.contains(&line), "{line}");
        }
    }

    #[test]
    fn every_option_has_help_and_a_named_value() {
        for command in all() {
            assert!(command.get_about().is_some(), "{}", command.get_name());
            for option in command.get_arguments() {
                let name = format!("{} {}", command.get_name(), option.get_id());
                let help = option.get_help().map(ToString::to_string);
                let help = help.unwrap_or_else(|| panic!("{name} has no help"));
                assert!(help.starts_with(char::is_uppercase), "{name}: {help}");
                assert!(!help.ends_with('.'), "{name}: {help}");
                let takes = option.get_action().takes_values();
                let named = option.get_value_names().is_some_and(|names| {
                    names.iter().all(|n| n.chars().all(|c| c.is_uppercase() || c == '='))
                });
                assert!(!takes || named, "{name} takes a value without a name");
            }
        }
    }

    #[test]
    fn no_option_is_there_twice() {
        for command in all() {
            let (mut short, mut long) = (BTreeSet::new(), BTreeSet::new());
            for option in command.get_arguments() {
                let name = format!("{} {}", command.get_name(), option.get_id());
                let shorts = option.get_short_and_visible_aliases().unwrap_or_default();
                let longs = option.get_long_and_visible_aliases().unwrap_or_default();
                for letter in shorts {
                    assert!(short.insert(letter), "{name}: -{letter}");
                }
                for word in longs {
                    assert!(long.insert(word.to_owned()), "{name}: --{word}");
                }
            }
        }
    }
}
