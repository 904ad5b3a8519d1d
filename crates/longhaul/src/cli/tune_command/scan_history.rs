//! Earlier scans of a path in the archive: an interrupted one to resume, and the latest result.

use crate::cli::args::TuneArgs;
use crate::cli::{command_output, report_archiving};
use crate::command_failure::CommandFailure;
use jiff::{SignedDuration, Timestamp};
use longhaul_model::report::v1::scan::{ScanPlan, TransferSetting};
use longhaul_model::report::v1::{ReportCaveat, ScanReport, ThroughputReport};
use longhaul_probe::throughput::{self, TargetHost};
use longhaul_store::{Archive, UnfinishedScan};
use std::path::Path;
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

/// The starting point of a scan.
pub struct ScanHistory {
    pub entry: UnfinishedScan,
    pub started_at: Timestamp,
    /// The finished probes, by index.
    pub parts: Vec<ThroughputReport>,
}

/// The setting recommended by an earlier scan, and its goodput.
pub struct RememberedSetting {
    pub setting: TransferSetting,
    pub goodput_bps: u64,
}

/// Resumes the scan that the same command left unfinished, or registers a new one. A failing
/// archive gives a caveat.
pub fn begin_or_resume(
    args: &TuneArgs,
    plan: &ScanPlan,
    idle_rtt: Duration,
) -> (ScanHistory, Vec<ReportCaveat>) {
    let now = Timestamp::now();
    let fresh = ScanHistory {
        entry: UnfinishedScan {
            id: report_archiving::generate_run_id(now),
            started_at: report_archiving::format_rfc3339(now),
        },
        started_at: now,
        parts: Vec::new(),
    };
    if args.output.no_save {
        return (fresh, Vec::new());
    }
    match resume_or_register(args, plan, idle_rtt, &fresh.entry) {
        Ok(Some(history)) => (history, Vec::new()),
        Ok(None) => (fresh, Vec::new()),
        Err(fail) => {
            let text = format!("cannot archive probes and result: {}", fail.message);
            (fresh, vec![ReportCaveat::new("not_archived", text)])
        }
    }
}

fn resume_or_register(
    args: &TuneArgs,
    plan: &ScanPlan,
    idle_rtt: Duration,
    fresh: &UnfinishedScan,
) -> Result<Option<ScanHistory>, CommandFailure> {
    let mut archive = Archive::open(&command_output::archive_path(&args.output.archive)?)?;
    let target = format!("{} port {}", args.host, args.port);
    let since = report_archiving::format_rfc3339(Timestamp::now() - MAX_RESUME_AGE);
    let unfinished =
        if args.fresh { None } else { archive.find_unfinished_scan(&target, plan, &since)? };
    if let Some(begun) = unfinished {
        let parts = archive.throughput_parts(&begun.id)?;
        let began = begun.started_at.parse::<Timestamp>();
        let here = parts.iter().all(|part| run_has_rtt(part, idle_rtt));
        if let (Ok(began), false, true) = (began, parts.is_empty(), here) {
            return Ok(Some(ScanHistory { entry: begun, started_at: began, parts }));
        }
    }
    archive.begin_scan(fresh, &target, plan)?;
    Ok(None)
}

fn run_has_rtt(part: &ThroughputReport, idle_rtt: Duration) -> bool {
    let then = part.observation.idle_rtt_us.map(Duration::from_micros);
    then.is_none_or(|then| is_same_rtt(then, idle_rtt))
}

fn is_same_rtt(one: Duration, other: Duration) -> bool {
    let apart = one.abs_diff(other);
    apart <= RTT_TOLERANCE || apart <= one.max(other).mul_f64(RTT_TOLERANCE_RATIO)
}

/// Returns the setting that the latest scan of this path recommends in this direction, if allowed.
pub fn recall_setting(
    args: &TuneArgs,
    plan: &ScanPlan,
    forward: bool,
    idle_rtt: Duration,
) -> Option<RememberedSetting> {
    if args.forget || plan.present.is_some() {
        return None;
    }
    let path = command_output::archive_path(&args.output.archive).ok()?;
    // Without an archive, or with a failing one, no setting is remembered.
    let scans = Archive::open_existing(&path)
        .ok()??
        .recent_reports::<ScanReport>(Some(&args.host), MAX_SCANS)
        .ok()?;
    let since = report_archiving::format_rfc3339(Timestamp::now() - MAX_RESULT_AGE);
    let fits = |scan: &&ScanReport| scan.run.started_at >= since && scan_has_rtt(scan, idle_rtt);
    let recommended = |scan: &ScanReport| {
        let mut directions = scan.analysis.directions.iter();
        let direction = directions.find(|d| d.forward == forward)?;
        let choice = direction.recommended.as_ref()?;
        Some(RememberedSetting { setting: choice.setting.clone(), goodput_bps: choice.goodput_bps })
    };
    let found = scans.iter().filter(fits).find_map(recommended)?;
    is_allowed_setting(plan, &found.setting).then_some(found)
}

/// Returns the setting that the latest scan of the path to this peer recommends, for other
/// commands. The round trip is measured only if there is a scan.
pub fn recommended_setting(
    archive: &Path,
    peer: &TargetHost,
    forward: bool,
) -> Option<TransferSetting> {
    let scans = Archive::open_existing(archive)
        .ok()??
        .recent_reports::<ScanReport>(Some(&peer.host), MAX_SCANS)
        .ok()?;
    let since = report_archiving::format_rfc3339(Timestamp::now() - MAX_RESULT_AGE);
    let mut recent = scans.iter().filter(|scan| scan.run.started_at >= since).peekable();
    recent.peek()?;
    let idle_rtt = throughput::measure_connect_rtt(peer).ok()?;
    let mut of_path = recent.filter(|scan| scan_has_rtt(scan, idle_rtt));
    of_path.find_map(|scan| {
        let mut directions = scan.analysis.directions.iter();
        let direction = directions.find(|it| it.forward == forward)?;
        direction.recommended.as_ref().map(|choice| choice.setting.clone())
    })
}

fn scan_has_rtt(scan: &ScanReport, idle_rtt: Duration) -> bool {
    let cells = scan.observation.cells.iter();
    let least = cells.filter_map(|cell| cell.idle_rtt_us).min();
    least.is_none_or(|us| is_same_rtt(Duration::from_micros(us), idle_rtt))
}

fn is_allowed_setting(plan: &ScanPlan, setting: &TransferSetting) -> bool {
    fn within<T: PartialEq>(list: &[T], value: &T) -> bool {
        list.is_empty() || list.contains(value)
    }
    within(&plan.windows_bytes, &setting.window_bytes)
        && within(&plan.streams, &setting.streams)
        && within(&plan.congestion_controls, &setting.congestion_control)
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
