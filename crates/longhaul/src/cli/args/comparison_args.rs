//! Options of `longhaul report case`, `site`, `asymmetry` and `compare`.

use super::ArchiveArgs;
use crate::cli::value_parsers;
use clap::Args;
use jiff::Timestamp;
use longhaul_model::report::v1::comparison::TimePeriod;
use std::path::PathBuf;

const CASE: &str = "\
Examples:
  longhaul report case far --before 3d..1d --after 1d..
  longhaul report case far --at 2003-06-11T22:45Z --span 2d -o case.html
  longhaul report case --event goodput-1a2b -o case.html
  longhaul report case cesnet in2p3 uk --before 2003-06-01..2003-06-11
      --after 2003-06-12..2003-06-20

A time is RFC 3339, a day, yesterday, today, now, or so long ago (2h, 90 min,
3d, 1w). All times are UTC. A period is FROM..TO, FROM.. (until now), or a day.";

const COMPARE: &str = "\
Examples:
  longhaul report compare last 20261121T215612Z
  longhaul report compare far@2d..1d far@1d.. --expect 'change >= -5 %'
  longhaul report compare old.json new.json
  longhaul report compare 20261120T1200,20261120T1300 20261121

A set is one or several of, with commas between: a run's id or its first
letters, `last`, a file of reports as JSON, a host (all runs to it), HOST@PERIOD
or @PERIOD, measure:NAME (of the watch file).

Expectations: change, change_low, change_high (the 95 % interval) of throughput,
or of another quantity as in rtt_floor.change; p. What cannot be told is missed.
Exit code 1: an expectation was missed.";

/// In which form, and where to.
#[derive(Debug, Clone, Default, Args)]
pub struct ReportOutputArgs {
    /// As JSON
    #[arg(
        short = 'J',
        long,
        help_heading = "Output",
        conflicts_with = "markdown"
    )]
    pub json: bool,
    /// As Markdown, for an issue or a mail
    #[arg(long, help_heading = "Output")]
    pub markdown: bool,
    /// Also to this file: .html (with figures, prints well), .md, .txt or .json; may be repeated
    #[arg(short, long, value_name = "FILE", help_heading = "Output")]
    pub output: Vec<PathBuf>,
}

#[derive(Debug, Args)]
#[command(after_help = CASE)]
pub struct CaseArgs {
    /// Far ends, as they were called when they were measured
    #[arg(value_name = "HOST", required_unless_present = "event", num_args = 0..=64)]
    pub hosts: Vec<String>,
    /// The earlier period
    #[arg(long, value_name = "PERIOD", value_parser = value_parsers::parse_period, requires = "after")]
    pub before: Option<TimePeriod>,
    /// The later period
    #[arg(long, value_name = "PERIOD", value_parser = value_parsers::parse_period, requires = "before")]
    pub after: Option<TimePeriod>,
    /// The change: the periods lie on either side of it
    #[arg(long, value_name = "TIME", value_parser = value_parsers::parse_moment, conflicts_with_all = ["before", "after"])]
    pub at: Option<Timestamp>,
    /// The periods lie on either side of this event of `longhaul report events`, as far as its levels
    /// lasted
    #[arg(long, value_name = "ID", conflicts_with_all = ["before", "after", "at"])]
    pub event: Option<String>,
    /// How long the periods are at most, with --at and --event
    #[arg(long, value_name = "TIME", default_value = "7d", value_parser = value_parsers::parse_length_us)]
    pub span: i64,
    #[command(flatten)]
    pub written: ReportOutputArgs,
    #[command(flatten)]
    pub archive: ArchiveArgs,
}

#[derive(Debug, Args)]
pub struct SiteArgs {
    /// Of paths from or to these hosts alone
    #[arg(value_name = "HOST", num_args = 0..=64)]
    pub hosts: Vec<String>,
    /// What was measured in this period [default: everything]
    #[arg(long, value_name = "PERIOD", value_parser = value_parsers::parse_period)]
    pub period: Option<TimePeriod>,
    #[command(flatten)]
    pub written: ReportOutputArgs,
    #[command(flatten)]
    pub archive: ArchiveArgs,
}

#[derive(Debug, Args)]
pub struct AsymmetryArgs {
    /// Of paths from or to these hosts alone
    #[arg(value_name = "HOST", num_args = 0..=64)]
    pub hosts: Vec<String>,
    /// What was measured in this period [default: everything]
    #[arg(long, value_name = "PERIOD", value_parser = value_parsers::parse_period)]
    pub period: Option<TimePeriod>,
    /// Runs of the two directions that lie farther apart are not compared
    #[arg(long, value_name = "TIME", default_value = "2h", value_parser = value_parsers::parse_length_us)]
    pub within: i64,
    #[command(flatten)]
    pub written: ReportOutputArgs,
    #[command(flatten)]
    pub archive: ArchiveArgs,
}

#[derive(Debug, Args)]
#[command(after_help = COMPARE)]
pub struct CompareArgs {
    /// The first set, such as how it was
    #[arg(value_name = "A")]
    pub a: String,
    /// The second set
    #[arg(value_name = "B")]
    pub b: String,
    /// Fail with exit code 1 unless this holds, such as 'change >= -5 %'; may be repeated
    #[arg(long, value_name = "CONDITION", value_parser = value_parsers::parse_change_expectation)]
    pub expect: Vec<crate::cli::expectation::change_expectation::ChangeExpectation>,
    #[command(flatten)]
    pub written: ReportOutputArgs,
    #[command(flatten)]
    pub archive: ArchiveArgs,
}
