//! `longhaul ndt7 HOST`: a download and an upload with an ndt7 server, analysed like an import.

use crate::cli::args::{ArchiveArgs, ImportArgs, LocalArgs, TokenArgs};
use crate::cli::progress_lines::StatusLine;
use crate::cli::value_parsers::parse_port;
use crate::cli::{command_output, import_command, interrupt, option_resolution};
use crate::command_failure::CommandFailure;
use clap::Args;
use longhaul_import::ImportFormat;
use longhaul_ndt7::ndt7_messages::{AppCount, SubtestKind};
use longhaul_ndt7::subtest_client::{SubtestRun, run_subtest};
use longhaul_probe::host_endpoint::HostEndpoint;
use longhaul_probe::throughput::{TargetHost, initiator_party};
use longhaul_report::number_format::format_rate;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

const EXAMPLES: &str = include_str!("help/ndt7-examples.txt").trim_ascii_end();

/// Options of `longhaul ndt7`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Ndt7Args {
    /// Name or address of the server, or HOST:PORT
    #[arg(value_name = "HOST")]
    pub host: HostEndpoint,
    /// Port of the server [default: 5201, that of `longhaul serve`]
    #[arg(short, long, value_name = "PORT", value_parser = parse_port)]
    pub port: Option<u16>,
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

pub fn run(args: &Ndt7Args) -> Result<ExitCode, CommandFailure> {
    let stop = interrupt::install_stop_flag()?;
    let token = TokenArgs { token: None, token_file: None };
    let target = option_resolution::build_target(&args.host, args.port, &args.local, &token)?;
    let target = TargetHost { token: None, ..target };
    let is_wanted = |kind: &SubtestKind| match kind {
        SubtestKind::Download => !args.upload,
        SubtestKind::Upload => !args.download,
    };
    let mut lines = String::new();
    for kind in SubtestKind::ALL.into_iter().filter(is_wanted) {
        let SubtestRun { result, failure } = measure(args, &target, kind, &stop)?;
        lines += &(result.to_json() + "\n");
        if let Some(why) = failure {
            command_output::print_caveat(&format!("the {kind} ended early: {why}"));
        }
        if stop.load(Ordering::Relaxed) {
            break;
        }
    }
    if let Some(file) = &args.result {
        command_output::write_file(file, &lines, "name a file in a writable folder")?;
    }
    let import = ImportArgs {
        files: Vec::new(),
        format: Some(ImportFormat::Ndt7),
        from: Some(initiator_party(None).host),
        to: Some(args.host.host.clone()),
        at: None,
        dry_run: args.no_save,
        json: args.json,
        archive: args.archive.clone(),
    };
    let reports = import_command::parse_reports(lines.as_bytes(), "-", &import)?;
    import_command::show_reports(&reports, &import)?;
    Ok(ExitCode::SUCCESS)
}

fn measure(
    args: &Ndt7Args,
    target: &TargetHost,
    kind: SubtestKind,
    stop: &AtomicBool,
) -> Result<SubtestRun, CommandFailure> {
    let mut line = StatusLine::new(!args.json);
    let mut show = |count: AppCount| {
        let seconds = count.elapsed_time as f64 / 1e6;
        let rate = format_rate((count.num_bytes as f64 * 8.0 / seconds.max(1e-6)) as u64);
        line.update(&format!("{kind}: {seconds:.1} s, {rate}"));
    };
    let run = run_subtest(target, kind, !args.plain, stop, &mut show);
    line.clear();
    Ok(run?)
}
