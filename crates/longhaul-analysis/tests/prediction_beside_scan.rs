//! A scan of a known path: what is derived from it, and what disagreements are said to mean.

use longhaul_analysis::predict::{derive_plan_from_scan, predict_goodput};
use longhaul_model::report::v1::analysis::Limiter;
use longhaul_model::report::v1::plan::{RunDirection, StopCondition, ThroughputPlan as Probe};
use longhaul_model::report::v1::scan::{
    ScanAnalysis, ScanBudget, ScanCell, ScanObservation, ScanPlan, SearchMode, TransferSetting,
};
use longhaul_model::report::v1::{ReportKind, RunInfo, RunParty, SCHEMA, ScanReport};

const RTT_US: u64 = 40_000;
const LINK_BPS: f64 = 100e6;
const PAYLOAD: f64 = 1448.0 / 1500.0;

/// A cell of a path of 100 Mbit/s and 40 ms, its windows clipped at 1 MiB, its queue 20 ms long.
fn cell(index: u32, window_bytes: u64, streams: u32) -> ScanCell {
    let granted = window_bytes.min(1 << 20);
    let held_bps = (granted * u64::from(streams)) as f64 * 8e6 / RTT_US as f64;
    let full = held_bps > LINK_BPS * PAYLOAD;
    ScanCell {
        index,
        setting: TransferSetting {
            window_bytes: Some(window_bytes),
            streams,
            congestion_control: None,
            pacing_bps: None,
        },
        forward: true,
        sentinel: false,
        why: None,
        run_id: None,
        at_us: 0,
        duration_us: 10_000_000,
        error: None,
        receiver_bytes: None,
        goodput_bps: Some(held_bps.min(LINK_BPS * PAYLOAD) as u64),
        goodput_interval_bps: None,
        limited_by: Some(if full { Limiter::PathCapacity } else { Limiter::ReceiveWindow }),
        confidence_ratio: None,
        next_limit: None,
        idle_rtt_us: Some(RTT_US + u64::from(index)),
        loaded_rtt_us: Some(RTT_US + if full { 18_000 } else { 100 }),
        data_segments_sent: Some(10_000),
        retransmitted_segments: Some(if full { 40 } else { 0 }),
        mss_bytes: Some(1448),
        granted_send_bytes: Some(granted),
        granted_receive_bytes: Some(granted),
        congestion_control: Some(String::from("cubic")),
    }
}

fn scan(cells: Vec<ScanCell>) -> ScanReport {
    ScanReport {
        schema: SCHEMA.to_owned(),
        kind: ReportKind::Scan,
        run: RunInfo {
            id: String::from("20260101T000000Z-000000"),
            started_at: String::from("2026-01-01T00:00:00Z"),
            duration_us: 1,
            longhaul: String::from("0.1.0"),
            initiator: RunParty::default(),
            responder: RunParty::default(),
            part_of: None,
            environment: None,
        },
        plan: ScanPlan {
            search: SearchMode::Grid,
            direction: RunDirection::Forward,
            windows_bytes: Vec::new(),
            streams: Vec::new(),
            congestion_controls: Vec::new(),
            repeats: 1,
            seed: 1,
            present: None,
            budget: ScanBudget { probes: 100, time_us: 1, bytes: None },
            probe: Probe { stop: StopCondition::TimeUs(10_000_000), ..Probe::default() },
        },
        observation: ScanObservation { cells },
        analysis: ScanAnalysis::default(),
        findings: Vec::new(),
        caveats: Vec::new(),
    }
}

fn grid() -> Vec<ScanCell> {
    let windows = [64u64 << 10, 256 << 10, 1 << 20, 4 << 20];
    let settings = windows.iter().flat_map(|w| [1u32, 2, 4, 8].map(|n| (*w, n)));
    (0..).zip(settings).map(|(i, (w, n))| cell(i, w, n)).collect()
}

#[test]
fn the_path_and_the_hosts_are_found_again_and_the_scan_agrees() {
    let (plan, observation) = derive_plan_from_scan(&scan(grid()), &[], true).unwrap();
    assert_eq!(plan.path.rtt_us, RTT_US);
    assert!((plan.path.capacity_bps as f64 / LINK_BPS - 1.0).abs() < 0.01, "{plan:?}");
    assert_eq!(plan.hosts.granted_most_bytes, Some(1 << 20));
    assert_eq!(plan.loss_ratios, [0.0]);
    assert!((plan.buffers_bytes[0] as f64 / (LINK_BPS * 0.018 / 8.0) - 1.0).abs() < 0.02);
    assert_eq!((plan.windows_bytes.len(), plan.streams.len()), (4, 4));

    let found = predict_goodput(&plan, &observation);
    let agreement = found.agreement.unwrap();
    assert_eq!(agreement.cells, 16);
    assert!(agreement.rank_correlation.unwrap() > 0.85, "{agreement:?}");
    assert!(agreement.median_error_ratio < 0.05, "{agreement:?}");
}

#[test]
fn a_cell_far_below_is_told_by_what_held_it() {
    let mut cells = grid();
    // 8 streams of 256 KiB fill the path; here only 32 KiB of each were to be had.
    cells[7].goodput_bps = Some(52_428_800);
    cells[7].limited_by = Some(Limiter::ReceiveWindow);
    // 2 streams of 1 MiB lost what no other cell did.
    cells[9].goodput_bps = Some(10_000_000);
    cells[9].limited_by = Some(Limiter::Loss);
    let (mut plan, observation) = derive_plan_from_scan(&scan(cells), &[], true).unwrap();
    plan.loss_ratios = vec![0.0];
    let found = predict_goodput(&plan, &observation);
    let meaning = |window: u64, streams: u32| {
        let mut all = found.cells.iter();
        let cell =
            all.find(|c| c.setting.window_bytes == Some(window) && c.setting.streams == streams);
        cell.unwrap().meaning.clone().unwrap_or_default()
    };
    assert!(
        meaning(256 << 10, 8).contains("clipped windows: the streams had 32 KiB each"),
        "{}",
        meaning(256 << 10, 8)
    );
    // Mathis: 5 Mbit/s of each of two streams, 17.3 segments in a round trip.
    assert!(
        meaning(1 << 20, 2).contains("about 0.50 % of the segments"),
        "{}",
        meaning(1 << 20, 2)
    );
    assert_eq!(meaning(64 << 10, 1), "");
}

#[test]
fn loss_is_taken_from_cells_that_kept_the_queue_empty() {
    let mut cells = grid();
    for cell in &mut cells {
        if cell.limited_by == Some(Limiter::ReceiveWindow) {
            cell.retransmitted_segments = Some(10);
        }
    }
    let (plan, _) = derive_plan_from_scan(&scan(cells), &[], true).unwrap();
    assert!((plan.loss_ratios[0] - 1e-3).abs() < 1e-6, "{:?}", plan.loss_ratios);
}

#[test]
fn loss_that_spares_the_calmest_cells_is_not_the_path_s() {
    let mut cells = grid();
    let quiet = cells.iter_mut().filter(|cell| cell.limited_by == Some(Limiter::ReceiveWindow));
    for (cell, lost) in quiet.zip([0, 300, 300, 300]) {
        cell.retransmitted_segments = Some(lost);
    }
    let (plan, _) = derive_plan_from_scan(&scan(cells), &[], true).unwrap();
    assert!(plan.loss_ratios[0].abs() < 1e-9, "{:?}", plan.loss_ratios);
}

#[test]
fn loss_that_spares_one_calm_cell_is_not_the_path_s() {
    // Slow starts over a short queue lose much the same in all cells but the one whose window is small.
    let lost = [0, 38, 38, 39, 40, 41, 42, 43];
    let cells = (0..).zip(lost).map(|(index, lost)| ScanCell {
        retransmitted_segments: Some(lost),
        ..cell(index, 64 << 10, 1)
    });
    let mut cells: Vec<ScanCell> = cells.collect();
    cells.push(cell(8, 16 << 20, 4));
    let (plan, _) = derive_plan_from_scan(&scan(cells), &[], true).unwrap();
    assert!(plan.loss_ratios[0].abs() < 1e-9, "{:?}", plan.loss_ratios);
}

#[test]
fn a_path_that_no_cell_filled_has_a_capacity_of_at_least_the_best() {
    let cells: Vec<ScanCell> = grid().into_iter().take(2).collect();
    let (plan, _) = derive_plan_from_scan(&scan(cells), &[], true).unwrap();
    assert!(plan.path.origin.contains("at least"), "{}", plan.path.origin);
}

#[test]
fn a_scan_that_tells_nothing_is_refused_with_the_reason() {
    let refused = |cells| derive_plan_from_scan(&scan(cells), &[], true).unwrap_err();
    assert!(refused(Vec::new()).contains("goodput in this direction"));
    let mut cells = grid();
    for cell in &mut cells {
        cell.idle_rtt_us = None;
    }
    assert!(refused(cells).contains("idle round-trip time"));
    let mut cells = grid();
    for cell in &mut cells {
        cell.congestion_control = Some(String::from("vegas"));
    }
    assert!(refused(cells).contains("congestion control"));
    let other = derive_plan_from_scan(&scan(grid()), &[], false).unwrap_err();
    assert!(other.contains("goodput in this direction"), "nothing was measured that way: {other}");
}
