//! Figures of comparison reports, as SVG with captions.

use super::asymmetry;
use super::levels::{self, Course, Line, Upward};
use super::sheet::Sheet;
use longhaul_model::report::v1::asymmetry::PathAsymmetry;
use longhaul_model::report::v1::case::{Case, PathCase};
use longhaul_model::report::v1::quantity::Quantity;
use longhaul_model::report::v1::series::{Pair, Point, Series};

/// An SVG and its caption.
pub type Figure = (String, String);

/// Draws throughput, available bandwidth and round trips of one path of a case.
pub fn case_figures(case: &Case, path: &PathCase) -> Vec<Figure> {
    let periods = vec![("before", case.before), ("after", case.after)];
    let wanted: [(&str, &[Quantity], Upward); 3] = [
        ("Throughput", &[Quantity::Goodput], Upward::Rate),
        (
            "Available bandwidth and capacity",
            &[Quantity::Available, Quantity::Capacity],
            Upward::Rate,
        ),
        (
            "Least round trip of each run",
            &[Quantity::RttFloor],
            Upward::Delay,
        ),
    ];
    let figures = wanted
        .into_iter()
        .filter_map(|(title, quantities, upward)| {
            let ours = path
                .series
                .iter()
                .filter(|series| quantities.contains(&series.quantity));
            let course = Course {
                title,
                lines: ours.map(|series| line(series, &path.pair)).collect(),
                upward,
                span_us: span_us(path),
                periods: periods.clone(),
            };
            let caption = format!("{title}: every point is one run; the two periods are shaded.");
            painted(&levels::sheet(&course)?, caption)
        });
    figures.collect()
}

/// Returns the time of the first and the last value of the path, of any quantity.
fn span_us(path: &PathCase) -> Option<(i64, i64)> {
    let points = path.series.iter().flat_map(|series| &series.points);
    let times = points.map(|point| point.at_us);
    Some((times.clone().min()?, times.max()?))
}

fn line<'a>(series: &'a Series, forward: &Pair) -> Line<'a> {
    let way = if series.pair == *forward { "" } else { " back" };
    Line {
        name: format!("{}{way}", series.quantity.title()),
        points: &series.points,
    }
}

/// Draws both directions over time, and a histogram of asymmetries.
pub fn asymmetry_figures(path: &PathAsymmetry) -> Vec<Figure> {
    let points = |of: fn(&longhaul_model::report::v1::asymmetry::Matched) -> u64| -> Vec<Point> {
        let matched = path.matched.iter();
        matched
            .map(|m| Point {
                at_us: m.at_us,
                value: of(m) as f64,
            })
            .collect()
    };
    let (forward, reverse) = (points(|m| m.forward_bps), points(|m| m.reverse_bps));
    let course = Course {
        title: "Throughput of matched runs",
        lines: vec![
            Line {
                name: String::from("forward"),
                points: &forward,
            },
            Line {
                name: String::from("reverse"),
                points: &reverse,
            },
        ],
        upward: Upward::Rate,
        span_us: None,
        periods: Vec::new(),
    };
    let caption = String::from("Goodput of each matched pair of runs.");
    let over_time = levels::sheet(&course).and_then(|sheet| painted(&sheet, caption));
    let bins = asymmetry::of_runs(&path.histogram, asymmetry_median(path));
    let caption = String::from("How many matched pairs have which asymmetry.");
    over_time
        .into_iter()
        .chain(painted(&bins, caption))
        .collect()
}

/// Converts the median ratio to the scale of the histogram.
fn asymmetry_median(path: &PathAsymmetry) -> f64 {
    let ratio = path.median_ratio.unwrap_or(1.0);
    (ratio - 1.0) / (ratio + 1.0)
}

/// Paints a figure. A figure that cannot be painted is left out; the report has its numbers.
fn painted(sheet: &Sheet, caption: String) -> Option<Figure> {
    Some((sheet.svg().ok()?, caption))
}

#[cfg(test)]
mod tests;
