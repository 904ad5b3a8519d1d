//! Series of interval rates with known truth: ramps, correlated noise, dips, token buckets.

use longhaul_model::splitmix::SplitMix64;

/// A run that ramps up and then stays at one level.
pub struct RateCase {
    pub rates_bps: Vec<f64>,
    pub truth_bps: f64,
    pub ramp_samples: usize,
}

impl RateCase {
    /// Draws 80 to 160 samples, a doubling ramp of 0 to 15, noise of 1 to 12 %, a dip in every
    /// third case. The truth is the mean of the process, dip included.
    pub fn draw(rng: &mut SplitMix64, correlation: f64) -> RateCase {
        let count = 80 + rng.below(81);
        let ramp_samples = rng.below(16);
        let level = rng.between(1e7, 9e9);
        let scatter = rng.between(0.01, 0.12);
        let mut rates_bps: Vec<f64> = draw_noise(rng, count, correlation)
            .into_iter()
            .map(|deviation| (level * (1.0 + scatter * deviation)).max(0.0))
            .collect();
        for (i, rate) in rates_bps.iter_mut().take(ramp_samples).enumerate() {
            *rate *= 0.75 / 2f64.powi((ramp_samples - 1 - i).min(40) as i32);
        }
        let mut truth_bps = level;
        if rng.below(3) == 0 {
            let at = ramp_samples + 10 + rng.below(count - ramp_samples - 20);
            let depth = rng.between(0.3, 0.9);
            rates_bps[at] *= 1.0 - depth;
            truth_bps -= level * depth / (count - ramp_samples) as f64;
        }
        RateCase { rates_bps, truth_bps, ramp_samples }
    }
}

/// First-order autoregressive noise of unit variance.
pub(super) fn draw_noise(rng: &mut SplitMix64, count: usize, correlation: f64) -> Vec<f64> {
    let fresh = (1.0 - correlation * correlation).sqrt();
    let mut value = rng.normal();
    let steps = (0..count).map(|_| {
        value = correlation * value + fresh * rng.normal();
        value
    });
    steps.collect()
}

/// A run through a token bucket.
pub struct BucketCase {
    pub rates_bps: Vec<f64>,
    pub peak_bps: f64,
    pub sustained_bps: f64,
    pub burst_bytes: f64,
}

impl BucketCase {
    /// Draws a knee at 0.6 to 5 s of 10 s, a peak of 1.3 to 3 times the sustained rate, noise of 1
    /// to 6 %.
    pub fn draw(rng: &mut SplitMix64) -> BucketCase {
        let sustained_bps = rng.between(1e7, 1e9);
        let peak_bps = sustained_bps * rng.between(1.3, 3.0);
        let knee_s = rng.between(0.6, 5.0);
        let scatter = rng.between(0.01, 0.06);
        let burst_bytes = (peak_bps - sustained_bps) * knee_s / 8.0;
        let rates = draw_noise(rng, 100, 0.0).into_iter().zip(0u32..).map(|(deviation, i)| {
            // The sample in which the bucket runs dry is part peak, part sustained.
            let part = (knee_s / 0.1 - f64::from(i)).clamp(0.0, 1.0);
            let rate = peak_bps * part + sustained_bps * (1.0 - part);
            rate * (1.0 + scatter * deviation)
        });
        BucketCase { rates_bps: rates.collect(), peak_bps, sustained_bps, burst_bytes }
    }
}
