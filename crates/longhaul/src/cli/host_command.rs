//! `longhaul host`: audits this host, changes settings on request, archives and shows the report.
//!
//! - [`audit_paths`]: the paths that the host is audited for
//! - [`host_setting_changes`]: writes and reverts settings
//! - [`change_proof`]: test runs before and after the changes

mod audit_paths;
mod change_proof;
mod host_setting_changes;

use super::args::HostArgs;
use super::report_command::report_output;
use super::{command_output, report_archiving};
use crate::cli::report_archiving::RunEnvelope;
use crate::command_failure::{CommandFailure, HOST, USAGE};
use change_proof::ProofResult;
use host_setting_changes::RevertGuard;
use jiff::Timestamp;
use longhaul_analysis::audit;
use longhaul_model::report::v1::host::{AuditPlan, SettingChange};
use longhaul_model::report::v1::{HostReport, ReportCaveat, RunParty};
use longhaul_model::units::Rate;
use longhaul_probe::host::observe_host_with_buffer;
use longhaul_report::audit_text::build_audit_document;
use serde_json::json;
use std::net::{IpAddr, ToSocketAddrs};
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// The minimum and maximum buffer size requested on a test socket, within what a host can spare.
const TRIAL_BUFFER_BYTES: (u64, u64) = (1 << 20, 64 << 20);

pub fn run(args: &HostArgs) -> Result<ExitCode, CommandFailure> {
    report_output::check_output_files(&args.output.form)?;
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
        prove_with: args.prove.clone(),
    };
    let towards = match &args.prove {
        Some(host) => Some(resolve_first_address(host, args.port)?),
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
            &id,
            &host_setting_changes::wanted_settings(&analysis),
            interface.as_deref(),
        )?;
        observation.changes.clone_from(&proven.changes);
        observation.trials = std::mem::take(&mut proven.trials);
    }
    let (analysis, findings, mut caveats) = audit::audit_host(&plan, &observation);
    caveats.extend(unwritten_caveat(&observation.changes));
    let own = describe_this_host(&observation.host);
    let responder = proven.responder.unwrap_or_else(|| own.clone());
    let run = RunEnvelope { id, ..RunEnvelope::new(started, began.elapsed(), own, responder) };
    let mut report = run.report(plan, observation, analysis).with_notes(findings, caveats);
    report_archiving::archive_report(&args.output, &mut report);
    report_output::write_report(&args.output.form, &report, |_| {
        build_audit_document(&report, args.all)
    })?;
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
    if !changes.is_empty() && !changes.iter().any(host_setting_changes::is_setting_written) {
        let mut fail = CommandFailure::new(HOST, "cannot change the settings of this host");
        let why = changes.iter().filter_map(|change| change.error.clone());
        fail.causes.extend(why.take(1));
        return Err(
            fail.hint(Some("run as root, or let an administrator run the commands in the report"))
        );
    }
    Ok(ExitCode::SUCCESS)
}

/// Writes the settings. With a server, keeps only the changes that help.
fn apply_changes(
    args: &HostArgs,
    id: &str,
    settings: &[host_setting_changes::WantedSetting],
    interface: Option<&str>,
) -> Result<ProofResult, CommandFailure> {
    let journal = host_setting_changes::host_journal_path(args)?;
    if args.prove.is_some() {
        change_proof::refuse_second_apply(&journal)?;
    }
    if settings.is_empty() {
        return Ok(ProofResult::default());
    }
    let mut guard = RevertGuard::new(&journal, interface);
    if let Some(host) = &args.prove {
        return change_proof::prove_changes(args, id, host, settings, &mut guard);
    }
    let changes = guard.apply(settings)?;
    guard.keep();
    Ok(ProofResult { changes, ..ProofResult::default() })
}

fn revert_changes(args: &HostArgs) -> Result<ExitCode, CommandFailure> {
    let journal = host_setting_changes::host_journal_path(args)?;
    let changes = host_setting_changes::revert_from_journal(&journal)?;
    if args.output.form.json {
        command_output::print_json(&json!({ "reverted": changes }))?;
    } else {
        command_output::print_document(&longhaul_report::audit_text::build_reverted_document(
            &changes,
        ))?;
    }
    host_setting_changes::revert_failure(&journal, &changes).map_or(Ok(ExitCode::SUCCESS), Err)
}

/// Returns the server's first address, so that the route to it is audited.
fn resolve_first_address(host: &str, port: u16) -> Result<IpAddr, CommandFailure> {
    let unknown = |why: String| {
        let mut fail = CommandFailure::new(USAGE, format!("cannot resolve {host}"));
        fail.causes.push(why);
        fail.hint(Some("check the name"))
    };
    let mut found = (host, port).to_socket_addrs().map_err(|e| unknown(e.to_string()))?;
    let first = found.next().map(|address| address.ip());
    first.ok_or_else(|| unknown(String::from("no address for this name")))
}

fn trial_buffer_bytes(plan: &AuditPlan) -> u64 {
    let in_flight = plan.paths.iter().map(|path| {
        Rate::bits_per_second(path.rate_bps).bytes_in(Duration::from_micros(path.rtt_us))
    });
    let (least, most) = TRIAL_BUFFER_BYTES;
    in_flight.max().unwrap_or(least).clamp(least, most)
}

fn describe_this_host(host: &longhaul_model::report::v1::observation::HostFacts) -> RunParty {
    RunParty {
        host: host.name.clone(),
        address: None,
        longhaul: Some(env!("CARGO_PKG_VERSION").to_owned()),
        kernel: Some(host.kernel.clone()).filter(|kernel| !kernel.is_empty()),
        cores: Some(host.cores).filter(|cores| *cores > 0),
    }
}

/// Returns a caveat about the settings that could not be written, if any.
fn unwritten_caveat(changes: &[SettingChange]) -> Option<ReportCaveat> {
    let failed: Vec<&str> = changes
        .iter()
        .filter(|change| !host_setting_changes::is_setting_written(change))
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
