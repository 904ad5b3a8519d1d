//! Estimates capacity, available bandwidth and a verdict for one direction from its trains.
//!
//! Source: docs/methods/available-bandwidth.md. Units: bit/s of IP. Error: the intervals.
//! Wrong when: the verdict or a flag says so.

use super::bucket;
use super::capacity::Dispersion;
use super::evidence::Evidence;
use super::fusion::{Accord, Fusion, fuse};
use super::idle;
use super::resolution;
use super::sweep::Level;
use longhaul_model::report::v1::available::{Bucket, Estimate, Method, Plan, Probing, Verdict};

/// The maximum share of trains left out; with more, the run is disturbed.
const MOST_DROPPED: f64 = 0.5;
/// The maximum loss ratio without a policer.
const MOST_LOST: f64 = 0.2;
/// A capacity within this ratio of the interface's speed is that of the interface.
const OF_INTERFACE: f64 = 0.93;
/// A batch longer than this does not come from a network card's timer.
const SLOTTED_S: f64 = 1e-3;
/// Bursts of cross traffic larger than this make short runs uncertain.
const BURSTY_BITS: f64 = 150_000.0;
/// The minimum half-width of the capacity's interval, and the maximum that the trains' spread adds.
const LEAST_CAPACITY_ERROR: f64 = 0.02;
const MOST_SPREAD: f64 = 0.2;
/// Capacities above this ratio of the resolution limit are beyond it.
const NEAR_RESOLUTION: f64 = 0.9;

/// The estimate of one direction, with what its findings need.
#[derive(Debug, Clone, PartialEq)]
pub struct Direction {
    pub estimate: Estimate,
    pub evidence: Evidence,
    pub fusion: Option<Fusion>,
}

/// Estimates one direction. `loopback`: no link lies between the ends.
pub fn estimate(
    plan: &Plan,
    probing: &Probing,
    known_bps: Option<f64>,
    loopback: bool,
) -> Direction {
    let evidence = Evidence::of(&probing.trains);
    let mut estimate = Estimate {
        probe_bytes: probing.probe_bytes,
        duration_us: probing.duration_us,
        loss_ratio: evidence.loss_ratio(),
        ..Estimate::default()
    };
    // Nothing queues on loopback: apparent cross traffic is other work of the host.
    let found = if loopback {
        None
    } else {
        bucket::small(&evidence)
            .or_else(|| bucket::long(&probing.trains))
            .or_else(|| bucket::again(&evidence))
            .or_else(|| bucket::policed(&evidence))
    };
    let fusion = fuse(&evidence, known_bps);
    estimate.verdict = verdict(plan, probing, &evidence, fusion.as_ref(), found.as_ref());
    let told = matches!(estimate.verdict, Verdict::Estimated | Verdict::CapacityOnly);
    if loopback && told {
        estimate.verdict = Verdict::SenderLimited;
    }
    if let Some(dispersion) = evidence.dispersion {
        describe(&mut estimate, plan, dispersion);
    }
    estimate.methods = methods(&evidence, fusion.as_ref());
    if let Some(fusion) = &fusion {
        let spread = evidence.dispersion.map_or(0.0, |d| d.spread_ratio);
        fill(&mut estimate, fusion, spread);
    }
    if let Some(found) = found {
        held_to(&mut estimate, found);
    }
    Direction {
        estimate,
        evidence,
        fusion,
    }
}

fn verdict(
    plan: &Plan,
    probing: &Probing,
    evidence: &Evidence,
    fusion: Option<&Fusion>,
    found: Option<&Bucket>,
) -> Verdict {
    if evidence.sent == 0 || evidence.lost == evidence.sent {
        return Verdict::NoAnswer;
    }
    let trains = (evidence.readings.len() + evidence.dropped.len()) as f64;
    let dropped = evidence.dropped.len() as f64 / trains;
    let too_lossy = evidence.loss_ratio() > MOST_LOST && found.is_none();
    if evidence.skew.is_some() || dropped > MOST_DROPPED || too_lossy {
        return Verdict::Disturbed;
    }
    let (Some(dispersion), Some(fusion)) = (evidence.dispersion, fusion) else {
        // Bursts arrived, but all within a few batches.
        let came = evidence.readings.iter().any(|r| r.lost < r.packets);
        return if came {
            Verdict::BeyondResolution
        } else {
            Verdict::Disturbed
        };
    };
    let most = resolution::most_bps(dispersion.batching_s, plan);
    let own = probing.interface_bps.is_some_and(|bps| {
        dispersion.capacity_bps > OF_INTERFACE * bps as f64 && !slower_than_sender(evidence)
    });
    if dispersion.capacity_bps > NEAR_RESOLUTION * most {
        Verdict::BeyondResolution
    } else if (own || dispersion.unstrained)
        && fusion.available.is_none_or(|a| is_free(a, dispersion))
    {
        Verdict::SenderLimited
    } else if fusion.available.is_some() {
        Verdict::Estimated
    } else {
        Verdict::CapacityOnly
    }
}

/// Returns whether the path is as fast as the sender and nearly idle: it then has no upper bound.
fn is_free(available: Level, dispersion: Dispersion) -> bool {
    available.interval[1] > OF_INTERFACE * dispersion.capacity_bps
}

/// Returns whether trains below the interface's speed were stretched.
fn slower_than_sender(evidence: &Evidence) -> bool {
    let strained = |d: &&super::sweep::Datum| d.strain > 0.1 + 3.0 * d.noise;
    evidence.data.iter().filter(strained).count() * 4 > evidence.data.len()
}

fn describe(estimate: &mut Estimate, plan: &Plan, dispersion: Dispersion) {
    let most = resolution::most_bps(dispersion.batching_s, plan);
    estimate.resolution_bps = Some(most as u64);
    if dispersion.batching_s > 0.0 {
        estimate.batching_ns = Some((dispersion.batching_s * 1e9) as u64);
    }
    if dispersion.batching_s > SLOTTED_S {
        flag(estimate, "time_slotted");
    }
}

fn fill(estimate: &mut Estimate, fusion: &Fusion, spread_ratio: f64) {
    let told = !matches!(
        estimate.verdict,
        Verdict::NoAnswer | Verdict::Disturbed | Verdict::BeyondResolution
    );
    if !told {
        return;
    }
    let capacity = fusion.capacity;
    estimate.capacity_bps = Some(capacity.value as u64);
    if estimate.verdict == Verdict::SenderLimited {
        flag(estimate, "sender_limited");
        return;
    }
    let least = LEAST_CAPACITY_ERROR + 0.5 * spread_ratio.clamp(0.0, MOST_SPREAD);
    estimate.capacity_interval_bps = Some(interval(capacity, least * capacity.value));
    let Some(available) = fusion.available else {
        return;
    };
    estimate.available_bps = Some(available.value.min(capacity.value) as u64);
    estimate.available_interval_bps = Some(interval(available, 0.0));
    let spread = fusion.spread_bps();
    estimate.available_spread_bps = spread.map(|bps| bps as u64);
    match fusion.accord {
        Accord::SeveralHops => flag(estimate, "multi_hop"),
        Accord::Changed => flag(estimate, "unstable"),
        Accord::Alone => flag(estimate, "one_method"),
        Accord::Agree => {}
    }
    if fusion.burst_bits > BURSTY_BITS {
        flag(estimate, "bursty");
    }
}

fn flag(estimate: &mut Estimate, word: &str) {
    estimate.flags.push(word.to_owned());
}

/// Returns the bounds as integers, at least `least` away from the value.
fn interval(level: Level, least: f64) -> [u64; 2] {
    let low = level.interval[0].min(level.value - least).max(0.0);
    let high = level.interval[1].max(level.value + least);
    [low.floor() as u64, high.ceil() as u64]
}

fn methods(evidence: &Evidence, fusion: Option<&Fusion>) -> Vec<Method> {
    let queue = fusion.and_then(|f| f.by_queue);
    let sweep = fusion.and_then(|f| f.by_sweep);
    let weight = fusion.map_or(0.0, |f| f.queue_weight);
    let method = |name: &str, level: Option<Level>, weight_ratio: f64, why: String| Method {
        name: name.to_owned(),
        available_bps: level.map(|l| l.value as u64),
        interval_bps: level.map(|l| interval(l, 0.0)),
        weight_ratio: if level.is_some() { weight_ratio } else { 0.0 },
        invalid: level.is_none().then_some(why),
    };
    vec![
        method("empty_queue", queue, weight, queue_invalid(evidence)),
        method("rate_sweep", sweep, 1.0 - weight, sweep_invalid(evidence)),
    ]
}

fn queue_invalid(evidence: &Evidence) -> String {
    match evidence.emptiness {
        None => String::from("too few small probes arrived"),
        Some(seen) => format!(
            "stamps are uncertain by {:.0} µs, queues last {:.0} µs",
            seen.noise_s * 1e6,
            seen.queue_s * 1e6
        ),
    }
}

fn sweep_invalid(evidence: &Evidence) -> String {
    let (lossy, all) = evidence.lossy_sweeps();
    if all == 0 {
        return String::from("no trains of set rate were sent: too slow a path, or too few bytes");
    }
    format!(
        "of {all} trains {} could be read ({lossy} lost too much)",
        evidence.data.len()
    )
}

/// Limits the estimate to the sustained rate of a token bucket, even if short bursts passed faster.
fn held_to(estimate: &mut Estimate, found: Bucket) {
    flag(
        estimate,
        match found.kind {
            longhaul_model::report::v1::available::BucketKind::Shaper => "shaped",
            longhaul_model::report::v1::available::BucketKind::Policer => "policed",
        },
    );
    let sustained = found.sustained_bps;
    if estimate.available_bps.is_some_and(|bps| bps > sustained) {
        estimate.available_bps = Some(sustained);
        if let Some([low, high]) = &mut estimate.available_interval_bps {
            *low = (*low).min(found.sustained_interval_bps.map_or(sustained, |i| i[0]));
            *high = (*high).min(found.sustained_interval_bps.map_or(sustained, |i| i[1]));
        }
    }
    estimate.bucket = Some(found);
}

/// Returns the median queueing delay of the small probes, for display.
pub fn middle_queue_s(evidence: &Evidence) -> Option<f64> {
    idle::middle_delay_s(&evidence.readings)
}
