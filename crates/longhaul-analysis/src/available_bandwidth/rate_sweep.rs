//! The rate above which the delay grows within a train, and how steeply it grows.
//!
//! Fluid model of a queue: the strain is 0 below the available bandwidth A and (R − A)/C above it.
//! A train of length T meets its own A, normal around the mean with variance βC/T (β: bits of a
//! typical burst), so the expected strain is a hinge that is rounded at the knee, and its scatter
//! grows beyond it. The posterior of (A/C, C, β) is summed over a grid; all intervals are its own.
//!
//! Source: TOPP (Melander 2000), pathload (Jain and Dovrolis 2002), Liu, Ravaine and Loguinov 2005
//! for the rounded knee. Units: bit/s of IP. Error: the posterior's.
//! Wrong when: several hops are loaded (the first knee is still A), or traffic is not FIFO.

use crate::stats::student_distribution::upper_tail;

/// The number of steps of A/C from 0 to 1.
pub const SHARE_STEPS: usize = 91;
/// Ratios of C to the rate of the bursts' fastest stretches.
pub const CAPACITY_RATIOS: [f64; 15] =
    [0.92, 0.95, 0.97, 0.985, 1.0, 1.015, 1.03, 1.05, 1.08, 1.12, 1.18, 1.26, 1.4, 1.6, 1.9];
/// Sizes in bits of a typical burst of cross traffic, logarithmic.
const BURST_SIZES_BITS: [f64; 8] = [2e3, 6e3, 15e3, 40e3, 100e3, 240e3, 600e3, 1.6e6];
/// The parameters of the rate sweep.
struct RateSweepTuning;

impl RateSweepTuning {
    /// The uncertainty of the fastest stretches: they are rarely too fast, more often too slow.
    const PRIOR_BELOW: f64 = 0.02;
    const PRIOR_ABOVE: f64 = 0.015;
    /// Deviations beyond this many standard errors count linearly.
    const HUBER_SIGMAS: f64 = 3.0;
    /// The minimum error of the model.
    const MIN_MODEL_ERROR: f64 = 0.004;
    const MODEL_ERROR_RATIO: f64 = 0.015;
    /// About a third of a full-size packet arrives too soon or too late.
    const GRAIN_BITS: f64 = 4e3;
    /// The maximum standard deviation of A over a train, as a share of C.
    const MAX_SWING_RATIO: f64 = 0.45;
    const HINGE_REACH: f64 = 6.0;
    const HINGE_STEPS: usize = 120;
    /// The number of rates of the initial queue: `2^(i/2)` from 1/4.
    const KAPPAS: usize = 17;
    const MIN_KAPPA: f64 = 0.25;
    const INTEGRAL_STEPS: usize = 120;
}

/// The strain of one train, as used by the fit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TrainStrain {
    pub rate_bps: f64,
    pub strain: f64,
    pub seconds: f64,
    /// The standard error of the strain due to timestamps.
    pub noise: f64,
}

/// The posterior over A/C and C.
#[derive(Debug, Clone, PartialEq)]
pub struct SweepPosterior {
    /// The capacity at ratio 1.
    pub base_bps: f64,
    /// `[ratio][share]`; the sum is 1.
    pub weights: Vec<[f64; SHARE_STEPS]>,
    /// The size of a typical burst in bits.
    pub burst_bits: f64,
}

/// Prior knowledge of C and of bursts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SweepPrior {
    pub base_bps: f64,
    /// The relative error of `base_bps` from the times alone.
    pub error_ratio: f64,
    /// The ratio by which `base_bps` may be too low if every stretch met cross traffic.
    pub hidden_ratio: f64,
    /// The burst size seen by the idle probes.
    pub burst_bits: Option<f64>,
}

pub fn compute_posterior(data: &[TrainStrain], prior: SweepPrior) -> SweepPosterior {
    let table = StrainTable::table();
    let mut logs = vec![[f64::MIN; SHARE_STEPS]; CAPACITY_RATIOS.len()];
    let mut by_burst = [f64::MIN; BURST_SIZES_BITS.len()];
    for (ratio, row) in CAPACITY_RATIOS.iter().zip(&mut logs) {
        let capacity = ratio * prior.base_bps;
        let known = compute_log_prior(*ratio, prior);
        for (i, cell) in row.iter_mut().enumerate() {
            let available = capacity * share_at_step(i);
            for (burst, sum) in BURST_SIZES_BITS.iter().zip(&mut by_burst) {
                let log = known
                    + compute_burst_log_prior(*burst, prior.burst_bits)
                    + compute_log_likelihood(data, table, available, capacity, *burst);
                *cell = add_logs(*cell, log);
                *sum = add_logs(*sum, log);
            }
        }
    }
    SweepPosterior {
        base_bps: prior.base_bps,
        weights: normalize_weights(&logs),
        burst_bits: compute_typical_burst(&by_burst),
    }
}

/// Returns the share at a step of the grid.
pub fn share_at_step(step: usize) -> f64 {
    step as f64 / (SHARE_STEPS - 1) as f64
}

fn compute_log_prior(ratio: f64, prior: SweepPrior) -> f64 {
    let width = if ratio < 1.0 {
        RateSweepTuning::PRIOR_BELOW
    } else {
        RateSweepTuning::PRIOR_ABOVE.hypot(prior.hidden_ratio)
    };
    let z = ratio.ln() / width.hypot(prior.error_ratio);
    // The grid is coarser at its upper end; each cell is weighted by its width.
    let at = CAPACITY_RATIOS.iter().position(|r| *r >= ratio).unwrap_or(0);
    let low = CAPACITY_RATIOS[at.saturating_sub(1)].ln();
    let high = CAPACITY_RATIOS[(at + 1).min(CAPACITY_RATIOS.len() - 1)].ln();
    -0.5 * z * z + ((high - low) / 2.0).max(1e-3).ln()
}

fn compute_burst_log_prior(burst: f64, seen: Option<f64>) -> f64 {
    seen.map_or(0.0, |bits| -0.5 * (burst / bits).ln().powi(2))
}

fn compute_log_likelihood(
    data: &[TrainStrain],
    table: &StrainTable,
    available: f64,
    capacity: f64,
    burst: f64,
) -> f64 {
    let one = |d: &TrainStrain| {
        let swing =
            (burst * capacity / d.seconds).sqrt().min(RateSweepTuning::MAX_SWING_RATIO * capacity);
        let unit = swing / capacity;
        let kappa = 2.0 * available / swing;
        let (mean, variance) = table.at((d.rate_bps - available) / swing, kappa);
        // A few packets are not a Brownian motion.
        let grain = RateSweepTuning::GRAIN_BITS / (capacity * d.seconds);
        let floor = RateSweepTuning::MIN_MODEL_ERROR
            + RateSweepTuning::MODEL_ERROR_RATIO * mean * unit
            + grain;
        let variance = variance * unit * unit + d.noise * d.noise + floor * floor;
        let z = (d.strain - mean * unit).abs() / variance.sqrt();
        let cost = if z <= RateSweepTuning::HUBER_SIGMAS {
            0.5 * z * z
        } else {
            RateSweepTuning::HUBER_SIGMAS * (z - 0.5 * RateSweepTuning::HUBER_SIGMAS)
        };
        -cost - 0.5 * variance.ln()
    };
    data.iter().map(one).sum()
}

/// Adds two numbers that are given by their logarithms.
pub fn add_logs(a: f64, b: f64) -> f64 {
    let (high, low) = if a > b { (a, b) } else { (b, a) };
    if low <= f64::MIN {
        return high;
    }
    high + (low - high).exp().ln_1p()
}

fn normalize_weights(logs: &[[f64; SHARE_STEPS]]) -> Vec<[f64; SHARE_STEPS]> {
    let top = logs.iter().flatten().copied().fold(f64::MIN, f64::max);
    let mut weights: Vec<[f64; SHARE_STEPS]> =
        logs.iter().map(|row| row.map(|log| (log - top).exp())).collect();
    let sum: f64 = weights.iter().flatten().sum();
    for weight in weights.iter_mut().flatten() {
        *weight /= sum;
    }
    weights
}

fn compute_typical_burst(by_burst: &[f64; BURST_SIZES_BITS.len()]) -> f64 {
    let top = by_burst.iter().copied().fold(f64::MIN, f64::max);
    let weights = by_burst.map(|log| (log - top).exp());
    let sum: f64 = weights.iter().sum();
    let logs = BURST_SIZES_BITS.iter().zip(weights).map(|(bits, w)| bits.ln() * w / sum);
    logs.sum::<f64>().exp()
}

/// A table of the mean growth of a reflected Brownian queue per unit of time, by its drift `z` and
/// the rate `kappa` of the initial exponential queue. Unit: the queue's spread over that time.
struct StrainTable {
    rows: Vec<Vec<f64>>,
}

impl StrainTable {
    fn table() -> &'static StrainTable {
        static TABLE: std::sync::OnceLock<StrainTable> = std::sync::OnceLock::new();
        TABLE.get_or_init(StrainTable::new)
    }

    fn new() -> StrainTable {
        let row = |k: usize| {
            let kappa = RateSweepTuning::MIN_KAPPA * 2f64.powf(k as f64 / 2.0);
            (0..=RateSweepTuning::HINGE_STEPS)
                .map(|i| {
                    let z = RateSweepTuning::HINGE_REACH
                        * (2.0 * i as f64 / RateSweepTuning::HINGE_STEPS as f64 - 1.0);
                    z + compute_reflection(z, kappa)
                })
                .collect()
        };
        StrainTable { rows: (0..RateSweepTuning::KAPPAS).map(row).collect() }
    }

    /// Returns the mean and the variance.
    fn at(&self, z: f64, kappa: f64) -> (f64, f64) {
        let idle = (1.5 * (0.5 - z).max(0.0)).powi(2);
        let first = if z < 0.0 { (1.0 / (kappa * kappa)).min(1.0) } else { 0.0 };
        let variance = 1.0 / (1.0 + idle) + first;
        if z >= RateSweepTuning::HINGE_REACH {
            return (z, 1.0);
        }
        if z <= -RateSweepTuning::HINGE_REACH {
            // Both ends of the train meet a queue in equilibrium.
            return ((-0.5 / z - 1.0 / kappa).max(0.0), variance);
        }
        let row = (2.0 * (kappa / RateSweepTuning::MIN_KAPPA).log2())
            .clamp(0.0, (RateSweepTuning::KAPPAS - 1) as f64);
        let (below, part) = (row as usize, row.fract());
        let above = (below + 1).min(RateSweepTuning::KAPPAS - 1);
        let at = |row: usize| {
            let place = (z / RateSweepTuning::HINGE_REACH + 1.0)
                * 0.5
                * RateSweepTuning::HINGE_STEPS as f64;
            let cell = (place as usize).min(RateSweepTuning::HINGE_STEPS - 1);
            let (a, b) = (self.rows[row][cell], self.rows[row][cell + 1]);
            a + (b - a) * (place - cell as f64)
        };
        let low = at(below);
        (low + (at(above) - low) * part, variance)
    }
}

/// Returns the growth added by reflection at the empty queue: the mean of the minimum below zero,
/// reduced by the initial queue. Law of the running maximum: Borodin and Salminen 2002, 2.1.1.
fn compute_reflection(z: f64, kappa: f64) -> f64 {
    let reach = (4.0 - z).max(4.0);
    let step = reach / RateSweepTuning::INTEGRAL_STEPS as f64;
    let one = |i: usize| {
        let x = (i as f64 + 0.5) * step;
        let lower = upper_tail(z + x);
        let mirrored = compute_mirrored_tail(z, x);
        (lower + mirrored) * (1.0 - (-kappa * x).exp()) * step
    };
    (0..RateSweepTuning::INTEGRAL_STEPS).map(one).sum()
}

/// Returns `exp(-2zx) * P(N < z - x)` without overflow.
fn compute_mirrored_tail(z: f64, x: f64) -> f64 {
    let below = z - x;
    if below > -5.0 {
        return (-2.0 * z * x).exp() * upper_tail(-below);
    }
    // The first term of the tail, so that both exponents are added before taking the exponential.
    let tail = -0.5 * below * below - 2.0 * z * x;
    tail.exp() / (-below * (2.0 * std::f64::consts::PI).sqrt())
}

/// A value with its standard deviation and 95 % interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BoundedValue {
    pub value: f64,
    pub deviation: f64,
    pub interval: [f64; 2],
}

impl SweepPosterior {
    /// Applies further evidence of A/C, given its mean and standard error.
    pub fn with_share(&self, mean: f64, error: f64) -> SweepPosterior {
        self.with_share_logs(&std::array::from_fn(|step| {
            let z = (share_at_step(step) - mean) / error.max(0.5 / SHARE_STEPS as f64);
            -0.5 * z * z
        }))
    }

    /// Applies further evidence of A/C, given the logarithm of the likelihood of each step.
    pub fn with_share_logs(&self, logs: &[f64; SHARE_STEPS]) -> SweepPosterior {
        let mut weights = self.weights.clone();
        let top = logs.iter().copied().fold(f64::MIN, f64::max);
        for row in &mut weights {
            for (weight, log) in row.iter_mut().zip(logs) {
                *weight *= (log - top).exp();
            }
        }
        let sum: f64 = weights.iter().flatten().sum();
        if sum > 0.0 {
            for weight in weights.iter_mut().flatten() {
                *weight /= sum;
            }
        } else {
            weights.clone_from(&self.weights);
        }
        SweepPosterior { weights, ..self.clone() }
    }

    pub fn available(&self) -> BoundedValue {
        self.level(|ratio, share| ratio * share)
    }

    pub fn capacity(&self) -> BoundedValue {
        self.level(|ratio, _| ratio)
    }

    /// Returns the mean and 95 % interval of a function of the grid cell.
    fn level(&self, of: fn(f64, f64) -> f64) -> BoundedValue {
        let mut cells: Vec<(f64, f64)> = Vec::with_capacity(CAPACITY_RATIOS.len() * SHARE_STEPS);
        for (ratio, row) in CAPACITY_RATIOS.iter().zip(&self.weights) {
            let cell = |(i, weight): (usize, &f64)| {
                (self.base_bps * of(*ratio, share_at_step(i)), *weight)
            };
            cells.extend(row.iter().enumerate().map(cell).filter(|c| c.1 > 1e-9));
        }
        cells.sort_by(|a, b| a.0.total_cmp(&b.0));
        let sum: f64 = cells.iter().map(|c| c.1).sum();
        let mean = cells.iter().map(|c| c.0 * c.1).sum::<f64>() / sum;
        let square = cells.iter().map(|c| (c.0 - mean).powi(2) * c.1).sum::<f64>() / sum;
        let at = |part: f64| {
            let mut run = 0.0;
            let found = cells.iter().find(|c| {
                run += c.1;
                run >= part * sum
            });
            found.map_or(mean, |c| c.0)
        };
        BoundedValue { value: mean, deviation: square.sqrt(), interval: [at(0.025), at(0.975)] }
    }
}
