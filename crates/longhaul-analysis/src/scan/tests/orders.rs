//! The order of a grid.

use super::cases::{grid, report};
use crate::scan::{MAX_SLOTS, build_cell, build_probe_plan, order_cells};
use longhaul_model::report::v1::plan::RunDirection;
use longhaul_model::report::v1::scan::TransferSetting;
use proptest::prelude::*;
use std::collections::BTreeMap;

#[test]
fn the_order_of_a_plan_is_the_same_for_ever() {
    // A scan is resumed by the index: this very order must not change with a release.
    let slots = order_cells(&grid(&[None, Some(65_536)], &[1, 2, 4], RunDirection::Forward, 1));
    let told: Vec<(u32, Option<u64>, bool)> =
        slots.iter().map(|s| (s.setting.streams, s.setting.window_bytes, s.sentinel)).collect();
    let wide = Some(65_536);
    assert_eq!(
        told,
        PINNED.map(|(streams, window, sentinel)| (streams, wide.filter(|_| window), sentinel))
    );
}

/// Streams, whether the window is set, whether it is a sentinel.
const PINNED: [(u32, bool, bool); 9] = [
    (2, true, true),
    (4, true, false),
    (2, true, false),
    (4, false, false),
    (2, false, false),
    (2, true, true),
    (1, false, false),
    (1, true, false),
    (2, true, true),
];

#[test]
fn a_plan_from_outside_cannot_ask_for_endless_slots() {
    let streams: Vec<u32> = (1..2000).collect();
    let slots =
        order_cells(&grid(&[None, Some(1), Some(2)], &streams, RunDirection::Both, u32::MAX));
    assert_eq!(slots.len(), MAX_SLOTS);
}

#[test]
fn a_probe_asks_its_setting_in_its_direction() {
    let mut plan = grid(&[None], &[1], RunDirection::Both, 1);
    plan.probe.no_delay = true;
    let setting = TransferSetting {
        window_bytes: Some(1 << 20),
        streams: 3,
        congestion_control: Some(String::from("bbr")),
        pacing_bps: Some(5),
    };
    let asked = build_probe_plan(&plan.probe, &setting, false);
    assert_eq!(asked.direction, RunDirection::Reverse);
    assert_eq!(
        (asked.send_buffer_bytes, asked.receive_buffer_bytes),
        (Some(1 << 20), Some(1 << 20))
    );
    assert_eq!((asked.streams, asked.congestion_control.as_deref()), (3, Some("bbr")));
    assert_eq!((asked.pacing_bps, asked.no_delay), (Some(5), true));
}

#[test]
fn a_run_that_moved_nothing_is_a_failed_cell() {
    let empty =
        build_cell(0, TransferSetting::default(), true, false, 0, &report(true, "a", "b", 1));
    assert_eq!((empty.goodput_bps, empty.error.as_deref()), (None, Some("no payload arrived")));
}

proptest! {
    #[test]
    fn every_cell_comes_as_often_as_asked_and_repeats_are_spread(
        windows in 1usize..6,
        streams in 1u32..6,
        repeats in 1u32..4,
        seed: u64,
        both: bool,
    ) {
        let windows: Vec<Option<u64>> = (0..windows).map(|i| (i > 0).then_some(i as u64 * 65_536)).collect();
        let streams: Vec<u32> = (1..=streams).collect();
        let direction = if both { RunDirection::Both } else { RunDirection::Reverse };
        let mut plan = grid(&windows, &streams, direction, repeats);
        plan.seed = seed;
        let slots = order_cells(&plan);
        prop_assert_eq!(&slots, &order_cells(&plan));
        let cells: Vec<_> = slots.iter().filter(|s| !s.sentinel).collect();
        let mut counts: BTreeMap<(&TransferSetting, bool), usize> = BTreeMap::new();
        for slot in &cells {
            *counts.entry((&slot.setting, slot.forward)).or_default() += 1;
        }
        let distinct = windows.len() * streams.len() * if both { 2 } else { 1 };
        prop_assert_eq!(counts.len(), distinct);
        prop_assert!(counts.values().all(|count| *count == repeats as usize));
        for round in cells.chunks(distinct) {
            let mut seen: Vec<_> = round.iter().map(|s| (&s.setting, s.forward)).collect();
            seen.sort();
            seen.dedup();
            prop_assert_eq!(seen.len(), distinct, "a repeat came before all were measured once");
        }
        for (place, slot) in slots.iter().enumerate() {
            prop_assert_eq!(slot.index as usize, place);
        }
        if slots.iter().any(|s| s.sentinel) {
            prop_assert!(slots[0].sentinel && slots[slots.len() - 1].sentinel);
            let longest = slots.split(|s| s.sentinel).map(<[_]>::len).max().unwrap_or(0);
            let most = if both { 20 } else { 10 };
            prop_assert!(longest <= most, "{} cells without a sentinel", longest);
        }
    }
}
