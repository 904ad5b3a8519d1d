//! `longhaul ndt7`: a download and an upload with an ndt7 server, analysed like an import.

use crate::cli::args::{ArchiveArgs, ImportArgs, LocalArgs, TokenArgs};
use crate::cli::progress_lines::StatusLine;
use crate::cli::value_parsers::parse_port;
use crate::cli::{command_output, import_command, interrupt, option_resolution};
use crate::command_failure::{CommandFailure, PEER};
use clap::Args;
use longhaul_agent::http_client::{self, FetchLimits};
use longhaul_import::ImportFormat;
use longhaul_ndt7::ndt7_messages::{AppCount, SubtestKind};
use longhaul_ndt7::server_locator::{LocatedServer, MLAB_LOCATOR};
use longhaul_ndt7::subtest_client::{CLIENT_QUERY, SubtestRequest, SubtestRun, run_subtest};
use longhaul_probe::host_endpoint::HostEndpoint;
use longhaul_probe::throughput::{TargetHost, initiator_party};
use longhaul_report::number_format::format_rate;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const EXAMPLES: &str = include_str!("help/ndt7-examples.txt").trim_ascii_end();

/// The limits of an answer of the Locate API. M-Lab's has less than 8 KiB.
const LOCATE_LIMITS: FetchLimits = FetchLimits { bytes: 64 << 10, time: Duration::from_secs(15) };

/// Options of `longhaul ndt7`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Ndt7Args {
    /// Name or address of the server, or HOST:PORT
    #[arg(value_name = "HOST", required_unless_present = "locate", conflicts_with = "locate")]
    pub host: Option<HostEndpoint>,
    /// Port of the server [default: 5201, that of `longhaul serve`]
    #[arg(short, long, value_name = "PORT", value_parser = parse_port, conflicts_with = "locate")]
    pub port: Option<u16>,
    /// Let M-Lab, or another Locate API, assign a server; M-Lab publishes each result with your address
    #[arg(long, value_name = "URL", num_args = 0..=1, require_equals = true, default_missing_value = MLAB_LOCATOR)]
    pub locate: Option<String>,
    /// Use no TLS (ws:// instead of wss://); certificates are never verified
    #[arg(long)]
    pub plain: bool,
    /// Only measure the download
    #[arg(long, conflicts_with = "upload")]
    pub download: bool,
    /// Only measure the upload
    #[arg(long)]
    pub upload: bool,
    /// Also write the results in M-Lab's JSON, one on each line
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub result: Option<PathBuf>,
    /// Print the reports as JSON
    #[arg(short = 'J', long, help_heading = "Output")]
    pub json: bool,
    /// Do not archive the reports
    #[arg(long, help_heading = "Output")]
    pub no_save: bool,
    #[command(flatten)]
    pub local: LocalArgs,
    #[command(flatten)]
    pub archive: ArchiveArgs,
}

/// A subtest with its server.
struct PlannedSubtest {
    kind: SubtestKind,
    target: TargetHost,
    query: String,
}

/// The results of a server, in M-Lab's JSON with one on each line.
struct SubtestResults {
    host: String,
    lines: String,
}

pub fn run(args: &Ndt7Args) -> Result<ExitCode, CommandFailure> {
    let stop = interrupt::install_stop_flag()?;
    let SubtestResults { host, lines } = match (&args.locate, &args.host) {
        (None, Some(host)) => {
            let planned = wanted_subtests(args)
                .map(|kind| plan_subtest(args, kind, host, String::new()))
                .collect::<Result<Vec<_>, _>>()?;
            measure_server(args, &planned, &stop)?
        }
        (locator, _) => measure_located(args, locator.as_deref().unwrap_or(MLAB_LOCATOR), &stop)?,
    };
    if let Some(file) = &args.result {
        command_output::write_file(file, &lines, "name a file in a writable folder")?;
    }
    let import = ImportArgs {
        files: Vec::new(),
        format: Some(ImportFormat::Ndt7),
        from: Some(initiator_party(None).host),
        to: Some(host),
        at: None,
        dry_run: args.no_save,
        json: args.json,
        archive: args.archive.clone(),
    };
    let reports = import_command::parse_reports(lines.as_bytes(), "-", &import)?;
    import_command::show_reports(&reports, &import)?;
    Ok(ExitCode::SUCCESS)
}

fn wanted_subtests(args: &Ndt7Args) -> impl Iterator<Item = SubtestKind> {
    let (download, upload) = (!args.upload, !args.download);
    SubtestKind::ALL.into_iter().filter(move |kind| match kind {
        SubtestKind::Download => download,
        SubtestKind::Upload => upload,
    })
}

fn plan_subtest(
    args: &Ndt7Args,
    kind: SubtestKind,
    endpoint: &HostEndpoint,
    query: String,
) -> Result<PlannedSubtest, CommandFailure> {
    let token = TokenArgs { token: None, token_file: None };
    let target = option_resolution::build_target(endpoint, args.port, &args.local, &token)?;
    Ok(PlannedSubtest { kind, target: TargetHost { token: None, ..target }, query })
}

/// Measures with the first server of the Locate API that can be reached.
fn measure_located(
    args: &Ndt7Args,
    locator: &str,
    stop: &AtomicBool,
) -> Result<SubtestResults, CommandFailure> {
    let failed = |why: &dyn ToString| {
        CommandFailure::new(PEER, "no server was assigned")
            .cause(&why.to_string())
            .hint(Some("try again in some minutes, or name a server: `longhaul ndt7 HOST`"))
    };
    let and = if locator.contains('?') { '&' } else { '?' };
    let answer = http_client::fetch_text(&format!("{locator}{and}{CLIENT_QUERY}"), LOCATE_LIMITS);
    let answer = answer.map_err(|error| failed(&error))?;
    let servers = LocatedServer::parse_answer(&answer).map_err(|why| failed(&why))?;
    let mut last = failed(&"it names no server");
    for server in servers {
        match measure_assigned(args, &server, stop) {
            Err(failure) => last = failure,
            measured => return measured,
        }
    }
    Err(last)
}

fn measure_assigned(
    args: &Ndt7Args,
    server: &LocatedServer,
    stop: &AtomicBool,
) -> Result<SubtestResults, CommandFailure> {
    let plan = |kind| {
        let url = server.find_url(kind, !args.plain);
        let url = url.map_err(|why| CommandFailure::new(PEER, why))?;
        plan_subtest(args, kind, &url.endpoint, url.query)
    };
    let planned: Vec<PlannedSubtest> = wanted_subtests(args).map(plan).collect::<Result<_, _>>()?;
    if !args.json {
        command_output::print_note(&format!("measuring with {}", server.describe()));
    }
    measure_server(args, &planned, stop)
}

/// Runs subtests until `stop` is set. Fails if the first one cannot be run; another one that cannot
/// costs no finished result.
fn measure_server(
    args: &Ndt7Args,
    planned: &[PlannedSubtest],
    stop: &AtomicBool,
) -> Result<SubtestResults, CommandFailure> {
    let mut results = SubtestResults { host: String::new(), lines: String::new() };
    for subtest in planned {
        let SubtestRun { result, failure } = match measure(args, subtest, stop) {
            Err(failure) if !results.lines.is_empty() => {
                command_output::print_caveat(&format!("no {}: {}", subtest.kind, failure.message));
                break;
            }
            measured => measured?,
        };
        results.host.clone_from(&subtest.target.host);
        results.lines += &(result.to_json() + "\n");
        if let Some(why) = failure {
            command_output::print_caveat(&format!("the {} ended early: {why}", subtest.kind));
        }
        if stop.load(Ordering::Relaxed) {
            break;
        }
    }
    Ok(results)
}

fn measure(
    args: &Ndt7Args,
    subtest: &PlannedSubtest,
    stop: &AtomicBool,
) -> Result<SubtestRun, CommandFailure> {
    let kind = subtest.kind;
    let mut line = StatusLine::new(!args.json);
    let mut show = |count: AppCount| {
        let seconds = count.elapsed_time as f64 / 1e6;
        let rate = format_rate((count.num_bytes as f64 * 8.0 / seconds.max(1e-6)) as u64);
        line.update(&format!("{kind}: {seconds:.1} s, {rate}"));
    };
    let wanted = SubtestRequest { kind, uses_tls: !args.plain, query: &subtest.query };
    let run = run_subtest(&subtest.target, wanted, stop, &mut show);
    line.clear();
    Ok(run?)
}
