//! Explains why a measured cell is above or below its prediction.
//!
//! Each limiter's formula is solved for the parameter that the model did not know.
//!
//! Source: the bounds of [`super`]; Spearman 1904 for the agreement of the ranks. Units:
//! ratios of the prediction. Error: differences within [`AGREES_RATIO`] are not explained, since
//! the model is no more accurate. Wrong when: the path changed during the scan.

use crate::stats::median;
use longhaul_model::report::v1::analysis::Limiter;
use longhaul_model::report::v1::predict::{
    MeasuredSetting, PredictionAgreement, PredictionAnalysis, PredictionCell,
    PredictionObservation, PredictionPlan,
};
use longhaul_model::units::{Bytes, Rate};

/// Smaller differences count as agreement.
pub const AGREES_RATIO: f64 = 0.15;
/// Goodputs that differ by less share a rank: a second measurement may reverse them.
const TIE_RATIO: f64 = 0.03;
/// The minimum number of cells for a rank correlation.
const MIN_RANKED_CELLS: usize = 3;

/// Fills in the measured values, their meaning, and the overall agreement.
pub fn compare_with_measured(
    analysis: &mut PredictionAnalysis,
    plan: &PredictionPlan,
    observation: &PredictionObservation,
) {
    let mut pairs = Vec::new();
    for cell in &mut analysis.cells {
        let same: Vec<&MeasuredSetting> =
            observation.measured.iter().filter(|m| m.setting == cell.setting).collect();
        let Some(bps) = median(same.iter().map(|m| m.goodput_bps as f64)) else {
            continue;
        };
        let distance = |m: &&&MeasuredSetting| (m.goodput_bps as f64 - bps).abs();
        let nearest = same.iter().min_by(|a, b| distance(a).total_cmp(&distance(b)));
        cell.measured_bps = Some(bps as u64);
        let ratio = (bps - cell.goodput_bps as f64) / cell.goodput_bps as f64;
        cell.disagreement_ratio = ratio.is_finite().then_some(ratio);
        cell.meaning = nearest.and_then(|m| explain_difference(plan, cell, m.limited_by));
        pairs.push((bps, cell.goodput_bps as f64));
    }
    analysis.agreement = compute_agreement(&pairs);
}

/// Returns the agreement of (measured, predicted) pairs; `None` without any.
pub fn compute_agreement(pairs: &[(f64, f64)]) -> Option<PredictionAgreement> {
    let errors = pairs.iter().map(|(measured, predicted)| (measured - predicted).abs() / measured);
    Some(PredictionAgreement {
        cells: pairs.len() as u32,
        rank_correlation: compute_rank_correlation(pairs),
        median_error_ratio: median(errors)?,
    })
}

/// Returns Spearman's rank correlation; ties (within 3 %) share the mean of their ranks.
pub fn compute_rank_correlation(pairs: &[(f64, f64)]) -> Option<f64> {
    if pairs.len() < MIN_RANKED_CELLS {
        return None;
    }
    let first = rank_values(pairs.iter().map(|p| p.0));
    let second = rank_values(pairs.iter().map(|p| p.1));
    let mean = f64::midpoint(pairs.len() as f64, 1.0);
    let product =
        |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(x, y)| (x - mean) * (y - mean)).sum::<f64>();
    let spread = product(&first, &first) * product(&second, &second);
    let ratio = product(&first, &second) / spread.sqrt();
    ratio.is_finite().then_some(ratio)
}

/// Collects ties from the top, where all full paths are alike.
fn rank_values(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let values: Vec<f64> = values.collect();
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|a, b| values[*b].total_cmp(&values[*a]));
    let mut ranks = vec![0.0; values.len()];
    let mut rest = order.as_slice();
    while let Some(top) = rest.first().map(|i| values[*i]) {
        let tied = rest.partition_point(|i| values[*i] >= top * (1.0 - TIE_RATIO));
        let (tie, after) = rest.split_at(tied.max(1));
        let last = after.len() + tie.len();
        for index in tie {
            ranks[*index] = (after.len() + 1 + last) as f64 / 2.0;
        }
        rest = after;
    }
    ranks
}

fn explain_difference(
    plan: &PredictionPlan,
    cell: &PredictionCell,
    measured: Limiter,
) -> Option<String> {
    let ratio = cell.disagreement_ratio?;
    if ratio.abs() <= AGREES_RATIO {
        return None;
    }
    let bps = cell.measured_bps?;
    let said = if ratio < 0.0 {
        explain_below(plan, cell, bps, measured)
    } else {
        explain_above(plan, cell, bps)
    };
    Some(said)
}

/// Returns the window per stream that carries this rate.
fn find_needed_window(plan: &PredictionPlan, cell: &PredictionCell, bps: u64) -> Bytes {
    let all = bps as f64 / 8.0 * plan.path.rtt_us as f64 / 1e6;
    Bytes((all / f64::from(cell.setting.streams)) as u64)
}

/// Returns the loss in percent at which Mathis gives this rate to each stream.
fn format_needed_loss(plan: &PredictionPlan, cell: &PredictionCell, bps: u64) -> String {
    let each = bps as f64 / f64::from(cell.setting.streams);
    let segments = each * plan.path.rtt_us as f64 / 1e6 / (8.0 * f64::from(plan.path.mss_bytes));
    let ratio = (1.22 / segments.max(1.22)).powi(2);
    // Show two significant digits.
    let percent = 100.0 * ratio;
    let decimals = (1.0 - percent.log10().floor()).clamp(0.0, 12.0) as usize;
    format!("{percent:.decimals$} %")
}

fn explain_below(
    plan: &PredictionPlan,
    cell: &PredictionCell,
    bps: u64,
    measured: Limiter,
) -> String {
    let rate = Rate::bits_per_second(bps);
    match measured {
        Limiter::ReceiveWindow | Limiter::SendBuffer => format!(
            "clipped windows: the streams had {} each, less than the model assumed",
            find_needed_window(plan, cell, bps)
        ),
        Limiter::Loss => format!(
            "loss that the model did not include: about {} of the segments would explain it",
            format_needed_loss(plan, cell, bps)
        ),
        Limiter::PathCapacity => format!(
            "the path was full at {rate}: its capacity is lower than given, it carries cross traffic, or its \
             queue is shorter than given"
        ),
        Limiter::CpuSender | Limiter::CpuReceiver => {
            let place = if measured == Limiter::CpuSender { "sender" } else { "receiver" };
            format!(
                "the {place}'s CPU limits at {rate}; the model had no CPU limit, or a higher one"
            )
        }
        Limiter::Shaper | Limiter::Policer => {
            format!("a token bucket ({measured}) limits at {rate}; the model has none")
        }
        Limiter::Application | Limiter::Pacing => {
            format!("the program or its pacing limited at {rate}, not the path")
        }
        Limiter::Ramp => String::from("the run ended before the rate was steady; measure longer"),
        Limiter::Unknown => format!("the limit at {rate} was not found"),
    }
}

fn explain_above(plan: &PredictionPlan, cell: &PredictionCell, bps: u64) -> String {
    match cell.limited_by {
        Limiter::ReceiveWindow | Limiter::SendBuffer => format!(
            "the windows were larger than given ({} each would allow it), or the RTT shorter",
            find_needed_window(plan, cell, bps)
        ),
        Limiter::Loss => format!(
            "the loss was lower than given: {} would allow it",
            format_needed_loss(plan, cell, bps)
        ),
        Limiter::PathCapacity => {
            String::from("the capacity or the queue of the path is larger than given")
        }
        Limiter::Ramp => String::from("the windows grew faster than in the model"),
        _ => String::from("the hosts' CPUs are faster than given"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_agree_whatever_the_scale_and_ties_share_theirs() {
        let rising: Vec<(f64, f64)> = (1..9).map(|i| (f64::from(i), f64::from(i * i))).collect();
        assert!((compute_rank_correlation(&rising).unwrap() - 1.0).abs() < 1e-12);
        let falling: Vec<(f64, f64)> = rising.iter().map(|(a, b)| (*a, -b)).collect();
        assert!((compute_rank_correlation(&falling).unwrap() + 1.0).abs() < 1e-12);
        // Worked by hand: ranks 1, 2.5, 2.5, 4 against 1, 2, 3, 4.
        let tied = [(1.0, 1.0), (2.0, 2.0), (2.0, 3.0), (3.0, 4.0)];
        assert!((compute_rank_correlation(&tied).unwrap() - 0.948_683).abs() < 1e-6);
        // All cells of a full path are equal, although one was slightly above the others.
        let full = [(50.0, 50.0), (96.0, 95.9), (96.1, 95.8), (96.2, 95.7), (95.9, 96.0)];
        assert!((compute_rank_correlation(&full).unwrap() - 1.0).abs() < 1e-12);
        assert_eq!(compute_rank_correlation(&[(1.0, 1.0); 5]), None, "all alike");
        assert_eq!(compute_rank_correlation(&rising[..2]), None, "too few");
    }

    #[test]
    fn the_median_error_is_of_what_was_measured() {
        let found = compute_agreement(&[(100.0, 90.0), (100.0, 80.0), (200.0, 200.0)]).unwrap();
        assert!((found.median_error_ratio - 0.1).abs() < 1e-12);
        assert!(compute_agreement(&[]).is_none());
    }
}
