//! Earlier scans of a path in the archive: an interrupted one to resume, and the latest result.

use crate::cli::args::{ArchiveArgs, TuneArgs};
use crate::cli::{command_output, report_archiving};
use crate::command_failure::CommandFailure;
use jiff::{SignedDuration, Timestamp};
use longhaul_model::report::v1::scan::{ScanPlan, SettingChoice};
use longhaul_model::report::v1::{ReportCaveat, RunEnvironment, ScanReport, ThroughputReport};
use longhaul_store::{Archive, PathSelector, UnfinishedScan};
use std::net::IpAddr;
use std::time::Duration;

/// The maximum age of a scan to resume; an older path may have changed.
const MAX_RESUME_AGE: SignedDuration = SignedDuration::from_hours(24);
/// The maximum age of a remembered result.
const MAX_RESULT_AGE: SignedDuration = SignedDuration::from_hours(30 * 24);
/// The maximum number of earlier scans to search.
const MAX_SCANS: u32 = 50;
/// The tolerance of idle RTTs on one path, as time and as ratio. Beyond both, a name such as `far`
/// may stand for another host.
const RTT_TOLERANCE: Duration = Duration::from_millis(1);
const RTT_TOLERANCE_RATIO: f64 = 0.05;

/// The path that a setting is for.
#[derive(Debug, Clone, Copy)]
pub struct TunedPath {
    /// The address of the server.
    pub address: Option<IpAddr>,
    pub idle_rtt: Duration,
}

impl TunedPath {
    fn environment(&self) -> RunEnvironment {
        if self.address.is_some_and(|address| address.is_loopback()) {
            return RunEnvironment::Loopback;
        }
        report_archiving::own_environment()
    }
}

/// The starting point of a scan.
pub struct ScanHistory {
    pub entry: UnfinishedScan,
    pub started_at: Timestamp,
    /// The finished probes, by index.
    pub parts: Vec<ThroughputReport>,
}

/// Resumes the scan that the same command left unfinished, or registers a new one. A failing
/// archive gives a caveat.
pub fn begin_or_resume(
    args: &TuneArgs,
    plan: &ScanPlan,
    path: &TunedPath,
) -> (ScanHistory, Vec<ReportCaveat>) {
    let now = Timestamp::now();
    let id = report_archiving::generate_run_id(now);
    let entry = UnfinishedScan { id, started_at: report_archiving::format_rfc3339(now) };
    let mut history = ScanHistory { entry, started_at: now, parts: Vec::new() };
    let mut caveats = Vec::new();
    if !args.output.no_save
        && let Err(fail) = resume_or_register(args, plan, path, &mut history)
    {
        let text = format!("cannot archive probes and result: {}", fail.message);
        caveats.push(ReportCaveat::new("not_archived", text));
    }
    (history, caveats)
}

fn resume_or_register(
    args: &TuneArgs,
    plan: &ScanPlan,
    path: &TunedPath,
    history: &mut ScanHistory,
) -> Result<(), CommandFailure> {
    let mut archive = Archive::open(&command_output::archive_path(&args.output.archive)?)?;
    let address = path.address.map(|it| format!(" ({it})")).unwrap_or_default();
    let (host, port) = (args.peer.host_name(), args.peer.port_number());
    let environment = path.environment();
    let target = format!("{host}{address} port {port} in {environment}");
    let since = report_archiving::format_rfc3339(Timestamp::now() - MAX_RESUME_AGE);
    if !args.fresh
        && let Some(entry) = archive.find_unfinished_scan(&target, plan, &since)?
        && let Ok(started_at) = entry.started_at.parse::<Timestamp>()
    {
        let mut parts = archive.throughput_parts(&entry.id)?;
        // Settings whose probe ended early are measured again.
        parts.retain(|part| !part.caveats.iter().any(ReportCaveat::is_early_end));
        if !parts.is_empty() && parts.iter().all(|part| run_has_rtt(part, path.idle_rtt)) {
            *history = ScanHistory { entry, started_at, parts };
            return Ok(());
        }
    }
    Ok(archive.begin_scan(&history.entry, &target, plan)?)
}

fn run_has_rtt(part: &ThroughputReport, idle_rtt: Duration) -> bool {
    let then = part.observation.idle_rtt_us.map(Duration::from_micros);
    then.is_none_or(|then| is_same_rtt(then, idle_rtt))
}

fn is_same_rtt(one: Duration, other: Duration) -> bool {
    let apart = one.abs_diff(other);
    apart <= RTT_TOLERANCE || apart <= one.max(other).mul_f64(RTT_TOLERANCE_RATIO)
}

/// Returns the setting that the latest scan of this path recommends in this direction.
pub fn recall_setting(args: &TuneArgs, forward: bool, path: &TunedPath) -> Option<SettingChoice> {
    let scans = recent_scans(&args.output.archive, args.peer.host_name());
    recommended_setting(&scans, forward, path)
}

/// Returns the scans of this host whose results still count, newest first. Without an archive, or
/// with a failing one, there are none.
pub fn recent_scans(args: &ArchiveArgs, host: &str) -> Vec<ScanReport> {
    let archive = command_output::open_archive(args).ok().flatten();
    let path = PathSelector { host: Some(host), ..PathSelector::default() };
    let scans = archive.and_then(|it| it.recent_reports::<ScanReport>(&path, MAX_SCANS).ok());
    let since = report_archiving::format_rfc3339(Timestamp::now() - MAX_RESULT_AGE);
    let mut scans = scans.unwrap_or_default();
    scans.retain(|scan| scan.run.started_at >= since);
    scans
}

/// Returns the setting that the latest scan of the path recommends.
pub fn recommended_setting(
    scans: &[ScanReport],
    forward: bool,
    path: &TunedPath,
) -> Option<SettingChoice> {
    let address = path.address.map(|address| address.to_string());
    let environment = path.environment();
    let is_same = |scan: &&ScanReport| {
        let run = &scan.run;
        run.responder.address == address
            && run.environment.as_ref().is_none_or(|it| *it == environment)
            && scan_has_rtt(scan, path.idle_rtt)
    };
    scans.iter().filter(is_same).find_map(|scan| {
        let mut directions = scan.analysis.directions.iter();
        let direction = directions.find(|it| it.forward == forward)?;
        direction.recommended.clone()
    })
}

fn scan_has_rtt(scan: &ScanReport, idle_rtt: Duration) -> bool {
    let cells = scan.observation.cells.iter();
    let least = cells.filter_map(|cell| cell.idle_rtt_us).min();
    least.is_none_or(|us| is_same_rtt(Duration::from_micros(us), idle_rtt))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_name_may_stand_for_two_paths() {
        let ms = Duration::from_millis;
        for (one, other, same) in [
            (29, 160, false),
            (160, 172, false),
            (160, 165, true),
            (0, 1, true),
            (29, 29, true),
            (172, 436, false),
        ] {
            assert_eq!(is_same_rtt(ms(one), ms(other)), same, "{one} {other}");
        }
    }
}
