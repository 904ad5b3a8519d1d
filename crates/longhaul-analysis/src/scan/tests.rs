//! Scans with known truth, and scans of garbage.

mod cases;
mod garbage;
mod orders;

use super::*;
use crate::RunConclusion;
use cases::{cell, grid, guided, measure, report};
use longhaul_model::report::v1::analysis::Limiter;
use longhaul_model::report::v1::plan::RunDirection;
use longhaul_model::report::v1::scan::{ScanAnalysis, ScanCell, ScanObservation};
use longhaul_model::report::v1::{ReportCaveat, ReportFinding};

fn find<'a>(conclusion: &'a RunConclusion<ScanAnalysis>, cause: &str) -> &'a ReportFinding {
    let found = conclusion.findings.iter().find(|f| f.cause == cause);
    found.unwrap_or_else(|| panic!("no {cause} in {:?}", conclusion.findings))
}

fn none(conclusion: &RunConclusion<ScanAnalysis>, cause: &str) {
    assert!(conclusion.findings.iter().all(|f| f.cause != cause), "{:?}", conclusion.findings);
}

fn coded<'a>(conclusion: &'a RunConclusion<ScanAnalysis>, code: &str) -> Option<&'a ReportCaveat> {
    conclusion.caveats.iter().find(|c| c.code == code)
}

#[test]
fn the_recommended_setting_is_the_smallest_within_2_percent() {
    let plan = grid(&[None, Some(1 << 20)], &[1, 2, 4, 8], RunDirection::Forward, 1);
    let found = measure(&plan, |s, _, _| match (s.streams, s.window_bytes) {
        (8, _) => 100e6,
        (4, Some(_)) => 99e6,
        (4, None) => 98.5e6,
        (2, _) => 97e6,
        _ => 10e6,
    });
    let direction = &found.analysis.directions[0];
    assert_eq!(direction.best.as_ref().unwrap().setting.streams, 8);
    let recommended = &direction.recommended.as_ref().unwrap().setting;
    assert_eq!((recommended.streams, recommended.window_bytes), (4, None));
    assert_eq!(direction.default.as_ref().unwrap().goodput_bps, 10_000_000);
    assert_eq!(direction.curves.len(), 2);
    let streams: Vec<u32> = direction.curves[0].points.iter().map(|p| p.streams).collect();
    assert_eq!(streams, [1, 2, 4, 8]);
    assert_eq!(found.analysis.grid_cells, 8);
    assert!(coded(&found, "interrupted").is_none());
}

#[test]
fn a_setting_of_many_streams_is_named_with_its_share() {
    // Seed of 2003: 8 x 1 MiB gave half of what 48 x 256 KiB did on the new route.
    let windows = [Some(262_144), Some(524_288), Some(1 << 20)];
    let plan = grid(&windows, &[8, 30, 48], RunDirection::Forward, 2);
    let found = measure(&plan, |s, _, _| if s.streams == 8 { 150e6 } else { 300e6 });
    assert!(find(&found, "many_streams").summary.contains("share of 30 flows"));
    none(&found, "settings_do_not_matter");
}

#[test]
fn a_host_that_cuts_the_window_is_named_with_sysctl_and_value() {
    // Daresbury 2001: rmem_max 64 KiB on a path of 160 ms.
    let plan = grid(&[Some(65_536), Some(1 << 20)], &[1, 8], RunDirection::Forward, 1);
    let cells: Vec<ScanCell> = order_cells(&plan)
        .into_iter()
        .map(|slot| ScanCell {
            limited_by: Some(Limiter::ReceiveWindow),
            granted_receive_bytes: Some(65_536),
            granted_send_bytes: slot.setting.window_bytes,
            ..cell(&slot, 3.2e6 * f64::from(slot.setting.streams))
        })
        .collect();
    let runs = [report(true, "slac", "daresbury", 65_536)];
    let found = conclude_scan(&plan, &ScanObservation { cells }, &runs, "grid_done");
    let finding = find(&found, "window_clipped");
    for word in ["daresbury", "64 KiB", "net.core.rmem_max", "work around"] {
        assert!(finding.summary.contains(word), "{word}: {}", finding.summary);
    }
    let command = finding.advice[0].command.as_deref().unwrap();
    // Twice 25.6 Mbit/s × 160 ms, to the next power of two.
    assert_eq!(command, "sysctl -w net.core.rmem_max=1048576");
    let needs = &found.analysis.directions[0].needs;
    assert_eq!(needs[0].is.as_deref(), Some("65536"));
    assert!(
        needs.iter().any(|n| n.name == "net.ipv4.tcp_rmem" && n.wanted == "4096 131072 1048576"),
        "{needs:?}"
    );
    assert!(needs.iter().all(|n| n.place == "receiver"), "{needs:?}");
}

#[test]
fn a_window_within_the_ceilings_needs_nothing() {
    let plan = grid(&[Some(65_536)], &[1, 8], RunDirection::Forward, 1);
    let found = measure(&plan, |s, _, _| 3e6 * f64::from(s.streams));
    assert!(found.analysis.directions[0].needs.is_empty());
    none(&found, "window_clipped");
}

#[test]
fn a_change_of_route_is_told_and_nothing_is_averaged_over_it() {
    // Lyon 2003: 125 to 60 Mbit/s, 150 to 160 ms.
    let plan = grid(&[None, Some(1 << 20)], &[1, 2, 4, 8, 16], RunDirection::Forward, 3);
    let slots = order_cells(&plan);
    let change = slots.len() / 2;
    let cells: Vec<ScanCell> = slots
        .iter()
        .enumerate()
        .map(|(place, slot)| {
            let (bps, rtt) = if place < change { (125e6, 150_000) } else { (60e6, 160_000) };
            ScanCell { idle_rtt_us: Some(rtt), ..cell(slot, bps) }
        })
        .collect();
    let found = conclude_scan(&plan, &ScanObservation { cells }, &[], "grid_done");
    let regimes = &found.analysis.regimes;
    assert_eq!(regimes.len(), 2, "{regimes:?}");
    assert_eq!(regimes[1].first_cell as usize, change);
    assert_eq!(
        (regimes[0].sentinel_bps, regimes[1].sentinel_bps),
        (Some(125_000_000), Some(60_000_000))
    );
    let best = found.analysis.directions[0].best.as_ref().unwrap();
    assert_eq!(best.goodput_bps, 60_000_000);
    let finding = find(&found, "path_changed");
    for word in ["125 Mbit/s", "60 Mbit/s", "150 ms", "160 ms"] {
        assert!(finding.summary.contains(word), "{word}: {}", finding.summary);
    }
    assert_eq!(finding.supports.len(), 2);
    assert!(coded(&found, "path_changed").is_some());
}

#[test]
fn a_drop_is_seen_by_the_sentinels_alone() {
    let plan = grid(&[None], &[1, 2, 4, 8, 16, 32], RunDirection::Forward, 6);
    let half = order_cells(&plan).len() / 2;
    let found = measure(&plan, |_, _, place| if place < half { 250e6 } else { 150e6 });
    assert_eq!(found.analysis.regimes.len(), 2, "{:?}", found.analysis.regimes);
    assert_eq!(found.analysis.directions[0].best.as_ref().unwrap().goodput_bps, 150_000_000);
}

#[test]
fn two_probes_that_differ_by_less_than_their_own_intervals_are_one_path() {
    let told = |half_bps: u64| {
        let probe = |index: u32, bps: u64| {
            let slot = ScanSlot {
                index,
                setting: TransferSetting::default(),
                forward: true,
                sentinel: false,
            };
            ScanCell {
                goodput_interval_bps: Some([bps - half_bps, bps + half_bps]),
                ..cell(&slot, bps as f64)
            }
        };
        let cells = vec![probe(0, 100_000_000), probe(1, 60_000_000)];
        let found = conclude_scan(&guided(), &ScanObservation { cells }, &[], "settled");
        found.analysis.regimes.len()
    };
    assert_eq!(told(40_000_000), 0);
    assert_eq!(told(1_000_000), 2);
}

#[test]
fn too_little_after_a_change_concludes_nothing_from_it() {
    let plan = guided();
    let cells: Vec<ScanCell> = [150_000u64; 3]
        .iter()
        .chain(&[190_000; 3])
        .enumerate()
        .map(|(place, rtt)| {
            let slot = ScanSlot {
                index: place as u32,
                setting: TransferSetting::default(),
                forward: place < 1,
                sentinel: false,
            };
            ScanCell { idle_rtt_us: Some(*rtt), ..cell(&slot, 50e6) }
        })
        .collect();
    let found = conclude_scan(&plan, &ScanObservation { cells }, &[], "time");
    assert_eq!(found.analysis.regimes.len(), 2);
    assert_eq!(found.analysis.directions[0].best, None);
    assert!(coded(&found, "few_cells").is_some());
}

#[test]
fn equal_settings_are_said_not_to_matter() {
    let plan = grid(&[None, Some(1 << 20)], &[1, 2, 4], RunDirection::Forward, 2);
    let found = measure(&plan, |s, _, _| 94e6 + f64::from(s.streams) * 1e4);
    assert!(find(&found, "settings_do_not_matter").summary.contains("all 6"));
    assert_eq!(
        found.analysis.directions[0].recommended.as_ref().unwrap().setting,
        TransferSetting::default()
    );
}

#[test]
fn a_histogram_has_bins_that_suit_its_pairs() {
    let borders = |reverse: &[u64]| -> Vec<(f64, u32)> {
        let bins = build_histogram(reverse.iter().map(|bps| (100_000_000, *bps)));
        bins.iter().map(|bin| (bin.from_ratio, bin.cells)).collect()
    };
    // 0.5 and 1.5 % of the sum apart, and 0.6 % the other way.
    assert_eq!(borders(&[99_000_000, 97_000_000, 101_200_000]), [(-0.01, 1), (0.0, 1), (0.01, 1)]);
    let wide = borders(&[1_000_000, 1_000_000_000]);
    assert_eq!((wide.len(), wide[0], wide[wide.len() - 1]), (19, (-0.9, 1), (0.9, 1)));
    assert_eq!(borders(&[0]), [(0.99, 1)]);
    assert_eq!(borders(&[]), []);
}

#[test]
fn asymmetry_has_sign_histogram_and_cause() {
    let plan = grid(&[Some(1 << 20)], &[1, 2, 4], RunDirection::Both, 1);
    let cells: Vec<ScanCell> = order_cells(&plan)
        .into_iter()
        .map(|slot| {
            let clipped = ScanCell {
                limited_by: Some(Limiter::ReceiveWindow),
                granted_receive_bytes: Some(65_536),
                ..cell(&slot, 30e6)
            };
            if slot.forward { clipped } else { cell(&slot, 70e6) }
        })
        .collect();
    let runs =
        [report(true, "slac", "daresbury", 65_536), report(false, "daresbury", "slac", 1 << 24)];
    let found = conclude_scan(&plan, &ScanObservation { cells }, &runs, "grid_done");
    let asymmetry = found.analysis.asymmetry.as_ref().unwrap();
    assert!((asymmetry.median_ratio + 0.4).abs() < 1e-9);
    let counted: Vec<f64> =
        asymmetry.histogram.iter().filter(|b| b.cells > 0).map(|b| b.from_ratio).collect();
    assert_eq!((asymmetry.histogram.len(), counted), (1, vec![-0.4]));
    let cause = asymmetry.cause.as_deref().unwrap();
    for word in [
        "Reverse reaches 233 %",
        "the receive window (daresbury: requested 1 MiB, got 64 KiB)",
        "reverse by the capacity",
    ] {
        assert!(cause.contains(word), "{word}: {cause}");
    }
}

#[test]
fn a_cell_that_was_measured_again_counts_once() {
    let plan = grid(&[None], &[1, 2], RunDirection::Forward, 1);
    let slots = order_cells(&plan);
    let lost = ScanCell {
        index: 0,
        setting: slots[0].setting.clone(),
        forward: true,
        sentinel: false,
        at_us: 0,
        duration_us: 1,
        error: Some(String::from("far end gone")),
        ..ScanCell::default()
    };
    let cells = vec![lost, cell(&slots[0], 5e6), cell(&slots[0], 6e6), cell(&slots[1], 7e6)];
    let found = conclude_scan(&plan, &ScanObservation { cells }, &[], "grid_done");
    assert_eq!(found.analysis.probes_run, 2);
    assert!(coded(&found, "failed_cells").is_none() && coded(&found, "interrupted").is_none());
    let best = found.analysis.directions[0].best.as_ref().unwrap();
    assert_eq!((best.probes, best.goodput_bps), (1, 7_000_000));
}

#[test]
fn a_scan_without_any_result_says_so_and_concludes_nothing() {
    let plan = grid(&[None], &[1, 2], RunDirection::Both, 1);
    let cells = order_cells(&plan).into_iter().map(|s| ScanCell {
        index: s.index,
        setting: s.setting,
        forward: s.forward,
        sentinel: false,
        at_us: 0,
        duration_us: 1,
        error: Some(String::from("connection refused")),
        ..ScanCell::default()
    });
    let observation = ScanObservation { cells: cells.collect() };
    let found = conclude_scan(&plan, &observation, &[], "far_end_gone");
    assert!(found.analysis.directions.iter().all(|d| d.best.is_none() && d.curves.is_empty()));
    assert_eq!((found.analysis.asymmetry.clone(), found.analysis.probes_run), (None, 0));
    let text = &coded(&found, "failed_cells").unwrap().text;
    assert!(text.contains("4 probes") && text.contains("connection refused"), "{text}");
    assert!(conclude_scan(&plan, &ScanObservation::default(), &[], "time").findings.is_empty());
}
