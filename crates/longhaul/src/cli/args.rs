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
pub use iperf3_args::{
    Iperf3Args, Iperf3ClientArgs, Iperf3PassthroughArgs, Iperf3UserArgs, choose_padding,
};
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
use std::net::IpAddr;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  longhaul serve                   at the far end; prints a token
  longhaul test far.example.net    at this end: measures, says what limited it
  longhaul lab run la-geneva -- longhaul test far
                                   the same over an emulated path
  longhaul report show last        the latest run once more

Exit codes: 0 measured; 1 measured, but an --expect was missed; 2 usage;
3 no peer or the peer failed; 4 versions differ; 5 privilege or kernel feature
missing; 6 archive; 70 a defect of longhaul.";

/// The text of `--version` after the name. build.rs provides all of it except the version.
const VERSION: &str = concat!(
    env!("CARGO_PKG_VERSION"),
    "\ncommit  ",
    env!("LONGHAUL_COMMIT"),
    "\ntarget  ",
    env!("LONGHAUL_TARGET"),
    "\npage    ",
    env!("LONGHAUL_PAGE"),
);

/// Measure a long fat path, and say what limited it.
#[derive(Debug, Parser)]
#[command(name = "longhaul", version, long_version = VERSION, after_help = EXAMPLES, max_term_width = 80)]
pub struct CliArgs {
    #[command(subcommand)]
    pub command: CliCommand,
    /// When to use colour (NO_COLOR is obeyed)
    #[arg(long, global = true, value_name = "WHEN", value_enum, default_value_t = ColorMode::Auto)]
    pub color: ColorMode,
}

#[derive(Debug, Subcommand)]
pub enum CliCommand {
    /// Be the far end: answer the tests of others
    Serve(ServeArgs),
    /// Measure throughput to a far end, and say what limited it
    Test(Box<TestArgs>),
    /// Find the best setting to a far end in a handful of probes, or scan a whole grid
    Tune(Box<TuneArgs>),
    /// Look at the path: round trips, route, path MTU, where the queue grows
    Path(Box<PathArgs>),
    /// Capacity and available bandwidth from short trains, in about a second
    Available(Box<AvailableArgs>),
    /// What bulk load does to round trips, loss and other flows
    Load(Box<LoadArgs>),
    /// Copy files to or from a far end; say which of disk, CPU and network limited it
    Copy(Box<CopyArgs>),
    /// Audit this host for long fast paths; apply, prove and revert its settings
    Host(Box<HostArgs>),
    /// Measure, or serve, as iperf3 does: the same options, text and JSON
    Iperf3(Iperf3PassthroughArgs),
    /// Predict throughput over windows and streams, beside a measured scan
    Predict(Box<PredictArgs>),
    /// Emulate long paths on this machine, with ground truth
    Lab(LabArgs),
    /// Read the archive of earlier runs
    Report(ReportArgs),
    /// Measure regularly, find lasting changes and their causes, show them on a page
    Watch(WatchArgs),
    /// A record with all its evidence in one folder; verify bundles, check published claims
    Record(Box<RecordArgs>),
    /// Captures of packets: what they say, their first packets, anonymised copies
    Capture(CaptureArgs),
    /// File what other programs measured: iperf, NTttcp, perfSONAR, ping, mtr
    Import(Box<ImportArgs>),
    /// Run two measurements over an emulated long path of this machine
    Demo(DemoArgs),
    /// Imported sets that tell AS numbers and places of addresses
    Data(DataArgs),
    /// Write the completion script of a shell
    Completions(CompletionsArgs),
    /// Write manual pages
    Man(ManArgs),
}

/// Options of `longhaul demo`.
#[derive(Debug, Args)]
pub struct DemoArgs {
    /// Run an agent and its page instead, on a path whose route changes (10 minutes)
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
    /// Only IPv4
    #[arg(short = '4', long, help_heading = "Host", conflicts_with = "ipv6")]
    pub ipv4: bool,
    /// Only IPv6
    #[arg(short = '6', long, help_heading = "Host")]
    pub ipv6: bool,
    /// Local address to send from
    #[arg(short = 'B', long, value_name = "ADDR", help_heading = "Host")]
    pub bind: Option<IpAddr>,
    /// Local device to send through
    #[arg(long, value_name = "DEV", value_parser = value_parsers::parse_device, help_heading = "Host")]
    pub bind_dev: Option<String>,
}

/// Where results go.
#[derive(Debug, Clone, Args)]
pub struct OutputArgs {
    /// The report as JSON on standard output
    #[arg(short = 'J', long, help_heading = "Output")]
    pub json: bool,
    /// Nothing but the result; no progress
    #[arg(short, long, help_heading = "Output")]
    pub quiet: bool,
    /// Keep the run out of the archive
    #[arg(long, help_heading = "Output")]
    pub no_save: bool,
    #[command(flatten)]
    pub archive: ArchiveArgs,
}

/// Where the archive is.
#[derive(Debug, Clone, Args)]
pub struct ArchiveArgs {
    /// Archive of finished runs [default: longhaul/archive.sqlite3 in the XDG data folder]
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
    /// Token of the far end; other users of this host can see it in the process list, so
    /// prefer --token-file or LONGHAUL_TOKEN
    #[arg(
        long,
        value_name = "TOKEN",
        conflicts_with = "token_file",
        help_heading = "Access"
    )]
    pub token: Option<String>,
    /// File whose first line is the token
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
                    names
                        .iter()
                        .all(|n| n.chars().all(|c| c.is_uppercase() || c == '='))
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
