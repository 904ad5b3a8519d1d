//! Chooses the best setting, and the smallest one that is as good.
//!
//! Smallest means: fewer streams, then a smaller window (an autotuned one is the smallest: nothing
//! has to be set), then the default congestion control; among equals the one with the shorter queue
//! and fewer retransmits.
//!
//! Source: seeds of SLAC 2000 to 2003 for "within 3 %"; Altman et al. 2006 for few streams. Units:
//! bit/s. Error: that of the medians (`noise`).
//! Wrong when: the scatter is larger than 3 % without repeats; the caveats report it.

use super::cells::{Group, groups};
use super::noise::{Noise, interval_bps, noise};
use crate::tune::curve::{Measured, expected_bps};
use crate::tune::tally::{AS_GOOD_RATIO, LEAST_ERROR_RATIO, QUANTILE, USUAL_ERROR_RATIO};
use longhaul_model::report::v1::scan::{Cell, Choice, Conclusion, Plan, Search, Setting};
use std::cmp::Ordering;

/// Returns best, recommended, default and present setting of one direction's cells.
pub fn choose(plan: &Plan, cells: &[&Cell], forward: bool) -> Conclusion {
    let groups = groups(cells, forward);
    let scatter = noise(&groups);
    let best = groups
        .iter()
        .reduce(|a, b| if better(b, a) { b } else { a });
    let rates = rates_bps(plan, &groups, scatter);
    let enough = AS_GOOD_RATIO * rates.iter().copied().fold(0.0, f64::max);
    let adequate = groups.iter().zip(&rates).filter(|(_, bps)| **bps >= enough);
    let recommended = adequate.map(|(g, _)| g).min_by(|a, b| smaller(a, b));
    let of = |setting: &Setting| groups.iter().find(|g| g.setting == setting);
    Conclusion {
        forward,
        best: best.map(|g| told(g, scatter)),
        recommended: recommended.map(|g| told(g, scatter)),
        default: of(&Setting::default()).map(|g| told(g, scatter)),
        present: plan.present.as_ref().and_then(of).map(|g| told(g, scatter)),
        ..Conclusion::default()
    }
}

/// Returns the rate by which each group is judged: its median; in a guided search with few probes,
/// the curve through those that filled the path, so that no single probe decides by chance.
fn rates_bps(plan: &Plan, groups: &[Group], scatter: Option<Noise>) -> Vec<f64> {
    if plan.search == Search::Grid {
        return groups.iter().map(Group::median_bps).collect();
    }
    let measured = groups.iter().map(|g| {
        let half =
            interval_bps(g, scatter).map(|[low, high]| high.saturating_sub(low) as f64 / 2.0);
        Measured {
            setting: g.setting,
            goodput_bps: g.median_bps(),
            error_ratio: half.map_or(USUAL_ERROR_RATIO, |h| {
                (h / QUANTILE / g.median_bps()).max(LEAST_ERROR_RATIO)
            }),
            limiter: g.limiter(),
        }
    });
    expected_bps(&measured.collect::<Vec<_>>())
}

fn told(group: &Group, scatter: Option<Noise>) -> Choice {
    group.choice(interval_bps(group, scatter))
}

fn better(one: &Group, other: &Group) -> bool {
    let by_rate = one.median_bps().total_cmp(&other.median_bps());
    by_rate.then_with(|| smaller(other, one)) == Ordering::Greater
}

fn smaller(one: &Group, other: &Group) -> Ordering {
    let size = |s: &Setting| (s.streams, s.window_bytes, s.congestion_control.is_some());
    let load = |g: &Group| g.loaded_rtt_us().unwrap_or(u64::MAX);
    let again = |g: &Group| g.retransmitted_ratio().unwrap_or(1.0);
    size(one.setting)
        .cmp(&size(other.setting))
        .then_with(|| load(one).cmp(&load(other)))
        .then_with(|| again(one).total_cmp(&again(other)))
        .then_with(|| one.setting.cmp(other.setting))
}
