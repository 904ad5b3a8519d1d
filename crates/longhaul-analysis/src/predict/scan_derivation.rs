//! Derives the parameters of the path and the hosts from a scan.
//!
//! RTT: the minimum idle one. Capacity: the top of the cells that filled the path, or the best of
//! all (then it is a lower bound). Queue: the delay that the full cells added to the RTT. Loss:
//! retransmits in cells that did not fill the path. Windows: as granted; autotuned ones as seen.
//!
//! Source: the definitions of report v1. Units: bit/s of IP for the capacity, bytes, microseconds.
//! Error: the capacity's is that of the goodput; a mean RTT shows less than the whole queue.
//! Wrong when: no cell filled the path: then the capacity is a lower bound, and `origin` says so.

use super::link_bps;
use crate::stats::{median, quantile, sort_finite};
use longhaul_model::report::v1::analysis::Limiter;
use longhaul_model::report::v1::plan::StopCondition;
use longhaul_model::report::v1::predict::{
    MeasuredSetting, PredictionHosts, PredictionObservation, PredictionPath, PredictionPlan,
};
use longhaul_model::report::v1::scan::{ScanCell, TransferSetting};
use longhaul_model::report::v1::{ScanReport, ThroughputReport};
use std::collections::BTreeSet;

/// IPv4 and TCP with timestamps.
pub const HEADER_BYTES: u32 = 52;
/// The MSS of Ethernet, used without a reading.
pub const MSS_BYTES: u32 = 1448;
/// Fewer losses than this are chance.
const MIN_LOST_SEGMENTS: u64 = 5;
/// Fewer losses than expected by more than this many standard deviations (Poisson) are significant:
/// sorting the cells by their loss already causes some difference; and it must matter.
const SPARED_DEVIATIONS: f64 = 4.0;
const SPARED_RATIO: f64 = 0.5;
/// A cell below this share of the capacity does not fill the path.
const UNFILLED_RATIO: f64 = 0.8;
/// An RTT above this multiple of the idle one includes a queue.
const QUEUED_RATIO: f64 = 1.1;
/// The quantile of the cells that filled the path that gives the capacity.
const TOP_QUANTILE: f64 = 0.9;

/// Creates the plan that predicts the cells of one direction, or returns why none follows; `runs`
/// are the available reports of the scan's probes.
pub fn derive_plan_from_scan(
    scan: &ScanReport,
    runs: &[ThroughputReport],
    forward: bool,
) -> Result<(PredictionPlan, PredictionObservation), &'static str> {
    let cells: Vec<&ScanCell> = scan
        .observation
        .cells
        .iter()
        .filter(|c| c.forward == forward && c.goodput_bps.is_some_and(|bps| bps > 0))
        .collect();
    if cells.is_empty() {
        return Err("no cell of the scan has a goodput in this direction");
    }
    let rtt_us = cells.iter().filter_map(|c| c.idle_rtt_us).min();
    let rtt_us =
        rtt_us.filter(|us| *us > 0).ok_or("no cell of the scan has an idle round-trip time")?;
    let path = derive_path(scan, &cells, rtt_us);
    let measured: Vec<MeasuredSetting> = cells.iter().map(|c| convert_measured(c)).collect();
    let known = |name: &String| super::MODELLED.contains(&name.as_str());
    let controls = measured.iter().filter_map(|m| m.setting.congestion_control.clone());
    let congestion_controls = collect_distinct(controls.filter(known));
    if congestion_controls.is_empty() {
        return Err("no cell of the scan used a congestion control that is modelled");
    }
    let plan = PredictionPlan {
        windows_bytes: collect_distinct(measured.iter().map(|m| m.setting.window_bytes)),
        streams: collect_distinct(measured.iter().map(|m| m.setting.streams)),
        congestion_controls,
        loss_ratios: vec![derive_loss(&cells, &path)],
        buffers_bytes: vec![derive_queue_bytes(&cells, &path)],
        hosts: derive_hosts(&cells, runs, forward, rtt_us),
        time_us: match scan.plan.probe.stop {
            StopCondition::TimeUs(us) => us,
            StopCondition::Bytes(_) | StopCondition::Blocks(_) => 10_000_000,
        },
        scan_id: Some(scan.run.id.clone()),
        path,
    };
    Ok((plan, PredictionObservation { measured }))
}

fn collect_distinct<T: Ord>(values: impl Iterator<Item = T>) -> Vec<T> {
    values.collect::<BTreeSet<T>>().into_iter().collect()
}

/// Returns the measured cell, with the congestion control that the kernel used.
fn convert_measured(cell: &ScanCell) -> MeasuredSetting {
    let used = cell.congestion_control.clone();
    MeasuredSetting {
        setting: TransferSetting {
            congestion_control: used.or_else(|| cell.setting.congestion_control.clone()),
            ..cell.setting.clone()
        },
        goodput_bps: cell.goodput_bps.unwrap_or(0),
        limited_by: cell.limited_by.unwrap_or(Limiter::Unknown),
    }
}

fn fills_path(cell: &ScanCell) -> bool {
    cell.limited_by == Some(Limiter::PathCapacity)
}

fn derive_path(scan: &ScanReport, cells: &[&ScanCell], rtt_us: u64) -> PredictionPath {
    let goodput = |c: &&ScanCell| c.goodput_bps.map(|bps| bps as f64);
    let mss = median(cells.iter().filter_map(|c| c.mss_bytes.map(|n| n as f64)));
    let mss_bytes = mss.map_or(MSS_BYTES, |n| n as u32).max(1);
    let filled = sort_finite(cells.iter().filter(|c| fills_path(c)).filter_map(goodput));
    let best = cells.iter().filter_map(goodput).fold(0.0, f64::max);
    let (payload_bps, how) = match quantile(&filled, TOP_QUANTILE) {
        Some(bps) => (bps, "where the path was full"),
        None => (best, "at least: no cell filled the path"),
    };
    let whole = f64::from(mss_bytes + HEADER_BYTES) / f64::from(mss_bytes);
    PredictionPath {
        capacity_bps: (payload_bps * whole) as u64,
        rtt_us,
        mss_bytes,
        header_bytes: HEADER_BYTES,
        origin: format!("{}: capacity {how}", scan.run.id),
    }
}

/// Returns retransmitted over sent segments in cells that kept the queue empty: the median over the
/// segments, since the slow starts of many streams may overflow a short queue in some cells.
fn derive_loss(cells: &[&ScanCell], path: &PredictionPath) -> f64 {
    let quiet = |c: &&&ScanCell| {
        let has_queue = |us: u64| us as f64 > QUEUED_RATIO * path.rtt_us as f64;
        let most = UNFILLED_RATIO * link_bps(path);
        let unfilled = c.goodput_bps.is_some_and(|bps| (bps as f64) < most);
        !fills_path(c) && unfilled && !c.loaded_rtt_us.is_some_and(has_queue)
    };
    let counted = cells.iter().filter(quiet).filter_map(|c| {
        let sent = c.data_segments_sent.filter(|sent| *sent > 0)?;
        let ratio = c.retransmitted_segments? as f64 / sent as f64;
        Some((ratio, sent, c.retransmitted_segments?))
    });
    let mut counted: Vec<(f64, u64, u64)> = counted.collect();
    if counted.iter().map(|c| c.2).fold(0, u64::saturating_add) < MIN_LOST_SEGMENTS {
        return 0.0;
    }
    counted.sort_by(|a, b| a.0.total_cmp(&b.0));
    let half = counted.iter().map(|c| c.1 as f64).sum::<f64>() / 2.0;
    let mut below = 0.0;
    let middle = counted.iter().position(|c| {
        below += c.1 as f64;
        below >= half
    });
    middle.map_or(0.0, |at| correct_loss_ratio(&counted[..=at]).min(super::MAX_LOSS_RATIO))
}

/// Returns the last ratio, unless some of the calmest cells together lost far less: random loss affects
/// all cells, so their loss is the path's, and the rest was caused by the other cells themselves.
fn correct_loss_ratio(lower: &[(f64, u64, u64)]) -> f64 {
    let Some(((ratio, ..), calmer)) = lower.split_last() else {
        return 0.0;
    };
    let spared_ratio = |count: usize| {
        let sent: u64 = calmer[..count].iter().map(|c| c.1).sum();
        let lost: u64 = calmer[..count].iter().map(|c| c.2).sum();
        let expected = ratio * sent as f64;
        let spared = expected - lost as f64 > SPARED_DEVIATIONS * expected.sqrt()
            && (lost as f64) < SPARED_RATIO * expected;
        let known = lost >= MIN_LOST_SEGMENTS;
        spared.then(|| if known { lost as f64 / sent as f64 } else { 0.0 })
    };
    (1..=calmer.len()).find_map(spared_ratio).unwrap_or(*ratio)
}

/// Returns the maximum queue that full cells add. If none of them dropped anything, the queue is
/// longer; if none was full, it is assumed to equal the path's volume.
fn derive_queue_bytes(cells: &[&ScanCell], path: &PredictionPath) -> u64 {
    let pipe = path.capacity_bps as f64 * path.rtt_us as f64 / 8e6;
    let filled: Vec<&&ScanCell> = cells.iter().filter(|c| fills_path(c)).collect();
    let added =
        filled.iter().filter_map(|c| Some(c.loaded_rtt_us?.saturating_sub(path.rtt_us))).max();
    let Some(added_us) = added.filter(|us| *us > 0) else {
        return pipe as u64;
    };
    let seen = path.capacity_bps as f64 * added_us as f64 / 8e6;
    let dropped = filled.iter().any(|c| c.retransmitted_segments.unwrap_or(0) >= MIN_LOST_SEGMENTS);
    if dropped { seen as u64 } else { (2.0 * seen).max(pipe) as u64 }
}

fn derive_hosts(
    cells: &[&ScanCell],
    runs: &[ThroughputReport],
    forward: bool,
    rtt_us: u64,
) -> PredictionHosts {
    let clipped = cells.iter().filter_map(|c| {
        let asked = c.setting.window_bytes?;
        let granted = [c.granted_send_bytes, c.granted_receive_bytes];
        granted.into_iter().flatten().filter(|g| *g < asked).min()
    });
    let processor = cells
        .iter()
        .filter(|c| matches!(c.limited_by, Some(Limiter::CpuSender | Limiter::CpuReceiver)))
        .filter_map(|c| c.goodput_bps)
        .max();
    // A CPU limit that other cells exceeded applies to one stream, not to all of them.
    let best = cells.iter().filter_map(|c| c.goodput_bps).max();
    let processor = processor.filter(|_| processor == best);
    PredictionHosts {
        auto_window_bytes: find_autotuned_window(cells, rtt_us)
            .or(read_autotuning_limit(cells, runs, forward)),
        granted_most_bytes: clipped.max(),
        processor_bps: processor,
    }
}

/// Returns the bytes per round trip of a stream that was limited by the autotuned window.
fn find_autotuned_window(cells: &[&ScanCell], rtt_us: u64) -> Option<u64> {
    let held = cells.iter().filter(|c| {
        let window = matches!(c.limited_by, Some(Limiter::ReceiveWindow | Limiter::SendBuffer));
        window && c.setting.window_bytes.is_none()
    });
    let each = held.filter_map(|c| {
        let bits = c.goodput_bps? as f64 * rtt_us as f64 / 1e6;
        Some((bits / 8.0 / f64::from(c.setting.streams.max(1))) as u64)
    });
    each.max()
}

/// Returns the lower of half of tcp_rmem's maximum and all of tcp_wmem's.
fn read_autotuning_limit(
    cells: &[&ScanCell],
    runs: &[ThroughputReport],
    forward: bool,
) -> Option<u64> {
    let ids: BTreeSet<&str> = cells.iter().filter_map(|c| c.run_id.as_deref()).collect();
    let mine = |run: &&ThroughputReport| {
        use longhaul_model::report::v1::plan::RunDirection;
        ids.contains(run.run.id.as_str())
            && (run.plan.direction == RunDirection::Forward) == forward
    };
    let of = |run: &ThroughputReport| {
        let ends = &run.observation.ends;
        let receive = ends.receiver.host.tcp_rmem_bytes.map(|r| r[2] / 2);
        let send = ends.sender.host.tcp_wmem_bytes.map(|w| w[2]);
        receive.into_iter().chain(send).min()
    };
    runs.iter().filter(mine).filter_map(of).min()
}
