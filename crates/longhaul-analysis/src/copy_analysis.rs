//! Determines what limited a copy of files: a disk, a CPU or the network.
//!
//! A copy is a pipeline of stages with short queues between them. A slow stage makes the stages
//! before it wait for room and those after it wait for work. The time of the connections therefore
//! splits as follows: time without a block to send is due to the source, time blocked for room is
//! due to the target's disk, time spent hashing is due to the target's CPU, and the rest is due to
//! the network. A call that used CPU time or waited for a core was limited by the CPU and not by
//! the device.
//!
//! Units: microseconds, bytes, bit/s; ratios from 0 to 1. Source: queueing of a pipeline.
//! Error: shares within 0.1 of the truth on synthetic pipelines (`accuracy`).
//! Wrong when: two stages are equally slow (then the verdict is that it cannot tell), or the page
//! cache takes all writes and the disk follows later (then the end of the copy shows it).

use longhaul_model::report::v1::copy::{
    CopyAnalysis, CopyEndCounts, CopyLimiter, CopyObservation, CopyPoint, CopyStage, CopyTimeSplit,
};
use longhaul_model::report::v1::{ReportFinding, SERVER_PLACEHOLDER};
use longhaul_model::units::Rate;
use std::time::Duration;

/// The share from which on a stage limits the copy in any case.
const MIN_DOMINANT_RATIO: f64 = 0.5;
/// A smaller share is enough if the next one is smaller by this factor.
const CLEAR_SHARE: (f64, f64) = (0.4, 1.5);
/// The minimum duration; shorter copies show little but their start.
const MIN_DATA_US: u64 = 100_000;
/// The share of the bytes after which the start of a copy is over.
const UNDER_WAY_RATIO: f64 = 0.3;
/// The tolerance for a negative startup time, as a share of the duration: the rate's scatter.
const SCATTER_RATIO: f64 = 0.05;
/// The minimum number of points for the regression line.
const MIN_SLOPE_POINTS: usize = 6;

/// Returns analysis and findings of a copy.
pub fn conclude_copy(seen: &CopyObservation) -> (CopyAnalysis, Vec<ReportFinding>) {
    let mut analysis = CopyAnalysis {
        version: crate::VERSION,
        goodput_bps: compute_bps(seen.sent_bytes, seen.data_us),
        ..CopyAnalysis::default()
    };
    analyse_copy(seen, &mut analysis);
    if let Some(slope) = compute_rate_slope(seen) {
        estimate_startup(seen, slope, &mut analysis);
    }
    let findings = build_copy_finding(seen, &analysis).into_iter().collect();
    (analysis, findings)
}

/// Estimates startup time and asymptotic rate of a copy that kept its rate. A copy that slowed down
/// has no rate that a longer one would approach.
fn estimate_startup(seen: &CopyObservation, slope: f64, analysis: &mut CopyAnalysis) {
    let all_us = seen.setup_us.saturating_add(seen.data_us) as f64;
    let startup_us = all_us - seen.sent_bytes as f64 / slope;
    if startup_us < -SCATTER_RATIO * all_us {
        let text = "it slowed down during the copy: the ramp cannot be separated from the rate";
        return add_evidence(analysis, text);
    }
    analysis.asymptotic_bps = Some((slope * 8e6) as u64);
    analysis.startup_us = Some(startup_us.max(0.0) as u64);
}

fn add_evidence(analysis: &mut CopyAnalysis, text: &str) {
    analysis.evidence.push(text.to_owned());
}

fn compute_bps(bytes: u64, us: u64) -> Option<u64> {
    Rate::over(bytes, Duration::from_micros(us)).map(Rate::as_bps)
}

fn analyse_copy(seen: &CopyObservation, analysis: &mut CopyAnalysis) {
    let Some(split) = split_copy_time(seen) else {
        add_evidence(analysis, "too short to tell what limited it");
        return;
    };
    analysis.limited_by = find_clear_limiter(&split);
    if analysis.limited_by == CopyLimiter::CannotTell {
        let text = "no stage was the bottleneck for most of the time: all are about equally fast";
        add_evidence(analysis, text);
    }
    let (source, target) = (&seen.source, &seen.target);
    let shares = [
        ("the connections had no data to send", source.network.idle_us, &source.network),
        ("the connections waited for the network", waiting_us(&source.network), &source.network),
        ("the reader threads were busy", source.disk.busy_us, &source.disk),
        ("the target waited for buffer space", target.network.blocked_us, &target.network),
        ("the writer threads were busy", target.disk.busy_us, &target.disk),
    ];
    for (what, us, stage) in shares {
        let all = total_stage_us(stage);
        if all > 0 {
            let percent = us as f64 * 100.0 / all as f64;
            add_evidence(analysis, &format!("{what} for {percent:.0} % of their time"));
        }
    }
    if target.sync_us > target.elapsed_us / 20 {
        let text = format!("syncing to the target's disk took {} ms", target.sync_us / 1000);
        add_evidence(analysis, &text);
    }
    if analysis.limited_by == CopyLimiter::Network {
        analysis.evidence.extend(describe_network_limits(seen));
    }
    analysis.split = Some(split);
}

/// Describes what limited the sending connections, from their TCP counters.
fn describe_network_limits(seen: &CopyObservation) -> Option<String> {
    let tcp = seen.source.tcp?;
    if tcp.busy_us == 0 {
        return None;
    }
    let percent = |us: u64| us as f64 * 100.0 / tcp.busy_us as f64;
    Some(format!(
        "with data in flight, {:.0} % of the time was limited by the receive window, {:.0} % by the \
         send buffer, the rest by the path; {} segments were retransmitted",
        percent(tcp.receive_window_limited_us),
        percent(tcp.send_buffer_limited_us),
        tcp.retransmitted_segments
    ))
}

pub(crate) fn total_stage_us(stage: &CopyStage) -> u64 {
    stage.busy_us.saturating_add(stage.idle_us).saturating_add(stage.blocked_us)
}

/// Returns the time that calls of the stage spent waiting for the device or the peer.
fn waiting_us(stage: &CopyStage) -> u64 {
    let cpu = stage.cpu_us.saturating_add(stage.core_wait_us.unwrap_or(0));
    stage.busy_us.saturating_sub(cpu)
}

fn compute_ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 {
        return 0.0;
    }
    (part as f64 / whole as f64).min(1.0)
}

/// Splits the time among the stages; `None` if there was too little of it.
pub fn split_copy_time(seen: &CopyObservation) -> Option<CopyTimeSplit> {
    let (source, target) = (&seen.source, &seen.target);
    if seen.data_us < MIN_DATA_US || target.elapsed_us == 0 || target.network.threads == 0 {
        return None;
    }
    Some(split_stage_times(source, target, compute_disk_tail(target)))
}

/// Splits the time among the stages by what both ends counted in it. `tail` is the share of the time
/// after the last byte had arrived.
pub(crate) fn split_stage_times(
    source: &CopyEndCounts,
    target: &CopyEndCounts,
    tail: f64,
) -> CopyTimeSplit {
    let starved = compute_ratio(source.network.idle_us, total_stage_us(&source.network));
    let reading_us = source.disk.busy_us.saturating_add(source.hash_us);
    let waiting = compute_ratio(waiting_us(&source.disk), reading_us);
    let (behind, summing, coming) = split_target_time(starved, target);
    let rest = 1.0 - starved;
    let sending = 1.0 - compute_ratio(waiting_us(&source.network), source.network.busy_us);
    let taking = 1.0 - compute_ratio(waiting_us(&target.network), target.network.busy_us);
    let writing = compute_ratio(waiting_us(&target.disk), target.disk.busy_us);
    let before = 1.0 - tail;
    CopyTimeSplit {
        source_disk_ratio: before * starved * waiting,
        source_cpu_ratio: before * (starved * (1.0 - waiting) + rest * coming * sending),
        network_ratio: before * rest * coming * (1.0 - sending) * (1.0 - taking),
        target_disk_ratio: before * rest * behind * writing + tail,
        target_cpu_ratio: before
            * rest
            * (summing + behind * (1.0 - writing) + coming * (1.0 - sending) * taking),
    }
}

/// Splits the time not lost to the source among the target's disk, its hashing, and slow arrival.
fn split_target_time(starved: f64, target: &CopyEndCounts) -> (f64, f64, f64) {
    let all = total_stage_us(&target.network).saturating_add(target.hash_us);
    let full = compute_ratio(target.network.blocked_us, all);
    let summing = compute_ratio(target.hash_us, all);
    let coming = (compute_ratio(target.network.busy_us, all) - starved).max(0.0);
    let sum = full + summing + coming;
    if sum <= 0.0 {
        return (0.0, 0.0, 1.0);
    }
    (full / sum, summing / sum, coming / sum)
}

/// Returns the share of the time after the last byte arrived: only the target's disk was waited for. A
/// connection that ends after the others lengthens the copy, too, but leaves the disk idle.
fn compute_disk_tail(target: &CopyEndCounts) -> f64 {
    let all = total_stage_us(&target.network).saturating_add(target.hash_us);
    // Without that time, the number of connections is constant.
    let mean_us = all / u64::from(target.network.threads.max(1));
    let active_us = target.network_end_us.unwrap_or(mean_us);
    let disk_us = target.sync_us.saturating_add(target.disk.busy_us);
    compute_ratio(target.elapsed_us.saturating_sub(active_us).min(disk_us), target.elapsed_us)
}

/// Returns the stage whose share is clearly the largest; [`CopyLimiter::CannotTell`] if there is none.
pub(crate) fn find_clear_limiter(split: &CopyTimeSplit) -> CopyLimiter {
    let (limiter, share, next) = find_largest_share(split);
    let clear =
        share >= MIN_DOMINANT_RATIO || (share >= CLEAR_SHARE.0 && share >= CLEAR_SHARE.1 * next);
    if clear { limiter } else { CopyLimiter::CannotTell }
}

/// Returns the stage with the largest share, that share, and the next one.
fn find_largest_share(split: &CopyTimeSplit) -> (CopyLimiter, f64, f64) {
    let mut shares = split.shares();
    shares.sort_by(|one, other| other.1.total_cmp(&one.1));
    (shares[0].0, shares[0].1, shares[1].1)
}

/// Returns the rate in bytes per microsecond after the start and the last gain by more threads, by
/// least squares.
fn compute_rate_slope(seen: &CopyObservation) -> Option<f64> {
    let last = seen.course.last()?.bytes;
    let from = last as f64 * UNDER_WAY_RATIO;
    let gains = seen.adjustments.iter().filter(|it| it.kept == Some(true));
    let from_us = gains.map(|it| it.elapsed_us).max().unwrap_or(0);
    // After the last byte has arrived the line is flat.
    let inner = |point: &&CopyPoint| {
        point.elapsed_us >= from_us && point.bytes as f64 >= from && point.bytes < last
    };
    let points: Vec<&CopyPoint> = seen.course.iter().filter(inner).collect();
    if points.len() < MIN_SLOPE_POINTS {
        return None;
    }
    let count = points.len() as f64;
    let mean = |of: fn(&CopyPoint) -> u64| points.iter().map(|p| of(p) as f64).sum::<f64>() / count;
    let (x, y) = (mean(|p| p.elapsed_us), mean(|p| p.bytes));
    let (mut over, mut under) = (0.0, 0.0);
    for point in points {
        let dx = point.elapsed_us as f64 - x;
        over += dx * (point.bytes as f64 - y);
        under += dx * dx;
    }
    let slope = over / under;
    (slope.is_finite() && slope > 0.0).then_some(slope)
}

fn build_copy_finding(seen: &CopyObservation, analysis: &CopyAnalysis) -> Option<ReportFinding> {
    let (name, place, text) = match analysis.limited_by {
        CopyLimiter::SourceDisk => {
            ("the source disk", "sender", "read from a faster disk, or from several in parallel")
        }
        CopyLimiter::SourceCpu => {
            ("the source CPU", "sender", "more or faster cores at the source would help")
        }
        CopyLimiter::TargetDisk => {
            ("the target disk", "receiver", "write to a faster disk; try `--direct`")
        }
        CopyLimiter::TargetCpu => {
            ("the target CPU", "receiver", "more or faster cores at the target would help")
        }
        CopyLimiter::Network => (
            "the network",
            "path",
            "find window and streams for this path; later copies use the result",
        ),
        CopyLimiter::CannotTell => return None,
    };
    let share = analysis.split.as_ref().map(|split| find_largest_share(split).1);
    let summary = match share {
        Some(share) => {
            format!("the other stages waited for {name} during {:.0} % of the copy", share * 100.0)
        }
        None => format!("{name} is the slower of the two"),
    };
    let confidence = share.unwrap_or(0.9).clamp(0.0, 0.99);
    let mut found = ReportFinding::new(analysis.limited_by.word(), confidence, summary);
    found.supports.clone_from(&analysis.evidence);
    if seen.bytes > 0 {
        let advice = found.advise(place, text);
        if analysis.limited_by == CopyLimiter::Network {
            advice.command = Some(format!("longhaul tune {SERVER_PLACEHOLDER}"));
        }
    }
    Some(found)
}

#[cfg(test)]
mod tests;
