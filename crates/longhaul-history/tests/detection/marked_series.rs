//! Series in which people marked the changes, and the scores of a detector on them.
//!
//! F1 with a margin of 5 values: precision against the marks of all annotators, recall as the mean
//! over them; the beginning of a series counts as marked and found. Covering: the overlap of the
//! segments with those of each annotator. Both are means over the series.
//!
//! Source: van den Burg and Williams 2020; the series of round-trip times: fixtures/rtt-changes.
//! Wrong when: annotators disagree or overlook changes; a perfect score is then impossible.

use longhaul_model::report::v1::SeriesPoint;
use lzma_rust2::XzReader;
use std::fmt;
use std::io::Read;
use std::ops::Range;

const MARGIN: usize = 5;
const SPACING_US: i64 = 240_000_000;
const RTT_WINDOWS: &[u8] = include_bytes!("../../../../fixtures/rtt-changes/windows.txt.xz");

/// Positions of changes, as indices of the first value after each.
pub type ChangePositions = Vec<usize>;

#[derive(Debug, Clone, PartialEq)]
pub struct MarkedSeries {
    /// The half and the name of the series.
    pub name: String,
    /// The values; absent if lost.
    pub values: Vec<Option<f64>>,
    /// The marks of each annotator.
    pub marks: Vec<ChangePositions>,
}

impl MarkedSeries {
    /// Returns the values with their times.
    pub fn points(&self) -> Vec<SeriesPoint> {
        let timed = self.values.iter().zip(0i64..);
        timed
            .filter_map(|(value, i)| {
                value.map(|value| SeriesPoint { at_us: i * SPACING_US, value })
            })
            .collect()
    }
}

/// Returns the index of the value at a time.
pub fn index_at(at_us: i64) -> usize {
    (at_us / SPACING_US) as usize
}

/// Returns the windows of round-trip times, in us.
pub fn read_rtt_windows() -> Vec<MarkedSeries> {
    let mut text = String::new();
    XzReader::new(RTT_WINDOWS, true).read_to_string(&mut text).unwrap();
    text.lines().map(parse_window).collect()
}

fn parse_window(line: &str) -> MarkedSeries {
    let [name, marks, values] = *line.split('\t').collect::<Vec<&str>>() else {
        panic!("a line has a name, marks and values: {line}");
    };
    MarkedSeries {
        name: name.to_owned(),
        values: values.split(' ').map(|text| text.parse().ok()).collect(),
        marks: vec![marks.split_whitespace().map(|mark| mark.parse().unwrap()).collect()],
    }
}

/// The scores of one series, or their means.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DetectionScore {
    pub f1: f64,
    pub precision: f64,
    pub recall: f64,
    pub cover: f64,
}

impl DetectionScore {
    pub fn mean(scores: &[DetectionScore]) -> DetectionScore {
        let mean = |of: fn(&DetectionScore) -> f64| {
            scores.iter().map(of).sum::<f64>() / scores.len() as f64
        };
        DetectionScore {
            f1: mean(|it| it.f1),
            precision: mean(|it| it.precision),
            recall: mean(|it| it.recall),
            cover: mean(|it| it.cover),
        }
    }
}

impl fmt::Display for DetectionScore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let DetectionScore { f1, precision, recall, cover } = self;
        write!(f, "F1 {f1:.3}, precision {precision:.3}, recall {recall:.3}, cover {cover:.3}")
    }
}

pub fn score_detection(series: &MarkedSeries, found: &[usize]) -> DetectionScore {
    let people: Vec<ChangePositions> = series.marks.iter().map(|it| add_beginning(it)).collect();
    let (found, union) = (add_beginning(found), add_beginning(&series.marks.concat()));
    let precision = count_hits(&union, &found) as f64 / found.len() as f64;
    let mean = |of: &dyn Fn(&ChangePositions) -> f64| {
        people.iter().map(of).sum::<f64>() / people.len() as f64
    };
    let recall = mean(&|marks| count_hits(marks, &found) as f64 / marks.len() as f64);
    DetectionScore {
        f1: 2.0 * precision * recall / (precision + recall),
        precision,
        recall,
        cover: mean(&|marks| compute_cover(marks, &found, series.values.len())),
    }
}

fn add_beginning(places: &[usize]) -> ChangePositions {
    let mut all = places.to_vec();
    all.push(0);
    all.sort_unstable();
    all.dedup();
    all
}

/// Counts the marks with their own detected change within the margin; the nearest is taken.
fn count_hits(marks: &[usize], found: &[usize]) -> usize {
    let (mut left, mut hits) = (found.to_vec(), 0);
    for mark in marks {
        let nearest = (0..left.len()).min_by_key(|&i| left[i].abs_diff(*mark));
        if let Some(i) = nearest.filter(|&i| left[i].abs_diff(*mark) <= MARGIN) {
            left.remove(i);
            hits += 1;
        }
    }
    hits
}

/// Returns the mean over the values of the best overlap of a found segment with the marked one.
fn compute_cover(marks: &[usize], found: &[usize], count: usize) -> f64 {
    let found = split_segments(found, count);
    let covered = split_segments(marks, count).into_iter().map(|segment| {
        let best = found.iter().map(|it| compute_overlap(&segment, it)).fold(0.0, f64::max);
        best * segment.len() as f64
    });
    covered.sum::<f64>() / count as f64
}

/// Splits the series into segments; `begins` contains 0.
fn split_segments(begins: &[usize], count: usize) -> Vec<Range<usize>> {
    let ends = begins.iter().skip(1).copied().chain(std::iter::once(count));
    begins.iter().copied().zip(ends).map(|(a, b)| a..b).collect()
}

/// Returns the intersection of two ranges divided by their union.
fn compute_overlap(a: &Range<usize>, b: &Range<usize>) -> f64 {
    let both = a.end.min(b.end).saturating_sub(a.start.max(b.start));
    both as f64 / (a.len() + b.len() - both).max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scores_agree_with_cases_worked_by_hand() {
        // Two annotators, one of whom marked nothing; one change found at 52, and an unmarked one
        // at 80.
        let series = MarkedSeries {
            name: String::new(),
            values: vec![None; 100],
            marks: vec![vec![50], vec![]],
        };
        let score = score_detection(&series, &[52, 80]);
        assert!((score.precision - 2.0 / 3.0).abs() < 1e-9, "{score}");
        assert!((score.recall - 1.0).abs() < 1e-9);
        assert!((score.f1 - 0.8).abs() < 1e-9);
        let first = (50.0 * (50.0 / 52.0) + 50.0 * (28.0 / 50.0)) / 100.0;
        assert!((score.cover - f64::midpoint(first, 52.0 / 100.0)).abs() < 1e-9, "{score}");
    }

    #[test]
    fn one_change_found_answers_one_mark() {
        assert_eq!(count_hits(&[0, 50, 53], &[0, 51]), 2);
        assert_eq!(count_hits(&[0, 50], &[0, 56]), 1);
    }
}
