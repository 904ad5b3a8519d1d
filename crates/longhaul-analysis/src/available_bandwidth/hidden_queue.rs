//! The available share of a link whose token bucket hides short queues from small probes.
//!
//! A bucket passes a probe at once as long as the queue is shorter than the bucket's credit. Queues
//! that packets of one size make at random times exceed x with probability `ρ exp(-θx)`, where ρ is
//! the load and `ρ (exp(θS) - 1) = θS` for packets of S bits. The number of probes that waited, and
//! their mean wait, give the likelihood of ρ; it is summed over S.
//!
//! Source: the exponential tail of M/G/1 queues (Asmussen, Applied Probability and Queues, 2003).
//! Units: bits, seconds. Error: the posterior's. Wrong when: others send in long bursts that the
//! probes missed.

use super::empty_queue::EmptyQueueShare;
use super::rate_sweep::{SHARE_STEPS, add_logs, share_at_step};

/// The typical size of others' packets in bits, its standard deviation as a logarithm, and the steps
/// of the sum over it.
const PACKET_BITS: f64 = 12_000.0;
const SIZE_DEVIATION: f64 = 0.6;
const SIZE_STEPS: i32 = 12;
/// The loads of empty and full links, at which the logarithms are infinite.
const LOADS: [f64; 2] = [0.005, 0.995];
const BISECTIONS: u32 = 50;

/// Returns the logarithm of the likelihood of each step of the available share.
pub fn compute_share_logs(seen: &EmptyQueueShare, capacity_bps: f64) -> [f64; SHARE_STEPS] {
    std::array::from_fn(|step| {
        let load = (1.0 - share_at_step(step)).clamp(LOADS[0], LOADS[1]);
        let exponent = solve_tail_exponent(load);
        let of_size = |step: i32| {
            let z = 3.0 * f64::from(step) / f64::from(SIZE_STEPS);
            let decay = exponent / (PACKET_BITS * (SIZE_DEVIATION * z).exp());
            compute_log_likelihood(seen, load, decay * capacity_bps) - 0.5 * z * z
        };
        (-SIZE_STEPS..=SIZE_STEPS).map(of_size).fold(f64::MIN, add_logs)
    })
}

/// Returns the likelihood of what the probes saw, if queues longer than t have the probability
/// `load * exp(-decay * t)`.
fn compute_log_likelihood(seen: &EmptyQueueShare, load: f64, decay: f64) -> f64 {
    let hidden = decay * (seen.credit_s + seen.noise_s);
    let (waited, waits) = (load * (-hidden).exp(), seen.waiting_ratio);
    let of_waits =
        if waits > 0.0 { load.ln() - hidden + decay.ln() - decay * seen.queue_s } else { 0.0 };
    seen.independent_probes * ((1.0 - waits) * (-waited).ln_1p() + waits * of_waits)
}

/// Solves `load * (exp(u) - 1) = u` for u > 0.
fn solve_tail_exponent(load: f64) -> f64 {
    let (mut low, mut high) = (1e-6, 20.0);
    for _ in 0..BISECTIONS {
        let middle = f64::midpoint(low, high);
        if load * (f64::exp(middle) - 1.0) < middle { low = middle } else { high = middle }
    }
    low
}

#[cfg(test)]
mod tests {
    use super::*;

    fn see(waiting_ratio: f64, queue_s: f64) -> EmptyQueueShare {
        EmptyQueueShare {
            waiting_ratio,
            independent_probes: 200.0,
            queue_s,
            // Two full-size packets at 12 Mbit/s.
            credit_s: 2e-3,
            noise_s: 1e-5,
            ..EmptyQueueShare::default()
        }
    }

    fn find_mean_share(seen: &EmptyQueueShare) -> f64 {
        let logs = compute_share_logs(seen, 12e6);
        let top = logs.iter().copied().fold(f64::MIN, f64::max);
        let weights = logs.map(|log| (log - top).exp());
        let sum: f64 = weights.iter().enumerate().map(|(at, w)| share_at_step(at) * w).sum();
        sum / weights.iter().sum::<f64>()
    }

    #[test]
    fn the_load_behind_a_bucket_follows_from_the_probes_that_waited() {
        // M/D/1 at a load of 0.7: the exponent is 0.76.
        let waited = 0.7 * f64::exp(-0.76 * 2.0);
        assert!((find_mean_share(&see(waited, 1e-3 / 0.76)) - 0.3).abs() < 0.08);
        assert!(find_mean_share(&see(0.0, 0.0)) > 0.6);
    }
}
