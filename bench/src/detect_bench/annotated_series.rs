//! Series with changes annotated by people, and their scores.
//!
//! F1 with a margin of 5: precision against the marks of all annotators, recall as the mean over
//! the annotators; the beginning of the series counts as found. Covering: the overlap of the
//! segments with those of each annotator. Both as in the benchmark (van den Burg, Williams 2020).
//!
//! Wrong when: annotators disagree; a perfect score is then impossible.

use super::{ChangePositions, DETECTORS};
use crate::BenchOutcome;
use crate::markdown_table::MarkdownTable;
use serde_json::Value;
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;

const MARGIN: usize = 5;
/// The minimum scores of `steps` over the whole set.
const F1_MIN: f64 = 0.75;
const COVER_MIN: f64 = 0.66;
const MAX_SERIES: usize = 100;

struct AnnotatedSeries {
    values: Vec<f64>,
    /// The marks of each annotator.
    marks: Vec<ChangePositions>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct DetectionScore {
    f1: f64,
    precision: f64,
    recall: f64,
    cover: f64,
}

/// Returns the table, and a sentence for every missed gate.
pub fn judge_detectors(folder: &Path) -> Result<BenchOutcome, String> {
    let set = read_annotated_series(folder)?;
    let title = format!("Marked series ({} of TCPD), default settings", set.len());
    let columns = "method | F1 | precision | recall | cover";
    let mut table = MarkdownTable::new(title, columns);
    let mut missed = Vec::new();
    for (name, detector) in DETECTORS {
        let scores: Vec<DetectionScore> = set
            .iter()
            .map(|one| score_detection(&one.marks, &detector(&one.values), one.values.len()))
            .collect();
        let mean =
            |of: fn(&DetectionScore) -> f64| scores.iter().map(of).sum::<f64>() / set.len() as f64;
        let (f1, cover) = (mean(|s| s.f1), mean(|s| s.cover));
        let cells = [f1, mean(|s| s.precision), mean(|s| s.recall), cover];
        let cells = cells.iter().map(|cell| format!("{cell:.3}"));
        table.row(std::iter::once(name.to_owned()).chain(cells).collect());
        if name.contains("steps") && (f1 < F1_MIN || cover < COVER_MIN) {
            missed.push(format!(
                "marked series: F1 {f1:.3} and cover {cover:.3}; {F1_MIN} and {COVER_MIN} must be"
            ));
        }
    }
    Ok(BenchOutcome::new(&[table], missed))
}

fn read_annotated_series(folder: &Path) -> Result<Vec<AnnotatedSeries>, String> {
    let all = read_json(&folder.join("annotations.json"))?;
    let all = all.as_object().ok_or("annotations.json is no object")?;
    let series = all.iter().take(MAX_SERIES).map(|(name, people)| {
        let file = folder.join(format!("{name}.json"));
        let values = read_values(&read_json(&file)?)
            .ok_or_else(|| format!("{} holds no series of numbers", file.display()))?;
        let people: BTreeMap<String, ChangePositions> =
            serde_json::from_value(people.clone()).map_err(|e| format!("marks of {name}: {e}"))?;
        let marks = people.into_values().collect();
        Ok(AnnotatedSeries { values, marks })
    });
    let series: Vec<AnnotatedSeries> = series.collect::<Result<_, String>>()?;
    if series.is_empty() {
        return Err(format!("no marked series in {}", folder.display()));
    }
    Ok(series)
}

fn read_json(file: &Path) -> Result<Value, String> {
    let text = std::fs::read_to_string(file)
        .map_err(|e| format!("cannot read the series {}: {e}", file.display()))?;
    serde_json::from_str(&text).map_err(|e| format!("{} is no JSON: {e}", file.display()))
}

/// Returns the single series; a missing value repeats the one before it, so that positions stay.
fn read_values(file: &Value) -> Option<Vec<f64>> {
    let raw = file["series"][0]["raw"].as_array()?;
    let mut last = raw.iter().find_map(Value::as_f64)?;
    let filled = raw.iter().map(|value| {
        last = value.as_f64().unwrap_or(last);
        last
    });
    Some(filled.collect())
}

fn score_detection(marks: &[ChangePositions], found: &[usize], count: usize) -> DetectionScore {
    let with_begin = |places: &[usize]| {
        let mut all = places.to_vec();
        all.push(0);
        all.sort_unstable();
        all.dedup();
        all
    };
    let people: Vec<ChangePositions> = marks.iter().map(|places| with_begin(places)).collect();
    let (found, union) = (with_begin(found), with_begin(&marks.concat()));
    let precision = count_hits(&union, &found) as f64 / found.len() as f64;
    let of_person =
        |places: &ChangePositions| count_hits(places, &found) as f64 / places.len() as f64;
    let mean = |sum: f64| sum / people.len().max(1) as f64;
    let recall = mean(people.iter().map(of_person).sum());
    let covers = people.iter().map(|places| compute_cover(places, &found, count));
    DetectionScore {
        f1: 2.0 * precision * recall / (precision + recall),
        precision,
        recall,
        cover: mean(covers.sum()),
    }
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
    let marked = split_segments(marks, count).into_iter();
    let covered = marked.map(|stretch| {
        let best = found.iter().map(|it| compute_overlap(&stretch, it)).fold(0.0, f64::max);
        best * stretch.len() as f64
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
        let marks = [vec![50], vec![]];
        let score = score_detection(&marks, &[52, 80], 100);
        assert!((score.precision - 2.0 / 3.0).abs() < 1e-9, "{score:?}");
        assert!((score.recall - 1.0).abs() < 1e-9);
        assert!((score.f1 - 0.8).abs() < 1e-9);
        let first = (50.0 * (50.0 / 52.0) + 50.0 * (28.0 / 50.0)) / 100.0;
        let second = 52.0 / 100.0;
        assert!((score.cover - f64::midpoint(first, second)).abs() < 1e-9, "{score:?}");
    }

    #[test]
    fn one_change_found_answers_one_mark() {
        assert_eq!(count_hits(&[0, 50, 53], &[0, 51]), 2);
        assert_eq!(count_hits(&[0, 50], &[0, 56]), 1);
    }
}
