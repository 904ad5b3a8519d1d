//! Compares the two directions and names the cause of their difference.
//!
//! (forward - reverse) / (forward + reverse) for each setting that was measured in both directions.
//!
//! Source: SLAC to Daresbury, 2000. Units: a ratio from -1 (all in reverse) to 1. Error: half of
//! the relative error of a goodput.
//! Wrong when: the path changed between the two probes of a pair.

use super::cells::{Group, groups};
use super::hosts::{End, Hosts};
use crate::stats::quantile::median;
use crate::throughput::words::{name, percent};
use longhaul_model::report::v1::analysis::Limiter;
use longhaul_model::report::v1::scan::{Asymmetry, AsymmetryCell, Bin, Cell};
use longhaul_model::units::Bytes;
use std::collections::BTreeMap;

const BINS: u32 = 20;
/// The minimum asymmetry for which a cause is named.
const LEAST_RATIO: f64 = 0.05;

/// Returns `None` if no setting was measured in both directions. `hosts`: of forward and reverse.
pub fn asymmetry(cells: &[&Cell], hosts: [Hosts; 2]) -> Option<Asymmetry> {
    let reverse = groups(cells, false);
    let pair = |f: &Group| {
        let r = reverse.iter().find(|r| r.setting == f.setting)?;
        Some(compared(f, r))
    };
    let pairs: Vec<AsymmetryCell> = groups(cells, true).iter().filter_map(pair).collect();
    let median_ratio = median(pairs.iter().map(|p| p.asymmetry_ratio))?;
    Some(Asymmetry {
        histogram: histogram(&pairs),
        cause: (median_ratio.abs() >= LEAST_RATIO)
            .then(|| cause(cells, &pairs, hosts, median_ratio)),
        median_ratio,
        cells: pairs,
    })
}

fn compared(forward: &Group, reverse: &Group) -> AsymmetryCell {
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

fn histogram(pairs: &[AsymmetryCell]) -> Vec<Bin> {
    let mut counts = [0u32; BINS as usize];
    for pair in pairs {
        // Uses integers, so that a value on a border falls into the bin that begins there.
        let sum = u128::from(pair.forward_bps) + u128::from(pair.reverse_bps);
        let place = u128::from(BINS) * u128::from(pair.forward_bps) / sum.max(1);
        counts[usize::try_from(place).unwrap_or(0).min(counts.len() - 1)] += 1;
    }
    let border = |bin: u32| (f64::from(bin) - f64::from(BINS / 2)) / f64::from(BINS / 2);
    (0..BINS)
        .zip(counts)
        .map(|(bin, cells)| Bin {
            from_ratio: border(bin),
            to_ratio: border(bin + 1),
            cells,
        })
        .collect()
}

fn cause(cells: &[&Cell], pairs: &[AsymmetryCell], hosts: [Hosts; 2], median: f64) -> String {
    let (faster, slower) = if median > 0.0 {
        ("Forward", "reverse")
    } else {
        ("Reverse", "forward")
    };
    let most = |limiter: fn(&AsymmetryCell) -> Limiter| {
        let mut votes: BTreeMap<Limiter, usize> = BTreeMap::new();
        for pair in pairs {
            *votes.entry(limiter(pair)).or_default() += 1;
        }
        votes
            .into_iter()
            .max_by_key(|(_, count)| *count)
            .map(|(l, _)| l)
    };
    let held = |limiter: Option<Limiter>, forward: bool, hosts: Hosts| {
        let end = match limiter {
            Some(Limiter::ReceiveWindow) => Some(End::Receiver),
            Some(Limiter::SendBuffer) => Some(End::Sender),
            _ => None,
        };
        let clip = end.and_then(|end| Some((end, end.clip(cells, forward)?)));
        let granted = clip.map_or(String::new(), |(end, (asked, granted))| {
            let host = hosts.name(end);
            format!(" ({host} granted {} of {})", Bytes(granted), Bytes(asked))
        });
        format!("{}{granted}", name(limiter.unwrap_or(Limiter::Unknown)))
    };
    let ratio = (1.0 + median.abs()) / (1.0 - median.abs()).max(1e-3);
    let limiters = [
        most(|p| p.forward_limited_by),
        most(|p| p.reverse_limited_by),
    ];
    let [forward, reverse] = [0, 1].map(|way| held(limiters[way], way == 0, hosts[way]));
    let why = if forward == reverse {
        format!("both are mostly held by {forward}")
    } else {
        format!("forward is mostly held by {forward}, reverse by {reverse}")
    };
    format!(
        "{faster} carries {} of what {slower} does: {why}",
        percent(ratio)
    )
}
