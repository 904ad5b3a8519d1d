//! `longhaul load --rpm`: the test of responsiveness of the IETF.

use crate::cli::load_command::{LoadArgs, archive_load_report};
use crate::cli::progress_lines::{StatusLine, print_statement};
use crate::cli::{interrupt, option_resolution, report_command};
use crate::command_failure::{self, CommandFailure};
use longhaul_analysis::load::judge_direction;
use longhaul_model::report::v1::load::{LoadPlan, ResponsivenessPlan};
use longhaul_probe::throughput::TargetHost;
use longhaul_report::load_text::build_load_document;
use longhaul_report::number_format::{format_micros, format_rate, or_absent};
use longhaul_rpm::rpm_client::{build_config_url, run_test};
use std::process::ExitCode;

/// The parameters of the draft: a probe pair takes 6000 bytes, and at most 50 start in a second.
const PAIR_INTERVAL_US: u64 = 20_000;
const PAIR_BYTES: u32 = 6000;
const MAX_CONNECTIONS: u32 = 16;
/// Drafts up to 08 and other programs have 1 s; draft 09 has 5 s for now, which takes 55 s for each
/// direction.
const INTERVAL_US: u64 = 1_000_000;
const DEFAULT_TIME_US: u64 = 20_000_000;

/// Measures the responsiveness with the server whose configuration is at `path`.
pub fn run_rpm_test(args: &LoadArgs, path: &str) -> Result<ExitCode, CommandFailure> {
    let target = option_resolution::peer_target(&args.peer)?;
    let plan = plan_rpm_test(args, &target, path);
    let stop = interrupt::install_stop_flag()?;
    let most = format_micros(plan.load_us);
    print_statement(&args.output, &format!("a download and an upload, at most {most} each"));
    let mut line = StatusLine::new(args.output.shows_progress());
    let outcome = run_test(&target, &plan, &stop, &mut |name, run| {
        let so_far = judge_direction(&plan, run);
        let rpm = or_absent(so_far.round_trips_per_minute, |rpm| format!("{rpm} RPM"));
        let rate = or_absent(so_far.capacity_bps, format_rate);
        line.update(&format!("{:>4} s  {name}, {rpm}, {rate}", run.interval_bytes.len()));
        so_far.is_settled()
    })?;
    line.clear();
    let stopped = outcome.stopped;
    let report = archive_load_report(args, plan, outcome);
    report_command::write_run(&args.output, &report, build_load_document(&report))?;
    if !stopped {
        command_failure::require_peer(&report.caveats)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn plan_rpm_test(args: &LoadArgs, target: &TargetHost, path: &str) -> LoadPlan {
    LoadPlan {
        forward: false,
        steps: Vec::new(),
        probe_interval_us: PAIR_INTERVAL_US,
        probe_bytes: PAIR_BYTES,
        idle_us: args.idle,
        load_us: args.time.unwrap_or(DEFAULT_TIME_US),
        responsiveness: Some(ResponsivenessPlan {
            config_url: build_config_url(target, path),
            interval_us: INTERVAL_US,
            connections: MAX_CONNECTIONS,
        }),
    }
}
