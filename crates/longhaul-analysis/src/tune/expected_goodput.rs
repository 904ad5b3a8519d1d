//! Estimates the goodput of each setting, by a curve over streams if one fits.
//!
//! Fits one curve of goodput over streams to all probes of a full path.
//!
//! `n` streams get `S · n / (n + k)`: in competition with `k` other flows by their number, and
//! alone with `k` = ⅓ by Altman's utilisation `1 - 1/(1 + 3n)`. Its inverse is a line in `1/n`,
//! fitted by least squares with each probe weighted by its precision. Each probe thus gains from
//! its neighbours, and the noise of a single one decides nothing.
//!
//! Source: Altman, Barman, Tuffin, Vojnovic 2006. Units: bit/s. Error: that of the fit; if a probe
//! is more than three standard errors off, there is no curve.
//! Wrong when: the streams are limited by something else than the path; such probes are left out.

use longhaul_model::report::v1::analysis::Limiter;
use longhaul_model::report::v1::scan::TransferSetting;

/// The maximum distance of a probe, in standard errors, that does not refute the curve.
const MAX_ERRORS: f64 = 3.0;
/// The minimum number of points: any two points fit a curve.
const MIN_POINTS: usize = 3;

/// The result of one setting.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SettingMeasurement<'s> {
    pub setting: &'s TransferSetting,
    pub goodput_bps: f64,
    /// Standard error, as a ratio.
    pub error_ratio: f64,
    pub limiter: Limiter,
}

/// `1 / goodput = inverse + slope / streams`.
#[derive(Debug, Clone, Copy, PartialEq)]
struct InverseLine {
    inverse: f64,
    slope: f64,
}

impl InverseLine {
    fn at(&self, streams: u32) -> f64 {
        1.0 / (self.inverse + self.slope / f64::from(streams.max(1)))
    }
}

/// Returns the expected rate of each setting, by the curve through all that differ from it only in
/// streams (and in windows, which do not limit those that filled the path); the measured rate if
/// the path did not limit it, or there is no curve.
pub fn estimate_expected_bps(all: &[SettingMeasurement]) -> Vec<f64> {
    all.iter().map(|of| smooth_goodput_bps(all, of).unwrap_or(of.goodput_bps)).collect()
}

fn smooth_goodput_bps(all: &[SettingMeasurement], of: &SettingMeasurement) -> Option<f64> {
    let full = |m: &&SettingMeasurement| {
        m.limiter == Limiter::PathCapacity && differs_only_in_streams(m.setting, of.setting)
    };
    let points: Vec<&SettingMeasurement> = all.iter().filter(full).collect();
    if points.len() < MIN_POINTS || of.limiter != Limiter::PathCapacity {
        return None;
    }
    let line = fit_line(&points)?;
    let holds = points.iter().all(|m| {
        let off = line.at(m.setting.streams) / m.goodput_bps - 1.0;
        off.abs() <= MAX_ERRORS * m.error_ratio
    });
    holds.then(|| line.at(of.setting.streams))
}

fn differs_only_in_streams(a: &TransferSetting, b: &TransferSetting) -> bool {
    (&a.congestion_control, a.pacing_bps) == (&b.congestion_control, b.pacing_bps)
}

fn fit_line(points: &[&SettingMeasurement]) -> Option<InverseLine> {
    // Weight, 1/n and 1/goodput of each.
    let rows = points.iter().map(|t| {
        let bps = t.goodput_bps.max(1.0);
        let weight = (bps / t.error_ratio).powi(2);
        (weight, 1.0 / f64::from(t.setting.streams), 1.0 / bps)
    });
    let rows: Vec<(f64, f64, f64)> = rows.collect();
    let sum = |of: &dyn Fn(&(f64, f64, f64)) -> f64| rows.iter().map(of).sum::<f64>();
    let weights = sum(&|r| r.0);
    let (x, y) = (sum(&|r| r.0 * r.1) / weights, sum(&|r| r.0 * r.2) / weights);
    let spread = sum(&|r| r.0 * (r.1 - x).powi(2));
    let together = sum(&|r| r.0 * (r.1 - x) * (r.2 - y));
    // Apart from noise, more streams never get a smaller share of a path.
    let slope = (spread > 0.0).then(|| (together / spread).max(0.0))?;
    let inverse = y - slope * x;
    (inverse > 0.0).then_some(InverseLine { inverse, slope })
}
