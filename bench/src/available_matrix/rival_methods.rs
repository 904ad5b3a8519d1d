//! Methods of other authors, on the trains of the same run.
//!
//! ABwE: the dispersion of the bursts' first pairs, by the formula `C / (1 + q)` of Navratil and
//! Cottrell 2003, where q is the mean time between the pair's packets that others filled.
//!
//! Spruce (Strauss, Katabi and Kaashoek 2003): pairs that leave with the gap of the capacity, which is
//! given; here the neighbouring packets of trains at about this rate, whose queue does not run empty
//! either. Spruce itself sends 100 pairs at random times.
//!
//! A search like pathload's: a train is above the available bandwidth if its delays grow by the pairwise
//! comparison and difference tests (Jain and Dovrolis 2002); the answer parts the rates best.

use longhaul_model::report::v1::available::{DirectionProbing, ProbeTrain, TrainPurpose};

/// The thresholds of pathload's tests, above which delays grow.
const GROWING_COMPARISONS: f64 = 0.55;
const GROWING_DIFFERENCE: f64 = 0.4;
/// The rates of trains as ratios of the capacity, whose neighbouring packets count as Spruce's pairs.
const SPRUCE_RATES: std::ops::Range<f64> = 0.9..1.3;
const MIN_PAIRS: usize = 4;
const MIN_TRAINS: usize = 8;

/// Computes ABwE's formula from neighbouring packets of the bursts.
pub fn estimate_by_abwe(probing: &DirectionProbing) -> Option<f64> {
    let bursts = || probing.trains.iter().filter(|train| train.purpose == TrainPurpose::Burst);
    let gaps_s: Vec<f64> = bursts().flat_map(list_gaps_s).collect();
    let bits = f64::from(bursts().next()?.packet_bytes) * 8.0;
    if gaps_s.len() < MIN_PAIRS {
        return None;
    }
    // The commonest gap is that of the capacity.
    let mut sorted = gaps_s.clone();
    sorted.sort_by(f64::total_cmp);
    let half = sorted.len() / 2;
    let width = |from: &usize| sorted[from + half] - sorted[*from];
    let from = (0..sorted.len() - half).min_by(|a, b| width(a).total_cmp(&width(b)))?;
    let gap_s = sorted[from + half / 2].max(1e-9);
    let mean_s = gaps_s.iter().sum::<f64>() / gaps_s.len() as f64;
    let filled = (mean_s / gap_s - 1.0).max(0.0);
    Some(bits / gap_s / (1.0 + filled))
}

/// Computes Spruce's formula from trains that left at about the capacity.
pub fn estimate_by_spruce(probing: &DirectionProbing, capacity_bps: f64) -> Option<f64> {
    let is_near = |train: &&ProbeTrain| {
        train.purpose == TrainPurpose::Sweep
            && train.rate_bps.is_some_and(|bps| SPRUCE_RATES.contains(&(bps as f64 / capacity_bps)))
    };
    let near: Vec<&ProbeTrain> = probing.trains.iter().filter(is_near).collect();
    let sent = near.iter().flat_map(|train| train.sent_ns.windows(2).map(|w| (w[1] - w[0]) as f64));
    let arrived = near.iter().flat_map(|train| train.received_ns.windows(2).map(subtract_pair));
    let pairs: Vec<(f64, f64)> =
        sent.zip(arrived).filter_map(|(sent, arrived)| Some((sent, arrived?))).collect();
    if pairs.len() < MIN_PAIRS {
        return None;
    }
    let [sent, arrived] = [0, 1]
        .map(|at| pairs.iter().map(|pair| if at == 0 { pair.0 } else { pair.1 }).sum::<f64>());
    Some((capacity_bps * (1.0 - (arrived - sent) / sent)).clamp(0.0, capacity_bps))
}

fn subtract_pair(pair: &[Option<u64>]) -> Option<f64> {
    Some(pair[1]? as f64 - pair[0]? as f64)
}

fn list_gaps_s(train: &ProbeTrain) -> Vec<f64> {
    let arrived: Vec<u64> = train.received_ns.iter().filter_map(|ns| *ns).collect();
    arrived.windows(2).map(|pair| pair[1].saturating_sub(pair[0]) as f64 / 1e9).collect()
}

/// Returns the rate that parts trains whose delays grow from those whose delays do not.
pub fn estimate_by_pathload(probing: &DirectionProbing) -> Option<f64> {
    let sweep = probing.trains.iter().filter(|train| train.purpose == TrainPurpose::Sweep);
    let mut trains: Vec<(f64, bool)> =
        sweep.filter_map(|train| Some((train.rate_bps? as f64, is_growing(train)?))).collect();
    if trains.len() < MIN_TRAINS {
        return None;
    }
    trains.sort_by(|a, b| a.0.total_cmp(&b.0));
    let wrong = |at: &usize| {
        let (below, above) = trains.split_at(*at);
        below.iter().filter(|it| it.1).count() + above.iter().filter(|it| !it.1).count()
    };
    let at = (0..=trains.len()).min_by_key(wrong)?;
    let rate = |index: usize| trains[index.min(trains.len() - 1)].0;
    Some(if at == 0 { rate(0) } else { f64::midpoint(rate(at - 1), rate(at)) })
}

/// Returns whether the delays of a train grow, by the medians of groups of its packets.
fn is_growing(train: &ProbeTrain) -> Option<bool> {
    let times = train.sent_ns.iter().zip(&train.received_ns);
    let delays: Vec<f64> =
        times.filter_map(|(sent, came)| Some((*came)? as f64 - *sent as f64)).collect();
    let size = ((delays.len() as f64).sqrt() as usize).max(1);
    let medians: Vec<f64> = delays.chunks_exact(size).map(find_median).collect();
    if medians.len() < 3 {
        return None;
    }
    let steps: Vec<f64> = medians.windows(2).map(|pair| pair[1] - pair[0]).collect();
    let rising = steps.iter().filter(|step| **step > 0.0).count() as f64 / steps.len() as f64;
    let moved: f64 = steps.iter().map(|step| step.abs()).sum();
    let difference = (medians[medians.len() - 1] - medians[0]) / moved.max(1.0);
    Some(rising > GROWING_COMPARISONS && difference > GROWING_DIFFERENCE)
}

fn find_median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[sorted.len() / 2]
}
