//! Scans of anything at all: the conclusions stay numbers within their bounds.

use super::cases::{grid, report};
use crate::scan::conclude_scan;
use longhaul_model::report::v1::analysis::Limiter;
use longhaul_model::report::v1::plan::RunDirection;
use longhaul_model::report::v1::scan::{ScanCell, ScanObservation, SearchMode, TransferSetting};
use proptest::prelude::*;

fn anything() -> impl Strategy<Value = ScanCell> {
    let numbers = prop_oneof![Just(0u64), Just(1), 1..u64::from(u32::MAX), Just(u64::MAX)];
    let some = || proptest::option::of(numbers.clone());
    let setting = (some(), 0u32..70, proptest::option::of("[a-z]{0,4}"));
    (
        0u32..30,
        setting,
        any::<[bool; 3]>(),
        [some(), some(), some(), some(), some(), some()],
        0usize..12,
    )
        .prop_map(
            |(
                index,
                (window_bytes, streams, congestion_control),
                [forward, sentinel, lost],
                n,
                limiter,
            )| {
                let limiters = [Limiter::ReceiveWindow, Limiter::SendBuffer, Limiter::PathCapacity];
                let setting =
                    TransferSetting { window_bytes, streams, congestion_control, pacing_bps: None };
                let error = String::from("gone");
                let blank = ScanCell {
                    index,
                    setting,
                    forward,
                    sentinel,
                    at_us: n[0].unwrap_or(9),
                    duration_us: 1,
                    error: Some(error),
                    ..ScanCell::default()
                };
                ScanCell {
                    error: blank.error.clone().filter(|_| lost),
                    goodput_bps: n[1],
                    goodput_interval_bps: n[1].zip(n[2]).map(|(a, b)| [a, b]),
                    limited_by: limiters.get(limiter).copied(),
                    confidence_ratio: Some(if sentinel { f64::NAN } else { 0.5 }),
                    idle_rtt_us: n[3],
                    loaded_rtt_us: n[4],
                    granted_receive_bytes: n[5],
                    granted_send_bytes: n[5],
                    data_segments_sent: n[2],
                    retransmitted_segments: n[4],
                    ..blank
                }
            },
        )
}

proptest! {
    #[test]
    fn garbage_gives_numbers_within_their_bounds(
        cells in proptest::collection::vec(anything(), 0..60),
        search in prop_oneof![Just(SearchMode::Grid), Just(SearchMode::Guided)],
    ) {
        let mut plan = grid(&[None, Some(1 << 20)], &[1, 4], RunDirection::Both, 1);
        plan.search = search;
        plan.present = cells.first().map(|c| c.setting.clone());
        let runs = [report(true, "", "", 0)];
        let observation = ScanObservation { cells };
        let found = conclude_scan(&plan, &observation, &runs, "time");
        prop_assert_eq!(&found, &conclude_scan(&plan, &observation, &runs, "time"));
        for direction in &found.analysis.directions {
            let choices = [&direction.best, &direction.recommended, &direction.default, &direction.present];
            for choice in choices.into_iter().flatten() {
                prop_assert!(choice.goodput_bps > 0 && choice.probes > 0);
                prop_assert!(choice.goodput_interval_bps.is_none_or(|[low, high]| low <= high));
                prop_assert!(choice.retransmitted_ratio.is_none_or(|r| (0.0..=1.0).contains(&r)));
            }
            prop_assert_eq!(direction.best.is_some(), direction.recommended.is_some());
        }
        if let Some(asymmetry) = &found.analysis.asymmetry {
            prop_assert!((-1.0..=1.0).contains(&asymmetry.median_ratio));
            let counted: u32 = asymmetry.histogram.iter().map(|b| b.cells).sum();
            prop_assert_eq!(counted as usize, asymmetry.cells.len());
        }
    }
}
