//! Assigns the queue to the forward or the return path, from one-way delays of both hosts.
//!
//! The offset between the two clocks cancels in every difference; their drift is removed by the
//! line from the floor of the idle time before to that of the idle time after. Without an idle time
//! after, the floor before is used alone.
//! Source: our design. Units: ns. Error: the curvature of the drift in half a minute: below 0.1 ms.
//! Wrong when: a clock was stepped by a few milliseconds during the run; larger steps do not fit
//! the RTT and are left out.

use super::hop_rise::{HopRise, PhaseClock, ProbePhases};
use longhaul_model::report::v1::path::{EndDelay, HopWatch};

/// Both directions, and the round trip that they form.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct OneWayRises {
    pub forward: Option<HopRise>,
    pub reverse: Option<HopRise>,
    pub both: Option<HopRise>,
}

impl OneWayRises {
    pub fn of(watch: &HopWatch) -> OneWayRises {
        let rise = |value: fn(&EndDelay) -> Option<i64>| measure_one_way_rise(watch, value);
        OneWayRises {
            forward: rise(|probe| probe.forward_ns),
            reverse: rise(|probe| probe.reverse_ns),
            // The offset is in both with opposite signs.
            both: rise(|probe| probe.forward_ns?.checked_add(probe.reverse_ns?)),
        }
    }
}

fn measure_one_way_rise(watch: &HopWatch, value: fn(&EndDelay) -> Option<i64>) -> Option<HopRise> {
    let known = watch.ends.iter().filter(|probe| value(probe).is_some());
    // Subtract the offset before converting to float: it may be years.
    let zero = known.clone().filter_map(value).min()?;
    let points: Vec<(u64, f64)> = known
        .filter_map(|probe| Some((probe.at_us, value(probe)?.checked_sub(zero)? as f64)))
        .collect();
    let drift = compute_drift(watch, &points);
    let straight = watch.ends.iter().map(|probe| {
        let own = value(probe).and_then(|ns| ns.checked_sub(zero));
        (probe.at_us, own.map(|ns| ns as f64 - drift * probe.at_us as f64))
    });
    HopRise::of(0, None, &ProbePhases::of(PhaseClock::of(watch), straight))
}

/// Returns the drift in ns per µs, between the idle floors before and after the load.
fn compute_drift(watch: &HopWatch, points: &[(u64, f64)]) -> f64 {
    let clock = PhaseClock::of(watch);
    let idle = |after: bool| {
        points
            .iter()
            .filter(|(at, _)| clock.loaded(*at) == Some(false))
            .filter(|(at, _)| (*at >= watch.load_until_us) == after)
            .min_by(|a, b| a.1.total_cmp(&b.1))
    };
    match (idle(false), idle(true)) {
        (Some((from, low)), Some((to, high))) if to > from => (high - low) / (to - from) as f64,
        _ => 0.0,
    }
}
