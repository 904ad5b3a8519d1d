//! Converts a setting to the plan of a probe, and its report to a cell.
//!
//! Source: the probe's own report. Units: as named by the fields. Error: that of the run.
//! Wrong when: never; a run without payload is kept as a failed cell.

use longhaul_model::report::v1::ThroughputReport;
use longhaul_model::report::v1::observation::SocketBuffer;
use longhaul_model::report::v1::plan::{self, RunDirection};
use longhaul_model::report::v1::scan::{ScanCell, ScanPlan, TransferSetting};

/// Returns the plan of one probe: the scan's common part with this setting and direction.
pub fn build_probe_plan(
    plan: &ScanPlan,
    setting: &TransferSetting,
    forward: bool,
) -> plan::ThroughputPlan {
    plan::ThroughputPlan {
        direction: if forward { RunDirection::Forward } else { RunDirection::Reverse },
        streams: setting.streams.max(1),
        send_buffer_bytes: setting.window_bytes,
        receive_buffer_bytes: setting.window_bytes,
        congestion_control: setting.congestion_control.clone(),
        pacing_bps: setting.pacing_bps,
        ..plan.probe.clone()
    }
}

/// Returns the cell of a finished probe. `at_us` counts from the start of the scan.
pub fn build_cell(
    index: u32,
    setting: TransferSetting,
    forward: bool,
    sentinel: bool,
    at_us: u64,
    report: &ThroughputReport,
) -> ScanCell {
    let (seen, found) = (&report.observation, &report.analysis);
    let goodput_bps = found.goodput_bps.filter(|bps| *bps > 0);
    let asked = setting.window_bytes.is_some();
    let ends = || seen.streams.iter().filter(|_| asked);
    ScanCell {
        index,
        setting,
        forward,
        sentinel,
        at_us,
        duration_us: report.run.duration_us,
        run_id: Some(report.run.id.clone()),
        error: find_failure_reason(report),
        receiver_bytes: Some(found.totals.receiver_bytes),
        goodput_bps,
        goodput_interval_bps: goodput_bps.and(found.goodput_interval_bps),
        limited_by: Some(found.limited_by),
        confidence_ratio: Some(found.confidence_ratio),
        next_limit: found.next_limit.clone(),
        idle_rtt_us: seen.idle_rtt_us,
        loaded_rtt_us: found.rtt_us.map(|rtt| rtt.mean),
        data_segments_sent: found.totals.data_segments_sent,
        retransmitted_segments: found.totals.retransmitted_segments,
        mss_bytes: seen.streams.iter().find_map(|s| s.sender.mss_bytes).map(u64::from),
        granted_send_bytes: find_min_granted(ends().map(|s| s.sender.send_buffer)),
        granted_receive_bytes: find_min_granted(ends().map(|s| s.receiver.receive_buffer)),
        congestion_control: seen.streams.iter().find_map(|s| s.sender.congestion_control.clone()),
        ..ScanCell::default()
    }
}

fn find_failure_reason(report: &ThroughputReport) -> Option<String> {
    if report.analysis.goodput_bps.is_some_and(|bps| bps > 0) {
        return None;
    }
    let streams = report.observation.streams.iter();
    let mut ends = streams.flat_map(|s| [&s.sender, &s.receiver]);
    let reason = ends.find_map(|end| end.error.clone());
    Some(reason.unwrap_or_else(|| String::from("no payload arrived")))
}

/// Returns the minimum that a kernel granted to any stream.
pub fn find_min_granted(buffers: impl Iterator<Item = Option<SocketBuffer>>) -> Option<u64> {
    buffers.flatten().map(|b| b.granted_bytes).min()
}
