//! Figures of comparison reports, as SVG with captions.

use super::level_chart::{self, ChartLine, LevelChart, ValueAxis};
use longhaul_model::report::v1::asymmetry::PathAsymmetry;
use longhaul_model::report::v1::case::{CaseReport, PathCase};
use longhaul_model::report::v1::quantity::PathQuantity;
use longhaul_model::report::v1::series::{HostPair, QuantitySeries, SeriesPoint};

/// An SVG and its caption.
pub type CaptionedSvg = (String, String);

/// Draws throughput, available bandwidth and round trips of one path of a case.
pub fn draw_case_figures(case: &CaseReport, path: &PathCase) -> Vec<CaptionedSvg> {
    let periods = vec![("before", case.before), ("after", case.after)];
    let wanted: [(&str, &[PathQuantity], ValueAxis); 3] = [
        ("Throughput", &[PathQuantity::Goodput], ValueAxis::Rate),
        (
            "Available bandwidth and capacity",
            &[PathQuantity::Available, PathQuantity::Capacity],
            ValueAxis::Rate,
        ),
        ("Min RTT of each run", &[PathQuantity::RttFloor], ValueAxis::Delay),
    ];
    let figures = wanted.into_iter().filter_map(|(title, quantities, upward)| {
        let ours = path.series.iter().filter(|series| quantities.contains(&series.quantity));
        let course = LevelChart {
            title,
            lines: ours.map(|series| series_line(series, &path.pair)).collect(),
            value_axis: upward,
            span_us: path_span_us(path),
            periods: periods.clone(),
        };
        let caption = format!("{title}: every point is one run; the two periods are shaded.");
        Some((level_chart::draw_level_chart(&course)?.svg(), caption))
    });
    figures.collect()
}

/// Returns the time of the first and the last value of the path, of any quantity.
fn path_span_us(path: &PathCase) -> Option<(i64, i64)> {
    let points = path.series.iter().flat_map(|series| &series.points);
    let times = points.map(|point| point.at_us);
    Some((times.clone().min()?, times.max()?))
}

fn series_line<'a>(series: &'a QuantitySeries, forward: &HostPair) -> ChartLine<'a> {
    let way = if series.pair == *forward { "" } else { ", reverse" };
    ChartLine { name: format!("{}{way}", series.quantity.title()), points: &series.points }
}

/// Draws the matched runs of both directions over time, if there are any.
pub fn draw_asymmetry_figure(path: &PathAsymmetry) -> Option<CaptionedSvg> {
    let points =
        |of: fn(&longhaul_model::report::v1::asymmetry::MatchedRuns) -> u64| -> Vec<SeriesPoint> {
            let matched = path.matched.iter();
            matched.map(|m| SeriesPoint { at_us: m.at_us, value: of(m) as f64 }).collect()
        };
    let (forward, reverse) = (points(|m| m.forward_bps), points(|m| m.reverse_bps));
    let course = LevelChart {
        title: "Throughput of matched runs",
        lines: vec![
            ChartLine { name: String::from("forward"), points: &forward },
            ChartLine { name: String::from("reverse"), points: &reverse },
        ],
        value_axis: ValueAxis::Rate,
        span_us: None,
        periods: Vec::new(),
    };
    let caption = String::from("Goodput of each matched pair of runs.");
    Some((level_chart::draw_level_chart(&course)?.svg(), caption))
}

#[cfg(test)]
mod tests;
