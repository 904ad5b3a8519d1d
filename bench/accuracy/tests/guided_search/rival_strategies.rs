//! Alternative strategies with the same probe budget, for comparison with the guided search.

use super::tuning_path::TuningPath;
use super::{FEW_PROBES, STREAMS, SearchStrategy, WINDOWS, list_grid_settings};
use longhaul_model::report::v1::scan::TransferSetting;
use longhaul_model::splitmix::SplitMix64;

pub const RIVAL_STRATEGIES: [(&str, SearchStrategy); 5] = [
    ("default setting", use_default_setting),
    ("whole grid", search_whole_grid),
    ("random 8", search_random_settings),
    ("doubling streams at the largest window", search_by_doubling),
    ("hill climb in windows and streams", search_by_hill_climb),
];

fn probe_goodput(path: &TuningPath, noise: &mut SplitMix64, setting: &TransferSetting) -> u64 {
    path.probe(noise, setting).goodput_bps.unwrap_or(0)
}

/// Returns the best measured setting; every strategy here trusts its probes.
fn pick_best_setting(
    path: &TuningPath,
    noise: &mut SplitMix64,
    settings: impl IntoIterator<Item = TransferSetting>,
) -> (TransferSetting, u32) {
    let measured = settings.into_iter().map(|s| (probe_goodput(path, noise, &s), s));
    let measured: Vec<(u64, TransferSetting)> = measured.collect();
    let probes = measured.len() as u32;
    let best = measured.into_iter().max_by_key(|(bps, _)| *bps);
    (best.map(|(_, setting)| setting).unwrap_or_default(), probes)
}

fn use_default_setting(_: &TuningPath, _: &mut SplitMix64) -> (TransferSetting, u32) {
    (TransferSetting::default(), 1)
}

pub fn search_whole_grid(path: &TuningPath, noise: &mut SplitMix64) -> (TransferSetting, u32) {
    pick_best_setting(path, noise, list_grid_settings())
}

fn search_random_settings(path: &TuningPath, noise: &mut SplitMix64) -> (TransferSetting, u32) {
    let cells: Vec<TransferSetting> = list_grid_settings().collect();
    let drawn: Vec<TransferSetting> =
        (0..FEW_PROBES).map(|_| cells[noise.below(cells.len())].clone()).collect();
    pick_best_setting(path, noise, drawn)
}

fn search_by_doubling(path: &TuningPath, noise: &mut SplitMix64) -> (TransferSetting, u32) {
    let at = |streams| TransferSetting {
        window_bytes: Some(65_536 << (WINDOWS - 1)),
        streams,
        ..TransferSetting::default()
    };
    let (mut streams, mut probes) = (1, 1);
    let mut now = probe_goodput(path, noise, &at(1));
    while streams < STREAMS[STREAMS.len() - 1] {
        let next = probe_goodput(path, noise, &at(2 * streams));
        probes += 1;
        if (next as f64) < 1.03 * now as f64 {
            break;
        }
        (streams, now) = (2 * streams, next);
    }
    (at(streams), probes)
}

/// Moves from the middle of the grid to the best neighbour until none is better.
fn search_by_hill_climb(path: &TuningPath, noise: &mut SplitMix64) -> (TransferSetting, u32) {
    let at = |(window, streams): (usize, usize)| TransferSetting {
        window_bytes: Some(65_536 << window),
        streams: STREAMS[streams],
        ..TransferSetting::default()
    };
    let (mut place, mut probes) = ((WINDOWS as usize / 2, STREAMS.len() / 2), 1);
    let mut now = probe_goodput(path, noise, &at(place));
    loop {
        let (window, streams) = place;
        let around = [
            (window + 1, streams),
            (window, streams + 1),
            (window.wrapping_sub(1), streams),
            (window, streams.wrapping_sub(1)),
        ];
        let inside =
            around.into_iter().filter(|(w, n)| *w < WINDOWS as usize && *n < STREAMS.len());
        let tried: Vec<_> = inside.map(|p| (probe_goodput(path, noise, &at(p)), p)).collect();
        probes += tried.len() as u32;
        match tried.into_iter().max() {
            Some((bps, better)) if bps > now => (place, now) = (better, bps),
            _ => return (at(place), probes),
        }
    }
}
