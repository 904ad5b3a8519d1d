//! Splits a series into levels.
//!
//! Finds candidates by recursive rank-sum splits of the whole series and of short windows, and
//! moves each to the position with the smallest sum of absolute errors. Then merges the weakest,
//! until each remaining change exceeds the autocorrelated noise, or is a run of values where noise
//! seldom goes.
//!
//! Source: rank sums after Mann and Whitney 1947; splitting weakly and merging strictly after
//! Hunter (Fleming et al. 2023); runs: our own (docs/decisions/0095); the effective number of
//! correlated values as in `stats::interval`.
//! Units: those of the scale. Error: a position is off by 0 in the median and 2 samples in 9 of 10.
//! Wrong when: a level lasts fewer than four samples, or the series drifts: it gets steps.

use super::{compute_max_z, compute_split_z, find_best_split};
use longhaul_analysis::stats::median;
use std::ops::Range;

/// The minimum number of values in a level.
pub const MARGIN: usize = 3;
/// The minimum z of a candidate split, and as a ratio of the maximum that a short range allows.
const WEAK_Z: f64 = 3.5;
const WEAK_OF_CAP: f64 = 0.93;
/// The length of windows that show short levels hidden in the whole series; they overlap by half.
const WINDOW: usize = 60;
/// The maximum distance that a candidate may move, and the range around it that is compared.
const REACH: usize = 6;
const LOOK: usize = 60;
/// The maximum number of values on each side used for a test.
const SIDE: usize = 200;
/// The z required of a change in a series of [`STRONG_FOR`] values, after correction for the noise.
/// Its square grows by this factor with the logarithm of the number of values, since more positions
/// give chance more tries; its minimum is the last value.
const STRONG_Z: f64 = 5.0;
const STRONG_FOR: f64 = 500.0;
const STRONG_GROWS: f64 = 4.0;
const MIN_STRONG_Z: f64 = 4.6;
/// Levels this many standard deviations apart are also judged by the values between which the noise
/// never or seldom goes.
const APART_SIGMAS: f64 = 3.5;
/// Residuals are clipped at this many median deviations for the correlation.
const CLIP_DEVIATIONS: f64 = 4.0;
const MAX_CORRELATION: f64 = 0.9;
const MAD_TO_SIGMA: f64 = 1.4826;
/// The changes of level, and the noise around the levels.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct LevelShifts {
    pub shifts: Vec<LevelShift>,
    /// The robust standard deviation of the values around their levels.
    pub sigma: f64,
    /// The correlation of neighbours around their levels, 0 to 0.9.
    pub autocorrelation: f64,
}

/// The first value of a new level.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LevelShift {
    pub at: usize,
    /// The score of the change; 1 is the threshold.
    pub score: f64,
}

impl LevelShifts {
    /// Returns the range of each level in a series of `count` values.
    pub fn ranges(&self, count: usize) -> Vec<Range<usize>> {
        let cuts: Vec<usize> = self.shifts.iter().map(|s| s.at).collect();
        split_ranges(&cuts, count)
    }
}

/// Splits values with even noise into levels; differences below `least` are ignored.
pub fn find_levels(values: &[f64], least: f64) -> LevelShifts {
    let cuts = merge_levels(values, list_candidates(values), least).cuts;
    // Without the false changes, neighbours are farther apart and positions more exact.
    let placed = place_cuts(values, &cuts, 0..values.len());
    let merge = merge_levels(values, placed, least);
    let shifts = merge.cuts.iter().zip(&merge.contrasts);
    LevelShifts {
        shifts: shifts.map(|(&at, it)| LevelShift { at, score: merge.score(it) }).collect(),
        sigma: merge.noise.sigma,
        autocorrelation: merge.noise.correlation,
    }
}

fn split_ranges(cuts: &[usize], count: usize) -> Vec<Range<usize>> {
    let starts = std::iter::once(0).chain(cuts.iter().copied());
    let ends = cuts.iter().copied().chain(std::iter::once(count));
    starts.zip(ends).map(|(a, b)| a..b).collect()
}

fn list_candidates(values: &[f64]) -> Vec<usize> {
    let all = values.len();
    let mut found = Vec::new();
    for range in std::iter::once(0..all).chain(list_windows(all)) {
        let splits = find_splits(values, range.clone());
        found.extend(place_cuts(values, &splits, range));
    }
    found.sort_unstable();
    found.dedup();
    found
}

/// Returns windows of [`WINDOW`] values, evenly spread and symmetric from both ends.
fn list_windows(all: usize) -> impl Iterator<Item = Range<usize>> {
    let room = all.saturating_sub(WINDOW);
    let steps = room.div_ceil(WINDOW / 2);
    (0..=steps).filter(move |_| steps > 0).map(move |i| {
        let start =
            if 2 * i <= steps { i * room / steps } else { room - (steps - i) * room / steps };
        start..start + WINDOW
    })
}

/// Splits the range and its parts as long as their halves differ.
fn find_splits(values: &[f64], range: Range<usize>) -> Vec<usize> {
    let (mut open, mut found) = (vec![range], Vec::new());
    while let Some(part) = open.pop() {
        let Some((left, z)) = find_best_split(&values[part.clone()], MARGIN) else {
            continue;
        };
        if z >= WEAK_Z.min(WEAK_OF_CAP * compute_max_z(left, part.len() - left)) {
            let at = part.start + left;
            found.push(at);
            open.extend([part.start..at, at..part.end]);
        }
    }
    found.sort_unstable();
    found
}

/// Moves each cut to the minimum of the absolute errors around the adjacent levels.
fn place_cuts(values: &[f64], cuts: &[usize], range: Range<usize>) -> Vec<usize> {
    let mut moved: Vec<usize> = Vec::with_capacity(cuts.len());
    for (i, &cut) in cuts.iter().enumerate() {
        let low = moved.last().copied().unwrap_or(range.start);
        let high = cuts.get(i + 1).copied().unwrap_or(range.end);
        moved.push(place_cut(values, cut, low..high));
    }
    moved
}

fn place_cut(values: &[f64], cut: usize, between: Range<usize>) -> usize {
    let low = between.start.max(cut.saturating_sub(LOOK));
    let high = between.end.min(cut + LOOK);
    let first = cut.saturating_sub(REACH).max(low + MARGIN);
    let last = (cut + REACH).min(high.saturating_sub(MARGIN));
    if first > last || cut <= low || cut >= high {
        return cut;
    }
    let mut cut = cut.clamp(first, last);
    // Levels and position depend on each other; two iterations are enough.
    for _ in 0..2 {
        let left = compute_median(&values[low..cut]);
        let right = compute_median(&values[cut..high]);
        let (mut cost, mut best) = (0.0, (0.0, first));
        for (i, value) in values.iter().enumerate().take(last).skip(first) {
            cost += (value - left).abs() - (value - right).abs();
            if cost < best.0 {
                best = (cost, i + 1);
            }
        }
        cut = best.1;
    }
    cut
}

fn compute_median(values: &[f64]) -> f64 {
    median(values.iter().copied()).unwrap_or(0.0)
}

#[derive(Debug, Clone)]
struct LevelNoise {
    /// The values minus their levels, ascending.
    residuals: Vec<f64>,
    sigma: f64,
    correlation: f64,
}

impl LevelNoise {
    /// Returns the share of residuals beyond `distance`, which is signed; never zero, since the
    /// next one may be beyond.
    fn share_beyond(&self, distance: f64) -> f64 {
        let count = self.residuals.len();
        let beyond = if distance > 0.0 {
            count - self.residuals.partition_point(|residual| *residual <= distance)
        } else {
            self.residuals.partition_point(|residual| *residual < distance)
        };
        (beyond as f64 + 0.5) / (count as f64 + 1.0)
    }
}

/// The contrast of a cut between its neighbours.
#[derive(Debug, Clone, Copy)]
struct LevelContrast {
    z: f64,
    /// The level of the shorter side minus that of the longer one.
    difference: f64,
    /// The number of values on the shorter side, and of those nearer to its own level.
    shorter: usize,
    nearer: usize,
}

struct LevelMerge<'a> {
    values: &'a [f64],
    /// The minimum difference of two levels.
    least: f64,
    cuts: Vec<usize>,
    contrasts: Vec<LevelContrast>,
    noise: LevelNoise,
}

fn merge_levels(values: &[f64], cuts: Vec<usize>, least: f64) -> LevelMerge<'_> {
    let noise = estimate_noise(values, &cuts);
    let mut merge = LevelMerge { values, least, contrasts: Vec::new(), noise, cuts };
    merge.contrasts = (0..merge.cuts.len()).map(|i| merge.contrast(i)).collect();
    while let Some(weakest) = merge.find_weakest() {
        merge.remove(weakest);
    }
    merge
}

/// Estimates the noise of the values around the levels between these cuts.
fn estimate_noise(values: &[f64], cuts: &[usize]) -> LevelNoise {
    let mut rest = Vec::with_capacity(values.len());
    for range in split_ranges(cuts, values.len()) {
        let level = compute_median(&values[range.clone()]);
        rest.extend(values[range].iter().map(|value| value - level));
    }
    let deviation = median(rest.iter().map(|r| r.abs())).unwrap_or(0.0);
    let clipped = |r: &f64| r.clamp(-CLIP_DEVIATIONS * deviation, CLIP_DEVIATIONS * deviation);
    let (mut squares, mut products, mut last) = (0.0, 0.0, 0.0);
    for value in rest.iter().map(clipped) {
        squares += value * value;
        products += value * last;
        last = value;
    }
    let correlation =
        if squares > 0.0 { (products / squares).clamp(0.0, MAX_CORRELATION) } else { 0.0 };
    rest.sort_unstable_by(f64::total_cmp);
    LevelNoise { residuals: rest, sigma: MAD_TO_SIGMA * deviation, correlation }
}

impl LevelMerge<'_> {
    fn contrast(&self, i: usize) -> LevelContrast {
        let at = self.cuts[i];
        let before = if i == 0 { 0 } else { self.cuts[i - 1] };
        let after = self.cuts.get(i + 1).copied().unwrap_or(self.values.len());
        let low = before.max(at.saturating_sub(SIDE));
        let high = after.min(at + SIDE);
        let z = compute_split_z(&self.values[low..high], at - low);
        let (mut shorter, mut longer) = self.values[low..high].split_at(at - low);
        if longer.len() < shorter.len() {
            std::mem::swap(&mut shorter, &mut longer);
        }
        if shorter.len() < MARGIN {
            return LevelContrast { z, difference: 0.0, shorter: 0, nearer: 0 };
        }
        let (level, other) = (compute_median(shorter), compute_median(longer));
        let is_nearer = |value: &&f64| (*value - level).abs() < (*value - other).abs();
        LevelContrast {
            z,
            difference: level - other,
            shorter: shorter.len(),
            nearer: shorter.iter().filter(is_nearer).count(),
        }
    }

    fn score(&self, contrast: &LevelContrast) -> f64 {
        let LevelNoise { sigma, correlation, .. } = self.noise;
        let apart = contrast.difference.abs();
        // Tolerates rounding errors in the difference of two levels.
        if apart < self.least.max(sigma) * (1.0 - 1e-9) || apart <= 0.0 {
            return 0.0;
        }
        let z = contrast.z * ((1.0 - correlation) / (1.0 + correlation)).sqrt();
        let strength =
            if apart > APART_SIGMAS * sigma { z.max(self.compute_run_z(contrast)) } else { z };
        strength / compute_required_z(self.values.len())
    }

    /// Returns the evidence, as a z, of so many values on the shorter side beyond the middle of both
    /// levels: the binomial likelihood ratio against the share of the noise that is as far away.
    fn compute_run_z(&self, contrast: &LevelContrast) -> f64 {
        let by_chance = self.noise.share_beyond(contrast.difference / 2.0);
        let found = contrast.nearer as f64 / contrast.shorter as f64;
        if found <= by_chance {
            return 0.0;
        }
        let part = |share: f64, expected: f64| {
            if share > 0.0 { share * (share / expected).ln() } else { 0.0 }
        };
        let of_each = part(found, by_chance) + part(1.0 - found, 1.0 - by_chance);
        (contrast.shorter as f64 * of_each).sqrt()
    }

    /// Returns the next cut to remove; of equal scores the one with the lower z.
    fn find_weakest(&self) -> Option<usize> {
        let scored = self.contrasts.iter().map(|it| (self.score(it), it.z));
        scored
            .enumerate()
            .filter(|(_, (score, _))| *score < 1.0)
            .min_by(|(_, a), (_, b)| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)))
            .map(|(i, _)| i)
    }

    fn remove(&mut self, i: usize) {
        self.cuts.remove(i);
        self.contrasts.remove(i);
        for near in i.saturating_sub(1)..(i + 1).min(self.cuts.len()) {
            self.contrasts[near] = self.contrast(near);
        }
        self.noise = estimate_noise(self.values, &self.cuts);
    }
}

/// Returns the z that a change needs in a series of this length.
fn compute_required_z(count: usize) -> f64 {
    let more = STRONG_GROWS * (count as f64 / STRONG_FOR).ln();
    (STRONG_Z * STRONG_Z + more).max(MIN_STRONG_Z * MIN_STRONG_Z).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_are_alike_from_both_ends() {
        let found: Vec<Range<usize>> = list_windows(200).collect();
        assert_eq!(found.first(), Some(&(0..60)));
        assert_eq!(found.last(), Some(&(140..200)));
        for (a, b) in found.iter().zip(found.iter().rev()) {
            assert!((200 - b.end).abs_diff(a.start) <= 1, "{found:?}");
        }
        assert_eq!(list_windows(60).count(), 0);
    }

    #[test]
    fn levels_lie_where_they_were_put() {
        let values: Vec<f64> = (0..90)
            .map(|i| f64::from(i * 37 % 11) / 100.0 + if (30..70).contains(&i) { 1.0 } else { 0.0 })
            .collect();
        let found = find_levels(&values, 0.08);
        assert_eq!(found.ranges(90), [0..30, 30..70, 70..90]);
        assert!(found.sigma < 0.1);
    }

    #[test]
    fn a_short_level_is_found_though_single_values_are_as_far_away() {
        let with_run = |length: i32| -> Vec<f64> {
            let is_far = |i: i32| (100..100 + length).contains(&i) || i % 20 == 7;
            let far = |i: i32| if is_far(i) { 1.0 } else { 0.0 };
            (0..300).map(|i| (f64::from(i) / 5.0).sin() / 20.0 + far(i)).collect()
        };
        assert_eq!(find_levels(&with_run(12), 0.08).ranges(300), [0..100, 100..112, 112..300]);
        assert_eq!(find_levels(&with_run(4), 0.08).shifts, []);
    }

    #[test]
    fn series_too_short_for_two_levels_have_one() {
        for count in 0..6 {
            let values: Vec<f64> = (0..count).map(f64::from).collect();
            assert_eq!(find_levels(&values, 0.08).shifts, []);
        }
    }
}
