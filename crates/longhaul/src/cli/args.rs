//! The commands and their options, as typed by the user.

use crate::cli::report_archiving;
use crate::cli::value_parsers::{
    accept_count, accept_file, parse_affinity, parse_buffer_size, parse_congestion_control,
    parse_connect_timeout, parse_device, parse_dscp, parse_environment, parse_moment, parse_period,
    parse_port, parse_report_kind, parse_span_us, parse_tos,
};
use clap::{Args, Command, Parser, Subcommand, ValueEnum};
use jiff::Timestamp;
use longhaul_agent::PAGE_DIGEST;
use longhaul_agent::event_log::LogFormat;
use longhaul_model::report::v1::plan::{CoreAffinity, RunDirection};
use longhaul_model::report::v1::{ReportKind, TimePeriod};
use longhaul_probe::host_endpoint::HostEndpoint;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::LazyLock;
use std::time::Duration;

pub use super::archive_command::ArchiveCommandArgs;
pub use super::available_command::AvailableArgs;
pub use super::capture_command::{CaptureArgs, TestCaptureArgs};
pub use super::copy_command::CopyArgs;
pub use super::explain_command::ExplainArgs;
pub use super::host_command::HostArgs;
pub use super::import_command::ImportArgs;
pub use super::iperf3_command::{Iperf3Args, Iperf3UserArgs};
pub use super::lab_command::LabArgs;
pub use super::latency_command::LatencyArgs;
pub use super::load_command::LoadArgs;
pub use super::manual::{CompletionsArgs, ManArgs};
pub use super::mcp_command::McpArgs;
pub use super::ndt7_command::Ndt7Args;
pub use super::path_command::PathArgs;
pub use super::predict_command::PredictArgs;
pub use super::pscheduler_command::PschedulerArgs;
pub use super::psconfig_command::PsconfigArgs;
pub use super::record_command::RecordArgs;
pub use super::serve_command::ServeArgs;
pub use super::test_command::{TestArgs, TestFormat};
pub use super::tune_command::{ScanFilesArgs, TuneArgs};
pub use super::watch_command::WatchArgs;

const EXAMPLES: &str = include_str!("help/longhaul-examples.txt").trim_ascii_end();

const DETAILS: &str = include_str!("help/longhaul-details.txt").trim_ascii_end();

/// The commands in the groups in which `longhaul --help` lists them.
const GROUPS: [(&str, &[&str]); 5] = [
    (
        "Measure",
        &[
            "test",
            "path",
            "latency",
            "available",
            "load",
            "copy",
            "explain",
            "serve",
            "iperf3",
            "ndt7",
        ],
    ),
    ("Tune", &["tune", "host", "predict"]),
    ("Monitor", &["watch", "psconfig"]),
    ("Archive", &["report", "archive", "import", "record", "capture"]),
    ("Other", &["lab", "demo", "mcp", "completions", "man"]),
];

/// Returns the template of the help of `longhaul`. Headings have clap's style.
fn help_template() -> String {
    let heading = |title: &str| format!("\n\x1b[1m\x1b[4m{title}:\x1b[0m\n");
    let commands = CliCommand::augment_subcommands(Command::new("longhaul"));
    let line = |name: &&str| {
        let about = commands.find_subcommand(name).and_then(Command::get_about);
        format!("  {name:<11}  {}\n", about.cloned().unwrap_or_default())
    };
    let groups = GROUPS
        .iter()
        .map(|(title, names)| heading(title) + &names.iter().map(line).collect::<String>());
    format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n{}  help         Print the help of a \
         command\n{}{{options}}{{after-help}}",
        groups.collect::<String>(),
        heading("Options")
    )
}

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
    after_long_help = [EXAMPLES, DETAILS].join("\n\n"),
    help_template = help_template(),
    max_term_width = 80,
    // Scripts append options to those that they have; the last one counts, as in iperf3.
    args_override_self = true,
)]
pub struct CliArgs {
    #[command(subcommand)]
    pub command: CliCommand,
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
    /// Measure round-trip and one-way latency by STAMP or TWAMP
    Latency(Box<LatencyArgs>),
    /// Estimate capacity and available bandwidth with short trains
    Available(Box<AvailableArgs>),
    /// Measure RTT and loss under load, and the effect on other flows
    Load(Box<LoadArgs>),
    /// Copy files and report whether disk, CPU or network was the limit
    Copy(Box<CopyArgs>),
    /// Explain what limits the transfers of other programs on this host
    Explain(ExplainArgs),
    /// Audit, change and restore this host's settings for long fat paths
    Host(Box<HostArgs>),
    /// Measure or serve with the options of iperf3
    Iperf3(Box<Iperf3Args>),
    /// Measure one connection with an ndt7 server, such as M-Lab's
    Ndt7(Box<Ndt7Args>),
    /// Predict throughput for windows and streams; compare with a scan
    Predict(Box<PredictArgs>),
    /// Emulate long paths with known properties on this machine
    Lab(LabArgs),
    /// Show and compare archived runs
    Report(ReportArgs),
    /// Check, back up and prune the archive
    Archive(ArchiveCommandArgs),
    /// Measure regularly, detect changes and serve a web page
    Watch(WatchArgs),
    /// Bundle a record with its evidence, verify bundles, check claims
    Record(Box<RecordArgs>),
    /// Analyse or print packet captures
    Capture(CaptureArgs),
    /// Import results of iperf, NTttcp, perfSONAR, ndt7, flent, ping
    Import(Box<ImportArgs>),
    /// Run two measurements over an emulated path
    Demo(DemoArgs),
    /// Convert a pSConfig template of perfSONAR into a watch file
    Psconfig(PsconfigArgs),
    /// Serve as a tool of perfSONAR's pScheduler, which calls it: JSON in, JSON out
    #[command(hide = true)]
    Pscheduler(PschedulerArgs),
    /// Serve reports and tests as tools of AI clients (MCP over stdio)
    Mcp(McpArgs),
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

/// The heading of arguments that are not options.
pub const NO_HEADING: Option<&str> = None;

/// The server, and how to reach it.
#[derive(Debug, Clone, Args)]
pub struct PeerArgs {
    // Not a doc comment: in one, the brackets would be a link.
    #[arg(
        value_name = "HOST",
        help = "Name or address of the server, or HOST:PORT, [IPV6]:PORT",
        help_heading = NO_HEADING
    )]
    pub host: HostEndpoint,
    /// Port of the server [default: 5201]
    #[arg(short, long, value_name = "PORT", value_parser = parse_port, help_heading = "Host")]
    pub port: Option<u16>,
    #[command(flatten)]
    pub local: LocalArgs,
    #[command(flatten)]
    pub token: TokenArgs,
}

impl PeerArgs {
    /// Returns the name or address of the other host, without a port.
    pub fn host_name(&self) -> &str {
        &self.host.host
    }

    /// Returns the port of the server.
    pub fn port_number(&self) -> u16 {
        self.host.port_or(self.port)
    }
}

/// The local end of connections.
#[derive(Debug, Clone, Default, Args)]
pub struct LocalArgs {
    /// Use IPv4 only
    #[arg(short = '4', long, alias = "version4", help_heading = "Host", conflicts_with = "ipv6")]
    pub ipv4: bool,
    /// Use IPv6 only
    #[arg(short = '6', long, alias = "version6", help_heading = "Host")]
    pub ipv6: bool,
    /// Local address to bind to
    #[arg(short = 'B', long, value_name = "ADDR", help_heading = "Host", hide_short_help = true)]
    pub bind: Option<IpAddr>,
    /// Local interface to bind to
    #[arg(long, value_name = "DEV", value_parser = parse_device, help_heading = "Host", hide_short_help = true)]
    pub bind_dev: Option<String>,
    /// Maximum time to connect, with its unit: 500ms, 5s [default: 10s, path: 4s]
    #[arg(long, value_name = "TIME", value_parser = parse_connect_timeout, help_heading = "Host", hide_short_help = true)]
    pub connect_timeout: Option<Duration>,
}

/// The threads and packets of the streams.
#[derive(Debug, Clone, Args)]
pub struct StreamArgs {
    /// Cores of the stream threads: auto, off, one of this host and, after a comma, one of the
    /// server (2,3), or lists with a slash between the hosts (0-3/4,6)
    #[arg(short = 'A', long, value_name = "CORES", default_value = "auto", value_parser = parse_affinity, help_heading = "Host", hide_short_help = true)]
    pub affinity: CoreAffinity,
    /// Use zero-copy writes
    #[arg(short = 'Z', long, help_heading = "Host", hide_short_help = true)]
    pub zerocopy: bool,
    /// DSCP of the packets: 0 to 63, or a name such as EF, AF11, CS1, LE
    #[arg(long, value_name = "DSCP", value_parser = parse_dscp, help_heading = "Host", overrides_with = "tos", hide_short_help = true)]
    pub dscp: Option<u8>,
    /// Type of service, 0 to 255: the DSCP is its upper six bits
    #[arg(short = 'S', long, value_name = "TOS", value_parser = parse_tos, help_heading = "Host", overrides_with = "dscp", hide_short_help = true)]
    pub tos: Option<u8>,
}

impl StreamArgs {
    /// Returns the code point of `--dscp` or `--tos`. The lower two bits belong to the network (ECN).
    pub fn code_point(&self) -> Option<u8> {
        self.dscp.or(self.tos.map(|tos| tos >> 2))
    }
}

/// The sockets of the streams.
#[derive(Debug, Clone, Default, Args)]
pub struct SocketArgs {
    /// Send and receive buffer size, at both ends
    #[arg(short, long, value_name = "SIZE", value_parser = parse_buffer_size, help_heading = "TCP and sockets")]
    pub window: Option<u64>,
    /// Congestion control, such as cubic or bbr
    #[arg(short = 'C', long, value_name = "NAME", aliases = ["congestion", "linux-congestion"], value_parser = parse_congestion_control, help_heading = "TCP and sockets")]
    pub congestion_control: Option<String>,
}

/// The direction of the payload.
#[derive(Debug, Clone, Default, Args)]
pub struct DirectionArgs {
    /// Reverse: the server sends
    #[arg(short = 'R', long, conflicts_with = "bidir")]
    pub reverse: bool,
    /// Both directions (tune: in turn)
    #[arg(long, alias = "both")]
    pub bidir: bool,
}

impl DirectionArgs {
    pub fn direction(&self) -> RunDirection {
        match (self.reverse, self.bidir) {
            (_, true) => RunDirection::Both,
            (true, false) => RunDirection::Reverse,
            (false, false) => RunDirection::Forward,
        }
    }
}

/// Where the report of a measurement goes.
#[derive(Debug, Clone, Args)]
pub struct OutputArgs {
    #[command(flatten)]
    pub form: ReportOutputArgs,
    /// Print everything, not only the brief result
    #[arg(long, alias = "verbose", short_alias = 'V', help_heading = "Output")]
    pub full: bool,
    /// Print only the answer, and no progress
    #[arg(short, long, help_heading = "Output", conflicts_with = "full")]
    pub quiet: bool,
    /// Do not archive the run
    #[arg(long, help_heading = "Output")]
    pub no_save: bool,
    #[command(flatten)]
    pub archive: ArchiveArgs,
}

impl OutputArgs {
    /// Returns true if progress may be shown beside the report.
    pub fn shows_progress(&self) -> bool {
        !self.quiet && !self.form.json
    }
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
        help_heading = "Output",
        hide_short_help = true
    )]
    pub archive: Option<PathBuf>,
}

/// The network whose runs are wanted.
#[derive(Debug, Clone, Default, Args)]
pub struct EnvironmentArgs {
    /// Network of the runs: network, loopback, lab, lab:NAME or all [default: where this command
    /// runs]
    #[arg(long, value_name = "ENV", value_parser = parse_environment)]
    pub environment: Option<String>,
}

impl EnvironmentArgs {
    /// Returns the environment to select in the archive; `None` for all.
    pub fn filter(&self) -> Option<String> {
        let own = || report_archiving::own_environment().to_string();
        Some(self.environment.clone().unwrap_or_else(own)).filter(|word| word != ALL_ENVIRONMENTS)
    }
}

/// The word for runs of all environments.
pub const ALL_ENVIRONMENTS: &str = "all";

/// The format of the log of a service.
#[derive(Debug, Clone, Args)]
pub struct LogArgs {
    /// Format of the log; auto: text on a terminal, otherwise logfmt
    #[arg(long, value_name = "FORMAT", default_value = "auto", help_heading = "Output")]
    pub log_format: LogFormatName,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LogFormatName {
    Auto,
    Logfmt,
    Json,
}

impl LogArgs {
    /// Returns the format; `json` is the option of that name.
    pub fn format(&self, json: bool, on_terminal: bool) -> LogFormat {
        match self.log_format {
            _ if json => LogFormat::Json,
            LogFormatName::Json => LogFormat::Json,
            LogFormatName::Auto if on_terminal => LogFormat::Text,
            LogFormatName::Auto | LogFormatName::Logfmt => LogFormat::Logfmt,
        }
    }
}

/// The secret that the two ends share.
#[derive(Debug, Clone, Args)]
pub struct TokenArgs {
    /// Token of the server; prefer --token-file or LONGHAUL_TOKEN, because other users can see
    /// this option in the process list
    #[arg(
        long,
        value_name = "TOKEN",
        conflicts_with = "token_file",
        help_heading = "Access",
        hide_short_help = true
    )]
    pub token: Option<String>,
    /// File with the token in its first line
    #[arg(long, value_name = "FILE", help_heading = "Host")]
    pub token_file: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct ReportArgs {
    #[command(subcommand)]
    pub command: ReportCommand,
}

#[derive(Debug, Subcommand)]
pub enum ReportCommand {
    /// List the latest runs, newest first
    List(ListArgs),
    /// Show an archived run
    Show {
        /// Id of the run, its first letters, or `last`
        #[arg(value_name = "ID")]
        id: String,
        #[command(flatten)]
        written: ReportOutputArgs,
        #[command(flatten)]
        files: Box<ScanFilesArgs>,
        #[command(flatten)]
        archive: ArchiveArgs,
    },
    /// Compare paths in two periods: changes, their significance and causes
    Case(Box<CaseArgs>),
    /// Summarise all paths: maximum, best setting, RTT, links
    Site(Box<SiteArgs>),
    /// Compare the two directions of paths, and explain the differences
    Asymmetry(Box<AsymmetryArgs>),
    /// Compare two runs or sets of runs, with a significance test
    Compare(Box<CompareArgs>),
    /// Show routes over time: a table of hours per host, and all changes
    Routes(RoutesArgs),
    /// Sum the transfers of each day: bytes by program or SciTag, peer and limiter
    Transfers(TransfersArgs),
    /// List lasting changes found by `longhaul watch`, newest first
    Events(EventsArgs),
    /// Show a change and its causes
    Event {
        /// Id of the event, or its first letters
        #[arg(value_name = "ID")]
        id: String,
        /// Print JSON
        #[arg(short = 'J', long, help_heading = "Output")]
        json: bool,
        #[command(flatten)]
        archive: ArchiveArgs,
    },
}

#[derive(Debug, Args)]
pub struct ListArgs {
    /// Only runs from or to hosts with this in their name
    #[arg(value_name = "HOST")]
    pub host: Option<String>,
    /// Maximum number of runs
    #[arg(short = 'n', long, value_name = "N", default_value_t = 20, value_parser = accept_count::<u32>(1..=100_000))]
    pub limit: u32,
    /// Only runs of this kind, such as throughput, path or scan
    #[arg(long, value_name = "KIND", value_parser = parse_report_kind)]
    pub kind: Option<ReportKind>,
    /// Only runs since this date or time (UTC), or within this time before now
    #[arg(long, value_name = "TIME", value_parser = parse_moment)]
    pub since: Option<Timestamp>,
    /// Only runs in this network: network, loopback, lab or lab:NAME
    #[arg(long, value_name = "ENV", value_parser = parse_environment)]
    pub environment: Option<String>,
    /// Print JSON
    #[arg(short = 'J', long, help_heading = "Output")]
    pub json: bool,
    #[command(flatten)]
    pub archive: ArchiveArgs,
}

#[derive(Debug, Args)]
pub struct RoutesArgs {
    /// Hosts, as named in the runs
    #[arg(value_name = "HOST", required = true)]
    pub hosts: Vec<String>,
    /// Only traces since this date or time (UTC)
    #[arg(long, value_name = "TIME", value_parser = parse_moment, default_value = "7d")]
    pub since: Timestamp,
    #[command(flatten)]
    pub environment: EnvironmentArgs,
    /// Print JSON
    #[arg(short = 'J', long, help_heading = "Output")]
    pub json: bool,
    #[command(flatten)]
    pub archive: ArchiveArgs,
}

#[derive(Debug, Args)]
pub struct TransfersArgs {
    /// Only transfers with this in the name of their program, SciTag or peer
    #[arg(value_name = "NAME")]
    pub name: Option<String>,
    /// Only transfers since this date or time (UTC)
    #[arg(long, value_name = "TIME", value_parser = parse_moment, default_value = "7d")]
    pub since: Timestamp,
    /// Print JSON
    #[arg(short = 'J', long, help_heading = "Output")]
    pub json: bool,
    #[command(flatten)]
    pub archive: ArchiveArgs,
}

#[derive(Debug, Args)]
pub struct EventsArgs {
    /// Only paths from or to this host, as named in the watch file
    #[arg(value_name = "HOST")]
    pub host: Option<String>,
    /// Only changes since this date or time (UTC)
    #[arg(long, value_name = "TIME", value_parser = parse_moment, default_value = "30d")]
    pub since: Timestamp,
    /// Include withdrawn suspicions
    #[arg(short, long)]
    pub all: bool,
    /// Print JSON
    #[arg(short = 'J', long, help_heading = "Output")]
    pub json: bool,
    #[command(flatten)]
    pub archive: ArchiveArgs,
}

const CASE: &str = include_str!("help/report-case.txt").trim_ascii_end();

const COMPARE: &str = include_str!("help/report-compare.txt").trim_ascii_end();

/// The extensions of files that a report can be written to.
const REPORT_EXTENSIONS: [&str; 6] = ["html", "htm", "md", "markdown", "txt", "json"];

/// In which form, and where to.
#[derive(Debug, Clone, Default, Args)]
pub struct ReportOutputArgs {
    /// Print JSON
    #[arg(short = 'J', long, help_heading = "Output", conflicts_with = "markdown")]
    pub json: bool,
    /// Print Markdown, for an issue or an email
    #[arg(long, help_heading = "Output", hide_short_help = true)]
    pub markdown: bool,
    /// Also write to an .html, .md, .txt or .json file
    ///
    /// May be repeated; HTML has figures.
    #[arg(short, long, value_name = "FILE", value_parser = accept_file(&REPORT_EXTENSIONS), help_heading = "Output")]
    pub output: Vec<PathBuf>,
}

#[derive(Debug, Args)]
#[command(after_help = CASE)]
pub struct CaseArgs {
    /// Hosts, as named in the runs
    #[arg(value_name = "HOST", required_unless_present = "event", num_args = 0..=64)]
    pub hosts: Vec<String>,
    /// Earlier period
    #[arg(long, value_name = "PERIOD", value_parser = parse_period, requires = "after")]
    pub before: Option<TimePeriod>,
    /// Later period
    #[arg(long, value_name = "PERIOD", value_parser = parse_period, requires = "before")]
    pub after: Option<TimePeriod>,
    /// Time of the change, between the two periods
    #[arg(long, value_name = "TIME", value_parser = parse_moment, conflicts_with_all = ["before", "after"])]
    pub at: Option<Timestamp>,
    /// Event between the two periods, from `longhaul report events`; the periods end where its
    /// levels do
    #[arg(long, value_name = "ID", conflicts_with_all = ["before", "after", "at"])]
    pub event: Option<String>,
    /// Maximum length of the periods with --at and --event
    #[arg(long, value_name = "TIME", default_value = "7d", value_parser = parse_span_us)]
    pub span: i64,
    #[command(flatten)]
    pub environment: EnvironmentArgs,
    #[command(flatten)]
    pub written: ReportOutputArgs,
    #[command(flatten)]
    pub archive: ArchiveArgs,
}

/// Options of `longhaul report site`, which `asymmetry` has as well.
#[derive(Debug, Args)]
pub struct SiteArgs {
    /// Only paths from or to these hosts
    #[arg(value_name = "HOST", num_args = 0..=64)]
    pub hosts: Vec<String>,
    /// Only runs in this period [default: all]
    #[arg(long, value_name = "PERIOD", value_parser = parse_period)]
    pub period: Option<TimePeriod>,
    #[command(flatten)]
    pub environment: EnvironmentArgs,
    #[command(flatten)]
    pub written: ReportOutputArgs,
    #[command(flatten)]
    pub archive: ArchiveArgs,
}

#[derive(Debug, Args)]
pub struct AsymmetryArgs {
    /// Maximum time between compared runs of the two directions
    #[arg(long, value_name = "TIME", default_value = "2h", value_parser = parse_span_us)]
    pub within: i64,
    #[command(flatten)]
    pub site: SiteArgs,
}

#[derive(Debug, Args)]
#[command(after_help = COMPARE)]
pub struct CompareArgs {
    /// First set, such as the runs before a change
    #[arg(value_name = "A")]
    pub a: String,
    /// Second set
    #[arg(value_name = "B")]
    pub b: String,
    /// Exit with 1 unless the condition holds, such as 'change >= -5 %'; may be repeated
    #[arg(long, value_name = "CONDITION")]
    pub expect: Vec<crate::cli::expectation::ChangeExpectation>,
    #[command(flatten)]
    pub environment: EnvironmentArgs,
    #[command(flatten)]
    pub written: ReportOutputArgs,
    #[command(flatten)]
    pub archive: ArchiveArgs,
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
    fn every_command_for_people_is_in_one_group_of_the_help() {
        let names = GROUPS.iter().flat_map(|(_, names)| names.iter().copied());
        let names: BTreeSet<&str> = names.collect();
        let all = CliArgs::command();
        let shown = all.get_subcommands().filter(|command| !command.is_hide_set());
        let known: BTreeSet<&str> = shown.map(clap::Command::get_name).collect();
        assert_eq!(names, known);
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
