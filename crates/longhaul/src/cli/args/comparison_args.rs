//! Options of `longhaul report case`, `site`, `asymmetry` and `compare`.

use super::ArchiveArgs;
use crate::cli::value_parsers::{accept_file, parse_moment, parse_period, parse_span_us};
use clap::Args;
use jiff::Timestamp;
use longhaul_model::report::v1::comparison::TimePeriod;
use std::path::PathBuf;

const CASE: &str = "\
Examples:
  longhaul report case far --before 3d..1d --after 1d..
  longhaul report case far --at 2003-06-11T22:45Z --span 2d -o case.html
  longhaul report case --event goodput-1a2b -o case.html

A time is RFC 3339, a date, yesterday, today, now, or a time ago (2h, 90 min,
3d, 1w). All times are UTC. A period is FROM..TO, FROM.. (until now), or a date.";

const COMPARE: &str = "\
Examples:
  longhaul report compare last 20261121T215612Z
  longhaul report compare far@2d..1d far@1d.. --expect 'change >= -5 %'
  longhaul report compare old.json new.json

A set is a list with commas of: the id of a run or its first letters, `last`, a
JSON file of reports, a host (all runs to it), HOST@PERIOD or @PERIOD.

Expectations: change, change_low, change_high (the 95 % interval) of throughput,
or of another quantity as in rtt_floor.change; p. A value that cannot be
determined does not meet an expectation.";

/// The extensions of files that a report can be written to.
const REPORT_EXTENSIONS: [&str; 6] = ["html", "htm", "md", "markdown", "txt", "json"];

/// In which form, and where to.
#[derive(Debug, Clone, Default, Args)]
pub struct ReportOutputArgs {
    /// Print JSON
    #[arg(short = 'J', long, help_heading = "Output", conflicts_with = "markdown")]
    pub json: bool,
    /// Print Markdown, for an issue or an email
    #[arg(long, help_heading = "Output")]
    pub markdown: bool,
    /// Also write to this file: .html (with figures), .md, .txt or .json; may be repeated
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
    pub expect: Vec<crate::cli::expectation::change_expectation::ChangeExpectation>,
    #[command(flatten)]
    pub written: ReportOutputArgs,
    #[command(flatten)]
    pub archive: ArchiveArgs,
}
