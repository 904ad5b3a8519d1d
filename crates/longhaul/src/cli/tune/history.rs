//! Earlier scans of a path in the archive: an interrupted one to resume, and the latest result.

use crate::cli::args::TuneArgs;
use crate::cli::{filing, output};
use crate::fail::Fail;
use jiff::{SignedDuration, Timestamp};
use longhaul_model::report::v1::scan::{Plan, Setting};
use longhaul_model::report::v1::{Caveat, Scan, Throughput};
use longhaul_probe::throughput::{self, Target};
use longhaul_store::{Archive, Begun};
use std::path::Path;
use std::time::Duration;

/// The maximum age of a scan to resume; an older path may have changed.
const TAKEN_UP_WITHIN: SignedDuration = SignedDuration::from_hours(24);
/// The maximum age of a remembered result.
const REMEMBERED_FOR: SignedDuration = SignedDuration::from_hours(30 * 24);
/// The maximum number of earlier scans to search.
const SCANS_MOST: u32 = 50;
/// The tolerance of idle RTTs on one path, as time and as ratio. Beyond both, a name such as `far`
/// may stand for another host.
const SAME_RTT_WITHIN: Duration = Duration::from_millis(1);
const SAME_RTT_SHARE: f64 = 0.05;

/// The starting point of a scan.
pub struct History {
    pub begun: Begun,
    pub began: Timestamp,
    /// The finished probes, by index.
    pub parts: Vec<Throughput>,
}

/// The setting recommended by an earlier scan, and its goodput.
pub struct Remembered {
    pub setting: Setting,
    pub goodput_bps: u64,
}

/// Resumes the scan that the same command left unfinished, or registers a new one. A failing
/// archive gives a caveat.
pub fn begin(args: &TuneArgs, plan: &Plan, idle_rtt: Duration) -> (History, Vec<Caveat>) {
    let now = Timestamp::now();
    let fresh = History {
        begun: Begun {
            id: filing::run_id(now),
            started_at: filing::rfc3339(now),
        },
        began: now,
        parts: Vec::new(),
    };
    if args.no_save {
        return (fresh, Vec::new());
    }
    match resume_or_note(args, plan, idle_rtt, &fresh.begun) {
        Ok(Some(history)) => (history, Vec::new()),
        Ok(None) => (fresh, Vec::new()),
        Err(fail) => {
            let text = format!("neither probes nor result are kept: {}", fail.message);
            (fresh, vec![Caveat::new("not_archived", text)])
        }
    }
}

fn resume_or_note(
    args: &TuneArgs,
    plan: &Plan,
    idle_rtt: Duration,
    fresh: &Begun,
) -> Result<Option<History>, Fail> {
    let mut archive = Archive::open(&output::archive_path(&args.archive)?)?;
    let target = format!("{} port {}", args.host, args.port);
    let since = filing::rfc3339(Timestamp::now() - TAKEN_UP_WITHIN);
    let unfinished = if args.fresh {
        None
    } else {
        archive.unfinished(&target, plan, &since)?
    };
    if let Some(begun) = unfinished {
        let parts = archive.parts(&begun.id)?;
        let began = begun.started_at.parse::<Timestamp>();
        let here = parts.iter().all(|part| of_this_path(part, idle_rtt));
        if let (Ok(began), false, true) = (began, parts.is_empty(), here) {
            return Ok(Some(History {
                begun,
                began,
                parts,
            }));
        }
    }
    archive.begin(fresh, &target, plan)?;
    Ok(None)
}

fn of_this_path(part: &Throughput, idle_rtt: Duration) -> bool {
    let then = part.observation.idle_rtt_us.map(Duration::from_micros);
    then.is_none_or(|then| same_rtt(then, idle_rtt))
}

fn same_rtt(one: Duration, other: Duration) -> bool {
    let apart = one.abs_diff(other);
    apart <= SAME_RTT_WITHIN || apart <= one.max(other).mul_f64(SAME_RTT_SHARE)
}

/// Returns the setting that the latest scan of this path recommends in this direction, if allowed.
pub fn remembered(
    args: &TuneArgs,
    plan: &Plan,
    forward: bool,
    idle_rtt: Duration,
) -> Option<Remembered> {
    if args.forget || plan.present.is_some() {
        return None;
    }
    let path = output::archive_path(&args.archive).ok()?;
    // Without an archive, or with a failing one, no setting is remembered.
    let scans = Archive::open_existing(&path)
        .ok()??
        .scans(&args.host, SCANS_MOST)
        .ok()?;
    let since = filing::rfc3339(Timestamp::now() - REMEMBERED_FOR);
    let fits = |scan: &&Scan| scan.run.started_at >= since && scan_of_this_path(scan, idle_rtt);
    let recommended = |scan: &Scan| {
        let mut directions = scan.analysis.directions.iter();
        let direction = directions.find(|d| d.forward == forward)?;
        let choice = direction.recommended.as_ref()?;
        Some(Remembered {
            setting: choice.setting.clone(),
            goodput_bps: choice.goodput_bps,
        })
    };
    let found = scans.iter().filter(fits).find_map(recommended)?;
    may_be_tried(plan, &found.setting).then_some(found)
}

/// Returns the setting that the latest scan of the path to this peer recommends, for other
/// commands. The round trip is measured only if there is a scan.
pub fn recommended(archive: &Path, peer: &Target, forward: bool) -> Option<Setting> {
    let scans = Archive::open_existing(archive)
        .ok()??
        .scans(&peer.host, SCANS_MOST)
        .ok()?;
    let since = filing::rfc3339(Timestamp::now() - REMEMBERED_FOR);
    let mut recent = scans
        .iter()
        .filter(|scan| scan.run.started_at >= since)
        .peekable();
    recent.peek()?;
    let idle_rtt = throughput::round_trip(peer).ok()?;
    let mut of_path = recent.filter(|scan| scan_of_this_path(scan, idle_rtt));
    of_path.find_map(|scan| {
        let mut directions = scan.analysis.directions.iter();
        let direction = directions.find(|it| it.forward == forward)?;
        direction
            .recommended
            .as_ref()
            .map(|choice| choice.setting.clone())
    })
}

fn scan_of_this_path(scan: &Scan, idle_rtt: Duration) -> bool {
    let cells = scan.observation.cells.iter();
    let least = cells.filter_map(|cell| cell.idle_rtt_us).min();
    least.is_none_or(|us| same_rtt(Duration::from_micros(us), idle_rtt))
}

fn may_be_tried(plan: &Plan, setting: &Setting) -> bool {
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
            assert_eq!(same_rtt(ms(one), ms(other)), same, "{one} {other}");
        }
    }
}
