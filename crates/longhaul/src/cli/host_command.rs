//! `longhaul host`: audits this host, changes settings on request, archives and shows the report.
//!
//! - [`audit_paths`]: the paths that the host is audited for
//! - [`change_proof`]: writes and reverts settings, with test runs before and after

mod audit_paths;
mod change_proof;

use crate::cli::args::{LocalArgs, OutputArgs, TokenArgs};
use crate::cli::value_parsers::{
    accept_round_trip, parse_connect_timeout, parse_device, parse_environment, parse_port,
    parse_rate, parse_run_time,
};
use crate::cli::{command_output, option_resolution, report_archiving, report_command};
use crate::command_failure::{CommandFailure, HOST};
use change_proof::{ProofResult, RevertGuard};
use clap::Args;
use jiff::Timestamp;
use longhaul_analysis::audit;
use longhaul_model::report::v1::host::{AuditPlan, SettingChange};
use longhaul_model::report::v1::{HostReport, Report, ReportCaveat, RunInfo};
use longhaul_model::units::Rate;
use longhaul_probe::host::observe_host_with_buffer;
use longhaul_probe::host_endpoint::HostEndpoint;
use longhaul_probe::throughput::{self, TargetHost, initiator_party};
use longhaul_report::audit_text::{self, build_audit_document};
use serde_json::json;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

const EXAMPLES: &str = include_str!("help/host-examples.txt").trim_ascii_end();

const DETAILS: &str = include_str!("help/host-details.txt").trim_ascii_end();

#[derive(Debug, Args)]
#[command(next_help_heading = "Test runs")]
#[command(after_help = EXAMPLES, after_long_help = [EXAMPLES, DETAILS].join("\n\n"))]
pub struct HostArgs {
    /// RTT of the path to audit for [default: the paths in the archive]
    #[arg(long, value_name = "TIME", value_parser = accept_round_trip(), requires = "rate", help_heading = "Path")]
    pub rtt: Option<u64>,
    /// Rate of the path to audit for
    #[arg(long, value_name = "RATE", value_parser = parse_rate, requires = "rtt", help_heading = "Path")]
    pub rate: Option<u64>,
    /// Interface to audit [default: the one towards the server, or of the default route]
    #[arg(long, value_name = "DEV", value_parser = parse_device, help_heading = "Path")]
    pub interface: Option<String>,
    /// Network of the paths: network, loopback, lab, lab:NAME or all [default: where this command
    /// runs]
    #[arg(long, value_name = "ENV", value_parser = parse_environment, help_heading = "Path")]
    pub environment: Option<String>,

    /// Write safe, reversible settings
    #[arg(long, help_heading = "Changes")]
    pub apply: bool,
    /// Restore the values from before --apply
    #[arg(long, help_heading = "Changes", conflicts_with_all = ["apply", "rtt", "rate", "interface", "all"])]
    pub revert: bool,
    /// With --apply: test against this server before and after, and keep what helps
    #[arg(long, value_name = "HOST", requires = "apply", help_heading = "Changes")]
    pub prove: Option<HostEndpoint>,
    /// Journal of previous values [default: longhaul/host-journal.json in the XDG state folder]
    #[arg(
        long,
        value_name = "FILE",
        env = "LONGHAUL_JOURNAL",
        hide_env_values = true,
        help_heading = "Changes",
        hide_short_help = true
    )]
    pub journal: Option<PathBuf>,

    /// Port of the server [default: 5201]
    #[arg(short, long, value_name = "PORT", value_parser = parse_port)]
    pub port: Option<u16>,
    /// Duration of each run [default: 8 s, or 20 RTTs if longer]
    #[arg(short, long, value_name = "TIME", value_parser = parse_run_time, requires = "prove")]
    pub time: Option<u64>,
    /// Number of runs before and after the changes, in each direction
    #[arg(
        long, value_name = "N", default_value_t = 2,
        value_parser = clap::value_parser!(u32).range(2..=20),
    )]
    pub pairs: u32,
    /// Maximum time to connect [default: 10 s]
    #[arg(long, value_name = "TIME", value_parser = parse_connect_timeout)]
    pub connect_timeout: Option<Duration>,
    #[command(flatten)]
    pub token: TokenArgs,

    /// Show all rules, including those that passed
    #[arg(long, help_heading = "Output")]
    pub all: bool,
    #[command(flatten)]
    pub output: OutputArgs,
}

/// The minimum and maximum buffer size requested on a test socket, within what a host can spare.
const TRIAL_BUFFER_BYTES: (u64, u64) = (1 << 20, 64 << 20);

pub fn run(args: &HostArgs) -> Result<ExitCode, CommandFailure> {
    if args.revert {
        return revert_changes(args);
    }
    let started = Timestamp::now();
    let began = Instant::now();
    let known = audit_paths::load_audit_paths(args)?;
    let plan = AuditPlan {
        paths: known.paths,
        interface: args.interface.clone(),
        apply: args.apply,
        prove_with: args.prove.as_ref().map(|prove| prove.host.clone()),
    };
    let server = args.prove.as_ref().map(|host| proof_target(args, host)).transpose()?;
    // The route to the server is audited.
    let towards = match &server {
        Some(server) => server.chosen_ip(),
        None => known.latest,
    };
    let mut observation =
        observe_host_with_buffer(plan.interface.as_deref(), towards, trial_buffer_bytes(&plan));
    let id = report_archiving::generate_run_id(started);
    let mut proven = ProofResult::default();
    if args.apply {
        let (analysis, _, _) = audit::audit_host(&plan, &observation);
        let interface = observation.readings.get("interface.name").cloned();
        proven = apply_changes(
            args,
            server,
            &id,
            &change_proof::wanted_settings(&analysis),
            interface.as_deref(),
        )?;
        observation.changes.clone_from(&proven.changes);
        observation.trials = std::mem::take(&mut proven.trials);
    }
    let (analysis, findings, mut caveats) = audit::audit_host(&plan, &observation);
    caveats.extend(unwritten_caveat(&observation.changes));
    let own = initiator_party(None);
    let responder = proven.responder.unwrap_or_else(|| own.clone());
    let run = report_archiving::create_run_info(started, began.elapsed(), own, responder);
    let run = RunInfo { id, ..run };
    let mut report = Report::new(run, plan, observation, analysis).with_notes(findings, caveats);
    report_archiving::archive_report(&args.output, &mut report);
    let document = build_audit_document(&report, args.all);
    let output = OutputArgs { full: args.output.full || args.all, ..args.output.clone() };
    report_command::write_run(&output, &report, document)?;
    check_host_outcome(&report, proven.cut_off)
}

/// Returns the exit code after the report has been shown.
fn check_host_outcome(
    report: &HostReport,
    cut_off: Option<CommandFailure>,
) -> Result<ExitCode, CommandFailure> {
    if let Some(fail) = cut_off {
        return Err(fail.hint(Some("try again later; all settings were reverted")));
    }
    let changes = &report.observation.changes;
    if !changes.is_empty() && !changes.iter().any(change_proof::is_setting_written) {
        let mut fail = CommandFailure::new(HOST, "cannot change the settings of this host")
            .hint(Some("run as root, or let an administrator run the commands in the report"));
        fail.causes.extend(changes.iter().find_map(|change| change.error.clone()));
        return Err(fail);
    }
    Ok(ExitCode::SUCCESS)
}

/// Writes the settings. With a server, keeps only the changes that help.
fn apply_changes(
    args: &HostArgs,
    server: Option<TargetHost>,
    id: &str,
    settings: &[change_proof::WantedSetting],
    interface: Option<&str>,
) -> Result<ProofResult, CommandFailure> {
    let journal = change_proof::host_journal_path(args)?;
    if server.is_some() {
        change_proof::refuse_second_apply(&journal)?;
    }
    if settings.is_empty() {
        return Ok(ProofResult::default());
    }
    let mut guard = RevertGuard::new(&journal, interface);
    if let Some(server) = server {
        return change_proof::prove_changes(args, id, server, settings, &mut guard);
    }
    let changes = guard.apply(settings)?;
    guard.keep();
    Ok(ProofResult { changes, ..ProofResult::default() })
}

fn revert_changes(args: &HostArgs) -> Result<ExitCode, CommandFailure> {
    let journal = change_proof::host_journal_path(args)?;
    let changes = change_proof::revert_from_journal(&journal)?;
    command_output::print_json_or_document(
        args.output.form.json,
        &json!({ "reverted": changes }),
        &audit_text::build_reverted_document(&changes),
    )?;
    change_proof::revert_failure(&journal, &changes).map_or(Ok(ExitCode::SUCCESS), Err)
}

/// Returns the server of the test runs.
fn proof_target(args: &HostArgs, host: &HostEndpoint) -> Result<TargetHost, CommandFailure> {
    let local = LocalArgs {
        bind_dev: args.interface.clone(),
        connect_timeout: args.connect_timeout,
        ..LocalArgs::default()
    };
    let target = option_resolution::build_target(host, args.port, &local, &args.token)?;
    Ok(throughput::choose_address(&target)?)
}

fn trial_buffer_bytes(plan: &AuditPlan) -> u64 {
    let in_flight = plan.paths.iter().map(|path| {
        Rate::bits_per_second(path.rate_bps).bytes_in(Duration::from_micros(path.rtt_us))
    });
    let (least, most) = TRIAL_BUFFER_BYTES;
    in_flight.max().unwrap_or(least).clamp(least, most)
}

/// Returns a caveat about the settings that could not be written, if any.
fn unwritten_caveat(changes: &[SettingChange]) -> Option<ReportCaveat> {
    let failed: Vec<&str> = changes
        .iter()
        .filter(|change| !change_proof::is_setting_written(change))
        .map(|change| change.name.as_str())
        .collect();
    if failed.is_empty() {
        return None;
    }
    let text = format!(
        "cannot write {}; settings of the whole machine can be written only outside of network \
         namespaces and containers",
        failed.join(", ")
    );
    Some(ReportCaveat::new("not_written", text))
}
