//! Compares the two directions and names the cause of their difference.
//!
//! (forward - reverse) / (forward + reverse) for each setting that was measured in both directions.
//!
//! Source: SLAC to Daresbury, 2000. Units: a ratio from -1 (all in reverse) to 1. Error: half of
//! the relative error of a goodput.
//! Wrong when: the path changed between the two probes of a pair.

use super::kernel_needs::{DirectionHosts, ScanEnd};
use super::scan_cells::{SettingGroup, group_by_setting};
use crate::stats::{find_mode, median};
use crate::throughput::{format_whole_percent, name_limiter};
use longhaul_model::report::v1::analysis::Limiter;
use longhaul_model::report::v1::scan::{AsymmetryCell, HistogramBin, ScanAsymmetry, ScanCell};
use longhaul_model::units::Bytes;

/// The numbers of bins from 0 to 1, of which the first one that gives few bins is used.
const BINS_PER_ONE: [i32; 3] = [100, 50, 20];
const MIN_BINS_PER_ONE: i32 = 10;
const MAX_BINS: i32 = 12;
/// The minimum asymmetry for which a cause is named.
const MIN_ASYMMETRY: f64 = 0.05;

/// Returns `None` if no setting was measured in both directions. `direction_hosts`: of forward and reverse.
pub fn analyse_asymmetry(cells: &[&ScanCell], hosts: [DirectionHosts; 2]) -> Option<ScanAsymmetry> {
    let reverse = group_by_setting(cells, false);
    let pair = |f: &SettingGroup| {
        let r = reverse.iter().find(|r| r.setting == f.setting)?;
        Some(compare_directions(f, r))
    };
    let pairs: Vec<AsymmetryCell> = group_by_setting(cells, true).iter().filter_map(pair).collect();
    let median_ratio = median(pairs.iter().map(|p| p.asymmetry_ratio))?;
    Some(ScanAsymmetry {
        histogram: build_histogram(pairs.iter().map(|pair| (pair.forward_bps, pair.reverse_bps))),
        cause: (median_ratio.abs() >= MIN_ASYMMETRY)
            .then(|| explain_asymmetry(cells, &pairs, hosts, median_ratio)),
        median_ratio,
        cells: pairs,
    })
}

fn compare_directions(forward: &SettingGroup, reverse: &SettingGroup) -> AsymmetryCell {
    let (f, r) = (forward.median_bps(), reverse.median_bps());
    AsymmetryCell {
        setting: forward.setting.clone(),
        asymmetry_ratio: (f - r) / (f + r),
        forward_bps: f.round() as u64,
        reverse_bps: r.round() as u64,
        forward_limited_by: forward.limiter(),
        reverse_limited_by: reverse.limiter(),
    }
}

/// Counts pairs of forward and reverse rates by (f - r) / (f + r), in the narrowest bins of which
/// few span all pairs.
pub fn build_histogram(pairs: impl Iterator<Item = (u64, u64)>) -> Vec<HistogramBin> {
    let pairs: Vec<(i128, i128)> = pairs.map(|(f, r)| (i128::from(f), i128::from(r))).collect();
    let place = |(forward, reverse): &(i128, i128), bins: i32| {
        let place = ((forward - reverse) * i128::from(bins)).div_euclid((forward + reverse).max(1));
        i32::try_from(place).unwrap_or(bins).min(bins - 1)
    };
    let span = |bins: i32| {
        let places = || pairs.iter().map(|pair| place(pair, bins));
        Some((places().min()?, places().max()?))
    };
    let fits = |bins: &i32| span(*bins).is_none_or(|(first, last)| last - first < MAX_BINS);
    let bins = BINS_PER_ONE.into_iter().find(fits).unwrap_or(MIN_BINS_PER_ONE);
    let Some((first, last)) = span(bins) else {
        return Vec::new();
    };
    let border = |place: i32| f64::from(place) / f64::from(bins);
    let count = |at: i32| pairs.iter().filter(|pair| place(pair, bins) == at).count() as u32;
    (first..=last)
        .map(|at| HistogramBin {
            from_ratio: border(at),
            to_ratio: border(at + 1),
            cells: count(at),
        })
        .collect()
}

fn explain_asymmetry(
    cells: &[&ScanCell],
    pairs: &[AsymmetryCell],
    hosts: [DirectionHosts; 2],
    median: f64,
) -> String {
    let (faster, slower) =
        if median > 0.0 { ("Forward", "reverse") } else { ("Reverse", "forward") };
    let most = |limiter: fn(&AsymmetryCell) -> Limiter| {
        find_mode(&pairs.iter().map(limiter).collect::<Vec<_>>())
    };
    let held = |limiter: Option<Limiter>, forward: bool, hosts: DirectionHosts| {
        let end = match limiter {
            Some(Limiter::ReceiveWindow) => Some(ScanEnd::Receiver),
            Some(Limiter::SendBuffer) => Some(ScanEnd::Sender),
            _ => None,
        };
        let clip = end.and_then(|end| Some((end, end.clipped_window(cells, forward)?)));
        let granted = clip.map_or(String::new(), |(end, (asked, granted))| {
            let host = hosts.name(end);
            format!(" ({host}: requested {1}, got {0})", Bytes(granted), Bytes(asked))
        });
        format!("{}{granted}", name_limiter(limiter.unwrap_or(Limiter::Unknown)))
    };
    let ratio = (1.0 + median.abs()) / (1.0 - median.abs()).max(1e-3);
    let limiters = [most(|p| p.forward_limited_by), most(|p| p.reverse_limited_by)];
    let [forward, reverse] = [0, 1].map(|way| held(limiters[way], way == 0, hosts[way]));
    let why = if forward == reverse {
        format!("both are mostly limited by {forward}")
    } else {
        format!("forward is mostly limited by {forward}, reverse by {reverse}")
    };
    format!("{faster} reaches {} of the {slower} goodput: {why}", format_whole_percent(ratio))
}
