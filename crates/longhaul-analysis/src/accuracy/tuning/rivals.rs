//! Alternative strategies with the same probe budget, for comparison with the guided search.

use super::path::Path;
use super::{FEW_PROBES, STREAMS, Strategy, WINDOWS, grid};
use crate::accuracy::rng::Rng;
use longhaul_model::report::v1::scan::Setting;

pub const ALL: [(&str, Strategy); 5] = [
    ("default setting", default_setting),
    ("whole grid", whole_grid),
    ("random 8", random),
    ("doubling streams at the largest window", doubling),
    ("hill climb in windows and streams", hill_climb),
];

fn goodput(path: &Path, noise: &mut Rng, setting: &Setting) -> u64 {
    path.probe(noise, setting).goodput_bps.unwrap_or(0)
}

/// Returns the best measured setting; every strategy here trusts its probes.
fn best(
    path: &Path,
    noise: &mut Rng,
    settings: impl IntoIterator<Item = Setting>,
) -> (Setting, u32) {
    let measured = settings.into_iter().map(|s| (goodput(path, noise, &s), s));
    let measured: Vec<(u64, Setting)> = measured.collect();
    let probes = measured.len() as u32;
    let best = measured.into_iter().max_by_key(|(bps, _)| *bps);
    (best.map(|(_, setting)| setting).unwrap_or_default(), probes)
}

fn default_setting(_: &Path, _: &mut Rng) -> (Setting, u32) {
    (Setting::default(), 1)
}

fn whole_grid(path: &Path, noise: &mut Rng) -> (Setting, u32) {
    best(path, noise, grid())
}

fn random(path: &Path, noise: &mut Rng) -> (Setting, u32) {
    let cells: Vec<Setting> = grid().collect();
    let drawn: Vec<Setting> = (0..FEW_PROBES)
        .map(|_| cells[noise.below(cells.len())].clone())
        .collect();
    best(path, noise, drawn)
}

fn doubling(path: &Path, noise: &mut Rng) -> (Setting, u32) {
    let at = |streams| Setting {
        window_bytes: Some(65_536 << (WINDOWS - 1)),
        streams,
        ..Setting::default()
    };
    let (mut streams, mut probes) = (1, 1);
    let mut now = goodput(path, noise, &at(1));
    while streams < STREAMS[STREAMS.len() - 1] {
        let next = goodput(path, noise, &at(2 * streams));
        probes += 1;
        if (next as f64) < 1.03 * now as f64 {
            break;
        }
        (streams, now) = (2 * streams, next);
    }
    (at(streams), probes)
}

/// Moves from the middle of the grid to the best neighbour until none is better.
fn hill_climb(path: &Path, noise: &mut Rng) -> (Setting, u32) {
    let at = |(window, streams): (usize, usize)| Setting {
        window_bytes: Some(65_536 << window),
        streams: STREAMS[streams],
        ..Setting::default()
    };
    let (mut place, mut probes) = ((WINDOWS as usize / 2, STREAMS.len() / 2), 1);
    let mut now = goodput(path, noise, &at(place));
    loop {
        let (window, streams) = place;
        let around = [
            (window + 1, streams),
            (window, streams + 1),
            (window.wrapping_sub(1), streams),
            (window, streams.wrapping_sub(1)),
        ];
        let inside = around
            .into_iter()
            .filter(|(w, n)| *w < WINDOWS as usize && *n < STREAMS.len());
        let tried: Vec<_> = inside.map(|p| (goodput(path, noise, &at(p)), p)).collect();
        probes += tried.len() as u32;
        match tried.into_iter().max() {
            Some((bps, better)) if bps > now => (place, now) = (better, bps),
            _ => return (at(place), probes),
        }
    }
}
