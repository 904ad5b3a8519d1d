//! The rate that the top tenth of a path's measurements exceeds.
//!
//! Its interval consists of two of the measurements, by the binomial distribution of the number
//! below the true quantile: no distribution of the measurements is assumed.
//!
//! Source: SLAC's bulk throughput pages (2000 on) for the tenth; David and Nagaraja, Order
//! Statistics, section 7.1, for the interval. Units: bit/s. Error: the interval; it holds the truth
//! in 95 of 100 cases or more (`accuracy`).
//! Wrong when: most cells of the grid cannot reach the path's rate; then a tenth is too many.

use super::scan_cells::cell_goodput;
use crate::stats::quantile::{quantile, sort_finite};
use crate::stats::sign_test::cumulative_binomial;
use longhaul_model::report::v1::scan::{ScanCell, TopTenth};

/// Share of the measurements below it.
const SHARE: f64 = 0.9;
/// The minimum number of measurements for an upper tenth.
const MIN_CELLS: usize = 10;
const COVERAGE: f64 = 0.95;

/// Returns the top tenth of one direction's cells without sentinels; `None` with fewer than ten.
pub fn find_top_tenth(cells: &[&ScanCell], forward: bool) -> Option<TopTenth> {
    let chosen = cells.iter().filter(|c| c.forward == forward && !c.sentinel);
    compute_top_tenth(&sort_finite(chosen.map(|c| cell_goodput(c))))
}

/// Returns the top tenth of ascending rates in bit/s.
pub fn compute_top_tenth(ascending: &[f64]) -> Option<TopTenth> {
    if ascending.len() < MIN_CELLS {
        return None;
    }
    let interval = find_interval_ranks(ascending.len())
        .map(|(low, high)| [ascending[low - 1] as u64, ascending[high - 1] as u64]);
    Some(TopTenth {
        goodput_bps: quantile(ascending, SHARE)?.round() as u64,
        goodput_interval_bps: interval,
        cells: u32::try_from(ascending.len()).unwrap_or(u32::MAX),
    })
}

/// Returns the ranks (from 1) of the two measurements that bound the quantile; `None` if even all
/// measurements do not reach the coverage.
fn find_interval_ranks(count: usize) -> Option<(usize, usize)> {
    let below = cumulative_binomial(count, SHARE);
    let tail = (1.0 - COVERAGE) / 2.0;
    // Rank h bounds it from above if fewer than h measurements are below the quantile.
    let high = (1..=count).find(|h| below[h - 1] >= 1.0 - tail).unwrap_or(count);
    let low = (1..high).rev().find(|l| below[high - 1] - below[l - 1] >= COVERAGE)?;
    Some((low, high))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_agree_with_the_printed_binomial_table() {
        // Binomial(50, 0.9): P(B <= 40) = 0.0245, P(B <= 48) = 0.9662, P(B <= 49) = 0.9948.
        assert_eq!(find_interval_ranks(50), Some((41, 50)));
        assert_eq!(find_interval_ranks(20), None, "0.9^20 of the truth lies above all of them");
        let below = cumulative_binomial(50, SHARE);
        assert!((below[40] - 0.0245).abs() < 5e-4 && (below[48] - 0.9662).abs() < 5e-4);
    }

    #[test]
    fn many_measurements_have_ranks_as_well() {
        for count in [1_000, 10_000, 50_000] {
            let (low, high) = find_interval_ranks(count).unwrap();
            let centre = count as f64 * SHARE;
            assert!((low as f64) < centre && centre < high as f64 && high <= count);
        }
    }
}
