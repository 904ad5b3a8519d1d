//! `longhaul test HOST`: measures throughput, then analyses, archives and shows the result.

use super::args::{TestArgs, TestFormat};
use super::progress_lines::{DirectionProgress, ProgressPrinter, RunProgress};
use super::report_command::report_output;
use super::{capture_command, command_output, option_resolution, report_archiving};
use crate::command_failure::{CommandFailure, EXPECTATION_MISSED};
use longhaul_iperf3::client_run::{self, LoginCredentials};
use longhaul_model::report::v1::plan::ThroughputPlan;
use longhaul_model::report::v1::{ReportCaveat, ThroughputReport};
use longhaul_probe::probe_error::ProbeError;
use longhaul_probe::throughput::{
    self, PayloadProgress, TargetHost, ThroughputOutcome, ThroughputProgress,
};
use longhaul_report::iperf3_report_json;
use longhaul_report::style::{CAVEAT, paint};
use longhaul_report::throughput_text::build_throughput_document;
use std::io::{IsTerminal, Write};
use std::process::ExitCode;
use std::time::Duration;

/// The caveat of a run that fell back to iperf3's protocol.
const IPERF3_FOUND_TEXT: &str = "an iperf3 server answered, and the run used its protocol; select it with \
                     `--iperf3`";

/// The length of the intervals of iperf3's JSON.
pub const JSON_INTERVAL_US: u64 = 1_000_000;

pub fn run(args: &TestArgs) -> Result<ExitCode, CommandFailure> {
    run_with_intervals(args, JSON_INTERVAL_US)
}

/// Runs the command with intervals of this length in iperf3's JSON; 0 for a single one.
pub fn run_with_intervals(args: &TestArgs, interval_us: u64) -> Result<ExitCode, CommandFailure> {
    report_output::check_output_files(&args.output.form)?;
    let report = measure_throughput(args)?;
    let document = |_| build_throughput_document(&report);
    if args.output_format() == TestFormat::Iperf3 {
        report_output::write_report_files(&args.output.form, &report, document)?;
        command_output::print_json(&iperf3_report_json::to_iperf3_json(&report, interval_us))?;
    } else {
        report_output::write_report(&args.report_output(), &report, document)?;
    }
    Ok(report_missed_expectations(args, &report))
}

/// Measures and builds the report, and archives it unless `--no-save` is given.
pub fn measure_throughput(args: &TestArgs) -> Result<ThroughputReport, CommandFailure> {
    let plan = option_resolution::plan_throughput(args)?;
    capture_command::capture_files::check_capture_paths(&args.capture)?;
    let target = option_resolution::build_target(
        &args.host,
        args.port,
        &args.local,
        &args.token,
        args.connect_timeout,
    )?;
    let login = args.iperf3_user.login()?;
    let for_people = args.output_format() == TestFormat::Text;
    let lines = !args.output.quiet && for_people && std::io::stderr().is_terminal();
    let mut live = ProgressPrinter::new(lines);
    let mut outcome = run_throughput(args, &target, login.as_ref(), &plan, &mut |now| {
        live.show(live_moment(now));
    })?;
    live.finish();
    let captures = std::mem::take(&mut outcome.captures);
    let mut report = report_archiving::build_throughput_report(plan, outcome, None);
    capture_command::capture_files::write_run_captures(&args.capture, captures, &mut report);
    report_archiving::archive_report(&args.output, &mut report);
    Ok(report)
}

/// Runs the test with the server's protocol. A server that speaks iperf3's ignores the token.
fn run_throughput(
    args: &TestArgs,
    target: &TargetHost,
    login: Option<&LoginCredentials>,
    plan: &ThroughputPlan,
    watch: &mut dyn FnMut(&ThroughputProgress),
) -> Result<ThroughputOutcome, CommandFailure> {
    if args.iperf3 {
        return Ok(client_run::run(target, plan, login, Duration::ZERO, watch)?);
    }
    match throughput::run(target, plan, watch) {
        Err(ProbeError::Iperf3There { .. }) if target.token.is_none() => {
            // The iperf3 server stays busy until it notices that our first connection is closed.
            let mut outcome = client_run::run(target, plan, login, target.connect_timeout, watch)?;
            outcome.caveats.push(ReportCaveat::new("iperf3_found", IPERF3_FOUND_TEXT));
            Ok(outcome)
        }
        other => Ok(other?),
    }
}

fn live_moment(progress: &ThroughputProgress) -> RunProgress {
    // Retransmits and RTT under load are known only where this host sends.
    let flow = |flow: &PayloadProgress, sends: bool| DirectionProgress {
        received_bytes: flow.received_bytes.unwrap_or_default(),
        received_at: flow.received_at.unwrap_or_default(),
        retransmits: flow.retransmits.filter(|_| sends),
        rtt: flow.rtt.filter(|_| sends),
    };
    let directions = [("forward", &progress.forward, true), ("reverse", &progress.reverse, false)];
    RunProgress {
        elapsed: progress.elapsed,
        flows: directions
            .into_iter()
            .filter_map(|(name, of, sends)| Some((name, flow(of.as_ref()?, sends))))
            .collect(),
    }
}

/// Reports every missed expectation.
fn report_missed_expectations(args: &TestArgs, report: &ThroughputReport) -> ExitCode {
    let mut code = ExitCode::SUCCESS;
    for expectation in &args.expect {
        if let Some(found) = expectation.describe_miss(report) {
            let told = format!("{} expected {expectation}; {found}\n", paint(CAVEAT, "missed:"));
            let _ = anstream::stderr().write_all(told.as_bytes());
            code = ExitCode::from(EXPECTATION_MISSED);
        }
    }
    code
}
