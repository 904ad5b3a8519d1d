//! `longhaul copy SRC DST`: copies files, then analyses, archives and shows the result.

mod copy_progress;

use crate::cli::args::{LocalArgs, OutputArgs, SocketArgs, TokenArgs};
use crate::cli::firefly_sender::{FireflySender, MarkingArgs};
use crate::cli::progress_lines::StatusLine;
use crate::cli::report_archiving::{self, saturating_micros, timestamp_of};
use crate::cli::tune_command::scan_history::{self, TunedPath};
use crate::cli::value_parsers::{parse_port, parse_streams};
use crate::cli::{command_output, interrupt, option_resolution, report_command};
use crate::command_failure::{CommandFailure, HOST, INTERRUPTED, PEER, USAGE};
use clap::Args;
use copy_progress::{CopyTracker, left_bytes};
use longhaul_analysis::copy_adaptation::{CopyAdapter, CopySample, MAX_ADDED_STREAMS};
use longhaul_analysis::copy_analysis::conclude_copy;
use longhaul_copy::{
    BLOCK_BYTES, CopyError, CopyOutcome, CopyProgress, CopyRequest, LocalLocation, MAX_DISK_THREADS,
};
use longhaul_model::report::v1::copy::{CopyConcurrency, CopyForecast, CopyPlan};
use longhaul_model::report::v1::scan::TransferSetting;
use longhaul_model::report::v1::{CopyReport, Report};
use longhaul_probe::host_endpoint::{EndpointError, HostEndpoint};
use longhaul_probe::throughput::{self, TargetHost};
use longhaul_report::copy_text::build_copy_document;
use std::path::PathBuf;
use std::process::ExitCode;

const EXAMPLES: &str = include_str!("help/copy-examples.txt").trim_ascii_end();

const DETAILS: &str = include_str!("help/copy-details.txt").trim_ascii_end();

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, after_long_help = [EXAMPLES, DETAILS].join("\n\n"))]
pub struct CopyArgs {
    /// Source: FILE, FOLDER, HOST:NAME or -
    #[arg(value_name = "SRC", value_parser = parse_copy_endpoint)]
    pub source: CopyEndpoint,
    /// Target: FILE, FOLDER, HOST:NAME or -
    #[arg(value_name = "DST", value_parser = parse_copy_endpoint)]
    pub target: CopyEndpoint,
    /// Port of the server
    #[arg(short, long, value_name = "PORT", default_value_t = 5201, value_parser = parse_port)]
    pub port: u16,

    /// Number of parallel connections [default: as tuned, else 4, and more while they add rate]
    #[arg(short = 'P', long, value_name = "N", value_parser = parse_streams, help_heading = "Copy")]
    pub streams: Option<u32>,
    #[command(flatten)]
    pub socket: SocketArgs,
    /// Bypass the page cache when reading and writing
    #[arg(long, help_heading = "Copy")]
    pub direct: bool,
    /// Overwrite an existing file at the target
    #[arg(long, help_heading = "Copy")]
    pub overwrite: bool,

    #[command(flatten)]
    pub local: LocalArgs,
    #[command(flatten)]
    pub token: TokenArgs,
    #[command(flatten)]
    pub marking: MarkingArgs,
    #[command(flatten)]
    pub output: OutputArgs,
}

pub fn run(args: &CopyArgs) -> Result<ExitCode, CommandFailure> {
    let asked = prepare_copy(args)?;
    let stop = interrupt::install_stop_flag()?;
    let mut line = StatusLine::new(args.output.shows_progress());
    let (mut tracker, mut has_begun) = (CopyTracker::default(), false);
    let mut adapter = CopyAdapter::new(asked.concurrency_limits());
    let mut fireflies = args.marking.firefly_sender(true)?;
    let copied = longhaul_copy::copy_files(&asked.peer, &asked.request, &stop, &mut |now| {
        if let Some(fireflies) = &mut fireflies {
            fireflies.observe(asked.request.plan.forward, &now.own_ends);
        }
        has_begun = true;
        tracker.track_progress(now);
        line.update(&tracker.format_progress());
        adapter.add_sample(&sample_progress(now))
    });
    line.clear();
    let mut outcome = copied.map_err(|error| {
        let failure = copy_failure(&error, &asked);
        if has_begun {
            return failure.cause(&format!("the copy had reached {}", tracker.format_progress()));
        }
        failure
    })?;
    outcome.caveats.extend(fireflies.iter_mut().flat_map(FireflySender::finish_run));
    outcome.observation.adjustments = adapter.into_adjustments();
    let (forecasts, caveat) = tracker.finish();
    outcome.caveats.extend(caveat);
    let report = archive_copy(args, &asked, outcome, forecasts);
    if asked.is_to_stdout() {
        // The file is on standard output, so the report goes to stderr.
        if !args.output.quiet {
            command_output::print_note(build_copy_document(&report).text().trim_end());
        }
        return Ok(ExitCode::SUCCESS);
    }
    report_command::write_run(&args.output, &report, build_copy_document(&report))?;
    Ok(ExitCode::SUCCESS)
}

fn sample_progress(now: &CopyProgress) -> CopySample {
    CopySample {
        elapsed_us: saturating_micros(now.elapsed),
        network_bytes: now.own_ends.iter().map(|end| end.bytes).sum(),
        left_bytes: left_bytes(now),
        idle_rtt_us: now.idle_rtt.map_or(0, saturating_micros),
        source: now.source,
        target: now.target,
        concurrency: now.concurrency,
    }
}

fn archive_copy(
    args: &CopyArgs,
    asked: &PreparedCopy,
    outcome: CopyOutcome,
    forecasts: Vec<CopyForecast>,
) -> CopyReport {
    let (mut analysis, findings) = conclude_copy(&outcome.observation);
    analysis.forecasts = forecasts;
    let run = report_archiving::create_run_info(
        timestamp_of(outcome.started_at),
        outcome.duration,
        outcome.initiator,
        outcome.responder,
    );
    let mut report = Report::new(run, asked.request.plan.clone(), outcome.observation, analysis)
        .with_notes(findings, outcome.caveats);
    report_archiving::archive_report(&args.output, &mut report);
    report
}

fn copy_failure(error: &CopyError, asked: &PreparedCopy) -> CommandFailure {
    let taken_up = "run the same command again to resume; partial data is kept at the target";
    let hint = asked.is_resumable().then_some(taken_up);
    match error {
        CopyError::Session(inner) => {
            CommandFailure::from_error(inner.exit_code(), inner).hint(inner.hint())
        }
        CopyError::Local(_) => CommandFailure::from_error(HOST, error).hint(copy_error_hint(error)),
        CopyError::Server { .. } => {
            CommandFailure::from_error(PEER, error).hint(copy_error_hint(error))
        }
        CopyError::Network { .. } => CommandFailure::from_error(PEER, error).hint(hint),
        CopyError::Stopped => CommandFailure::from_error(INTERRUPTED, error).hint(hint),
    }
}

/// Returns a hint for an error, unless its message already says what to do.
fn copy_error_hint(error: &CopyError) -> Option<&'static str> {
    let text = error.to_string();
    let knows = |part: &str| text.contains(part);
    if knows("No space left") {
        return Some("free space at the target, then run the same command again to resume");
    }
    if knows("token may write") {
        return Some("give the token that `longhaul serve` printed, with `--token-file FILE`");
    }
    if knows("--overwrite") || knows("--files") || knows("--direct") {
        // The message names the option.
        return None;
    }
    Some("check the name and its permissions; see `longhaul copy --help` for the forms of names")
}

/// The number of streams without an option or a result of `tune`.
const DEFAULT_STREAMS: u32 = 4;

struct PreparedCopy {
    pub peer: TargetHost,
    pub request: CopyRequest,
}

impl PreparedCopy {
    /// Returns true if an interrupted copy can be resumed.
    pub fn is_resumable(&self) -> bool {
        self.request.local != LocalLocation::Stream
    }

    /// Returns the maximum of connections and disk threads: streams requested by an option are fixed,
    /// and the blocks of a pipe stay in order.
    fn concurrency_limits(&self) -> CopyConcurrency {
        let plan = &self.request.plan;
        let is_fixed = plan.setting_from == "option";
        let in_order = self.request.local == LocalLocation::Stream;
        let disk_threads = MAX_DISK_THREADS as u32;
        CopyConcurrency {
            streams: if is_fixed { plan.streams } else { MAX_ADDED_STREAMS.max(plan.streams) },
            readers: if in_order { 1 } else { disk_threads },
            writers: if in_order && !plan.forward { 1 } else { disk_threads },
        }
    }

    pub fn is_to_stdout(&self) -> bool {
        !self.request.plan.forward && self.request.local == LocalLocation::Stream
    }
}

fn prepare_copy(args: &CopyArgs) -> Result<PreparedCopy, CommandFailure> {
    let (forward, near, host, name) = split_endpoints(args)?;
    let host = HostEndpoint { host: host.to_owned(), port: None };
    let peer = TargetHost {
        flow_label: args.marking.flow_label(),
        ..option_resolution::build_target(&host, Some(args.port), &args.local, &args.token)?
    };
    let request = CopyRequest {
        plan: plan_copy(args, load_tuned_setting(args, &peer, forward), forward),
        local: match near {
            CopyEndpoint::Local(path) => LocalLocation::Path(path.clone()),
            _ => LocalLocation::Stream,
        },
        remote_path: name.to_owned(),
    };
    Ok(PreparedCopy { peer, request })
}

/// Returns the direction, the local end, and the host and name of the remote end.
fn split_endpoints(args: &CopyArgs) -> Result<(bool, &CopyEndpoint, &str, &str), CommandFailure> {
    let usage =
        |text: &str, hint: &'static str| Err(CommandFailure::new(USAGE, text).hint(Some(hint)));
    let (forward, near, host, name) = match (&args.source, &args.target) {
        (CopyEndpoint::Remote { .. }, CopyEndpoint::Remote { .. }) => {
            return usage(
                "cannot copy between two remote hosts",
                "run `longhaul copy` on one of them",
            );
        }
        (near, CopyEndpoint::Remote { host, name }) => (true, near, host, name),
        (CopyEndpoint::Remote { host, name }, near) => (false, near, host, name),
        _ => {
            return usage(
                "cannot copy: neither end is on another host",
                "name the remote end as HOST:NAME, or use `cp`",
            );
        }
    };
    if args.output.form.json && !forward && *near == CopyEndpoint::Stream {
        return usage(
            "cannot write both the file and the report to standard output",
            "name a target file, or show the report with `longhaul report show last`",
        );
    }
    Ok((forward, near, host, name))
}

/// Returns the setting recommended by an earlier scan, unless options set the number of streams.
fn load_tuned_setting(
    args: &CopyArgs,
    peer: &TargetHost,
    forward: bool,
) -> Option<TransferSetting> {
    if args.streams.is_some() {
        return None;
    }
    let scans = scan_history::recent_scans(&args.output.archive, &peer.host);
    if scans.is_empty() {
        return None;
    }
    let peer = throughput::choose_address(peer).ok()?;
    let idle_rtt = throughput::measure_connect_rtt(&peer).ok()?;
    let path = TunedPath { address: peer.chosen_ip(), idle_rtt };
    Some(scan_history::recommended_setting(&scans, forward, &path)?.setting)
}

fn plan_copy(args: &CopyArgs, tuned: Option<TransferSetting>, forward: bool) -> CopyPlan {
    let typed = |end: &CopyEndpoint| match end {
        CopyEndpoint::Local(path) => path.display().to_string(),
        CopyEndpoint::Remote { name, .. } => name.clone(),
        CopyEndpoint::Stream => "-".to_owned(),
    };
    let from = match (&tuned, args.streams) {
        (Some(_), _) => "tune",
        (None, Some(_)) => "option",
        (None, None) => "default",
    };
    let default = TransferSetting { streams: DEFAULT_STREAMS, ..TransferSetting::default() };
    let setting = tuned.unwrap_or(default);
    CopyPlan {
        source: typed(&args.source),
        target: typed(&args.target),
        forward,
        streams: args.streams.unwrap_or(setting.streams),
        window_bytes: args.socket.window.or(setting.window_bytes),
        congestion_control: args.socket.congestion_control.clone().or(setting.congestion_control),
        setting_from: from.to_owned(),
        block_bytes: BLOCK_BYTES,
        direct: args.direct,
        overwrite: args.overwrite,
    }
}

/// One end of a copy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CopyEndpoint {
    Local(PathBuf),
    Remote {
        host: String,
        name: String,
    },
    /// Standard input or output.
    Stream,
}

/// Parses `file`, `host:name`, `[v6]:name` or `-`. A colon after a slash belongs to a file name.
fn parse_copy_endpoint(text: &str) -> Result<CopyEndpoint, String> {
    match text {
        "" => return Err("expected FILE, HOST:NAME or -".to_owned()),
        "-" => return Ok(CopyEndpoint::Stream),
        _ => {}
    }
    let before_slash = text.split('/').next().unwrap_or_default();
    let colon = match (text.strip_prefix('['), text.find("]:")) {
        (Some(_), Some(end)) => Some(end + 1),
        _ => before_slash.find(':'),
    };
    let Some(colon) = colon else {
        return Ok(CopyEndpoint::Local(PathBuf::from(text)));
    };
    let (host, name) = (&text[..colon], &text[colon + 1..]);
    let host: HostEndpoint = host.parse().map_err(|error: EndpointError| error.to_string())?;
    Ok(CopyEndpoint::Remote { host: host.host, name: name.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_colon_before_the_first_slash_names_a_host() {
        let there = |host: &str, name: &str| CopyEndpoint::Remote {
            host: host.to_owned(),
            name: name.to_owned(),
        };
        let here = |path: &str| CopyEndpoint::Local(PathBuf::from(path));
        for (text, end) in [
            ("-", CopyEndpoint::Stream),
            ("a", here("a")),
            ("./a:b", here("./a:b")),
            ("/x/a:b", here("/x/a:b")),
            ("far:a/b", there("far", "a/b")),
            ("far:", there("far", "")),
            ("[2001:db8::1]:a:b", there("2001:db8::1", "a:b")),
        ] {
            assert_eq!(parse_copy_endpoint(text), Ok(end), "{text}");
        }
        for text in ["", ":a"] {
            assert!(parse_copy_endpoint(text).is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_text_panics(text in ".{0,40}|[\\[\\]:/a]{0,12}") {
            let _ = parse_copy_endpoint(&text);
        }
    }
}
