//! Into which levels does a series fall?
//!
//! Candidates by recursive rank-sum splits of the whole and of short windows, each moved to the
//! place that fits best in the sum of absolute errors; then the weakest are merged away, until each
//! that is left stands above noise that resembles itself.
//!
//! Source: rank sums after Mann and Whitney 1947; splitting weakly and merging strictly after Hunter
//! (Fleming et al. 2023); the effective number of correlated values as in `stats::interval`.
//! Units: those of the scale. Error: a place is off by 0 in the median and 2 samples in 9 of 10.
//! Wrong when: a level lasts fewer than [`MARGIN`] samples, or the series drifts: it becomes stairs.

use super::ranks::{Ranks, z_cap};
use std::ops::Range;

/// Fewer values make no level.
pub const MARGIN: usize = 3;
/// A split is looked at from here on, or near the most that a short stretch can show.
const WEAK: f64 = 3.0;
const WEAK_OF_CAP: f64 = 0.93;
/// Windows in which a short level shows that the whole hides; half of each overlaps.
const WINDOW: usize = 60;
/// How far a candidate may be moved, and how far that looks.
const REACH: usize = 6;
const LOOK: usize = 60;
/// Most values on each side that a judgement uses.
const SIDE: usize = 200;
/// z that a change needs after the noise is allowed for, in a series of [`STRONG_FOR`] values; its
/// square grows by so much with the logarithm of their number, since more places give chance more
/// tries; and it is never below this.
const STRONG: f64 = 5.0;
const STRONG_FOR: f64 = 500.0;
const STRONG_GROWS: f64 = 4.0;
const STRONG_LEAST: f64 = 4.6;
/// Levels so many standard deviations apart need only be as separate as they can be.
const APART: f64 = 3.5;
const STRONG_OF_CAP: f64 = 0.98;
/// Residuals are clipped at so many median deviations for the correlation.
const CLIP: f64 = 4.0;
const MOST_CORRELATION: f64 = 0.9;
const MAD_TO_SIGMA: f64 = 1.4826;
/// A series that changes oftener than once in so many values, and this often at least, has no
/// levels but drifts; its changes must be strong, however far apart.
const RESTLESS: usize = 12;
const FEW: usize = 3;

/// Where the level changes, and the noise about it.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Levels {
    pub shifts: Vec<Shift>,
    /// Robust standard deviation of the values about their levels.
    pub sigma: f64,
    /// Correlation of neighbours about their levels, 0 to 0.9.
    pub autocorrelation: f64,
}

/// The first value of a new level.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Shift {
    pub at: usize,
    /// Strength of the evidence; 1 is just enough.
    pub score: f64,
}

impl Levels {
    /// The values of each level, of a series of so many.
    pub fn ranges(&self, count: usize) -> Vec<Range<usize>> {
        let cuts: Vec<usize> = self.shifts.iter().map(|s| s.at).collect();
        ranges(&cuts, count)
    }
}

/// The levels of evenly noisy values; differences below `least` are none.
pub fn levels(values: &[f64], least: f64) -> Levels {
    let mut ranks = Ranks::new(values);
    let all = candidates(values, &mut ranks);
    let mut rule = Rule { least, apart: true };
    let mut cuts = merged(values, &mut ranks, all.clone(), rule).cuts;
    if cuts.len() > FEW.max(values.len() / RESTLESS) {
        rule.apart = false;
        cuts = merged(values, &mut ranks, all, rule).cuts;
    }
    // With the false ones gone, neighbours are farther off and the places can be seen better.
    let placed = placed(values, &cuts, 0..values.len());
    let merge = merged(values, &mut ranks, placed, rule);
    let scores = merge.scores();
    let shifts = merge.cuts.iter().zip(scores);
    Levels {
        shifts: shifts.map(|(&at, score)| Shift { at, score }).collect(),
        sigma: merge.noise.sigma,
        autocorrelation: merge.noise.correlation,
    }
}

fn ranges(cuts: &[usize], count: usize) -> Vec<Range<usize>> {
    let starts = std::iter::once(0).chain(cuts.iter().copied());
    let ends = cuts.iter().copied().chain(std::iter::once(count));
    starts.zip(ends).map(|(a, b)| a..b).collect()
}

fn candidates(values: &[f64], ranks: &mut Ranks) -> Vec<usize> {
    let all = values.len();
    let mut found = Vec::new();
    for range in std::iter::once(0..all).chain(windows(all)) {
        let splits = splits(ranks, range.clone());
        found.extend(placed(values, &splits, range));
    }
    found.sort_unstable();
    found.dedup();
    found
}

/// Of [`WINDOW`] values, evenly over the series and alike from both ends.
fn windows(all: usize) -> impl Iterator<Item = Range<usize>> {
    let room = all.saturating_sub(WINDOW);
    let steps = room.div_ceil(WINDOW / 2);
    (0..=steps).filter(move |_| steps > 0).map(move |i| {
        let start = if 2 * i <= steps {
            i * room / steps
        } else {
            room - (steps - i) * room / steps
        };
        start..start + WINDOW
    })
}

/// Splits of the range, and of its parts, as long as their halves differ.
fn splits(ranks: &mut Ranks, range: Range<usize>) -> Vec<usize> {
    let (mut open, mut found) = (vec![range], Vec::new());
    while let Some(part) = open.pop() {
        let Some((at, z)) = ranks.best_split(part.clone(), MARGIN) else {
            continue;
        };
        if z >= WEAK.min(WEAK_OF_CAP * z_cap(at - part.start, part.end - at)) {
            found.push(at);
            open.extend([part.start..at, at..part.end]);
        }
    }
    found.sort_unstable();
    found
}

/// Each cut moved to where the absolute errors about the levels beside it are least.
fn placed(values: &[f64], cuts: &[usize], range: Range<usize>) -> Vec<usize> {
    let mut room = Vec::new();
    let mut moved: Vec<usize> = Vec::with_capacity(cuts.len());
    for (i, &cut) in cuts.iter().enumerate() {
        let low = moved.last().copied().unwrap_or(range.start);
        let high = cuts.get(i + 1).copied().unwrap_or(range.end);
        moved.push(place(values, cut, low..high, &mut room));
    }
    moved
}

fn place(values: &[f64], cut: usize, between: Range<usize>, room: &mut Vec<f64>) -> usize {
    let low = between.start.max(cut.saturating_sub(LOOK));
    let high = between.end.min(cut + LOOK);
    let first = cut.saturating_sub(REACH).max(low + MARGIN);
    let last = (cut + REACH).min(high.saturating_sub(MARGIN));
    if first > last || cut <= low || cut >= high {
        return cut;
    }
    let mut cut = cut.clamp(first, last);
    // The levels depend on the place and the place on the levels; twice is enough.
    for _ in 0..2 {
        let left = middle(&values[low..cut], room);
        let right = middle(&values[cut..high], room);
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

/// Median of what is not empty.
fn middle(values: &[f64], room: &mut Vec<f64>) -> f64 {
    room.clear();
    room.extend_from_slice(values);
    middle_of(room)
}

fn middle_of(values: &mut [f64]) -> f64 {
    let half = values.len() / 2;
    let odd = values.len() % 2 == 1;
    let (below, upper, _) = values.select_nth_unstable_by(half, f64::total_cmp);
    let upper = *upper;
    if odd {
        return upper;
    }
    f64::midpoint(
        below.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        upper,
    )
}

#[derive(Debug, Clone, Copy, Default)]
struct Noise {
    sigma: f64,
    correlation: f64,
}

/// One cut between its neighbours.
#[derive(Debug, Clone, Copy)]
struct Contrast {
    z: f64,
    cap: f64,
    difference: f64,
}

/// What a change must be.
#[derive(Debug, Clone, Copy)]
struct Rule {
    /// Least difference.
    least: f64,
    /// Levels far apart need less evidence.
    apart: bool,
}

struct Merge<'a> {
    values: &'a [f64],
    rule: Rule,
    cuts: Vec<usize>,
    contrasts: Vec<Contrast>,
    rest: Vec<f64>,
    noise: Noise,
    room: Vec<f64>,
}

fn merged<'a>(values: &'a [f64], ranks: &mut Ranks, cuts: Vec<usize>, rule: Rule) -> Merge<'a> {
    let mut merge = Merge {
        values,
        rule,
        contrasts: Vec::new(),
        rest: vec![0.0; values.len()],
        noise: Noise::default(),
        room: Vec::new(),
        cuts,
    };
    if values.is_empty() {
        return merge;
    }
    for range in ranges(&merge.cuts, values.len()) {
        merge.level_out(range);
    }
    for i in 0..merge.cuts.len() {
        let contrast = merge.contrast(ranks, i);
        merge.contrasts.push(contrast);
    }
    merge.noise = merge.noise();
    while let Some(weakest) = merge.weakest() {
        merge.remove(ranks, weakest);
    }
    merge
}

impl Merge<'_> {
    fn level_out(&mut self, range: Range<usize>) {
        let level = middle(&self.values[range.clone()], &mut self.room);
        for (rest, value) in self.rest[range.clone()].iter_mut().zip(&self.values[range]) {
            *rest = value - level;
        }
    }

    fn bounds(&self, i: usize) -> Range<usize> {
        let before = if i == 0 { 0 } else { self.cuts[i - 1] };
        before..self.cuts.get(i + 1).copied().unwrap_or(self.values.len())
    }

    fn contrast(&mut self, ranks: &mut Ranks, i: usize) -> Contrast {
        let (at, bounds) = (self.cuts[i], self.bounds(i));
        let low = bounds.start.max(at.saturating_sub(SIDE));
        let high = bounds.end.min(at + SIDE);
        let z = ranks.z(low..high, at).abs();
        if at - low < MARGIN || high - at < MARGIN {
            return Contrast {
                z,
                cap: 0.0,
                difference: 0.0,
            };
        }
        let left = middle(&self.values[low..at], &mut self.room);
        let right = middle(&self.values[at..high], &mut self.room);
        Contrast {
            z,
            cap: z_cap(at - low, high - at),
            difference: (right - left).abs(),
        }
    }

    fn noise(&mut self) -> Noise {
        self.room.clear();
        self.room.extend(self.rest.iter().map(|r| r.abs()));
        let deviation = middle_of(&mut self.room);
        let clipped = |r: &f64| r.clamp(-CLIP * deviation, CLIP * deviation);
        let (mut squares, mut products, mut last) = (0.0, 0.0, 0.0);
        for value in self.rest.iter().map(clipped) {
            squares += value * value;
            products += value * last;
            last = value;
        }
        let correlation = if squares > 0.0 {
            (products / squares).clamp(0.0, MOST_CORRELATION)
        } else {
            0.0
        };
        Noise {
            sigma: MAD_TO_SIGMA * deviation,
            correlation,
        }
    }

    fn score(&self, contrast: &Contrast) -> f64 {
        let Noise { sigma, correlation } = self.noise;
        // A hair of slack: the difference of two levels is rounded, the least one is not.
        if contrast.difference < self.rule.least.max(sigma) * (1.0 - 1e-9)
            || contrast.difference <= 0.0
        {
            return 0.0;
        }
        let factor = ((1.0 - correlation) / (1.0 + correlation)).sqrt();
        let strong = strong(self.values.len());
        let needed = if self.rule.apart && contrast.difference > APART * sigma {
            strong.min(STRONG_OF_CAP * factor * contrast.cap)
        } else {
            strong
        };
        factor * contrast.z / needed
    }

    fn scores(&self) -> Vec<f64> {
        self.contrasts.iter().map(|it| self.score(it)).collect()
    }

    /// The one to go next; of equals the one with less behind it.
    fn weakest(&self) -> Option<usize> {
        let scored = self.contrasts.iter().map(|it| (self.score(it), it.z));
        scored
            .enumerate()
            .filter(|(_, (score, _))| *score < 1.0)
            .min_by(|(_, a), (_, b)| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)))
            .map(|(i, _)| i)
    }

    fn remove(&mut self, ranks: &mut Ranks, i: usize) {
        let joined = self.bounds(i);
        self.cuts.remove(i);
        self.contrasts.remove(i);
        self.level_out(joined);
        for near in i.saturating_sub(1)..(i + 1).min(self.cuts.len()) {
            self.contrasts[near] = self.contrast(ranks, near);
        }
        self.noise = self.noise();
    }
}

/// z that a change needs in a series of so many values.
fn strong(count: usize) -> f64 {
    let more = STRONG_GROWS * (count as f64 / STRONG_FOR).ln();
    (STRONG * STRONG + more)
        .max(STRONG_LEAST * STRONG_LEAST)
        .sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_are_alike_from_both_ends() {
        let found: Vec<Range<usize>> = windows(200).collect();
        assert_eq!(found.first(), Some(&(0..60)));
        assert_eq!(found.last(), Some(&(140..200)));
        for (a, b) in found.iter().zip(found.iter().rev()) {
            assert!((200 - b.end).abs_diff(a.start) <= 1, "{found:?}");
        }
        assert_eq!(windows(60).count(), 0);
    }

    #[test]
    fn levels_lie_where_they_were_put() {
        let values: Vec<f64> = (0..90)
            .map(|i| f64::from(i * 37 % 11) / 100.0 + if (30..70).contains(&i) { 1.0 } else { 0.0 })
            .collect();
        let found = levels(&values, 0.08);
        assert_eq!(found.ranges(90), [0..30, 30..70, 70..90]);
        assert!(found.sigma < 0.1);
    }

    #[test]
    fn series_too_short_for_two_levels_have_one() {
        for count in 0..6 {
            let values: Vec<f64> = (0..count).map(f64::from).collect();
            assert_eq!(levels(&values, 0.08).shifts, []);
        }
    }
}
