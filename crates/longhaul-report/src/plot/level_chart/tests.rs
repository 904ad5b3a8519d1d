//! Figures of cases: which there are, positions of values, the shaded periods, and extreme values.

use super::*;
use longhaul_model::report::v1::{HostPair, SeriesPoint, TimePeriod};
use proptest::prelude::*;

const HOUR_US: i64 = 3_600_000_000;
const MINUTE_US: i64 = 60_000_000;

fn pair(from: &str, to: &str) -> HostPair {
    HostPair { from: from.to_owned(), to: to.to_owned() }
}

fn series(pair: HostPair, quantity: PathQuantity, values: &[f64]) -> QuantitySeries {
    let points =
        (0..).zip(values).map(|(hour, &value)| SeriesPoint { at_us: hour * HOUR_US, value });
    QuantitySeries { pair, quantity, points: points.collect(), buckets: Vec::new() }
}

fn case(series: Vec<QuantitySeries>, [before, after]: [TimePeriod; 2]) -> (CaseReport, PathCase) {
    let path = PathCase {
        pair: pair("slac", "<cesnet>"),
        run_counts: [2, 2],
        changes: Vec::new(),
        routes: Vec::new(),
        settings: Vec::new(),
        recommended: None,
        events: Vec::new(),
        findings: Vec::new(),
        unchanged: Vec::new(),
        missing: Vec::new(),
        series,
    };
    let case = CaseReport {
        schema: String::new(),
        kind: String::new(),
        longhaul: String::new(),
        before,
        after,
        event_id: None,
        paths: Vec::new(),
        caveats: Vec::new(),
    };
    (case, path)
}

fn points(values: &[f64]) -> Vec<SeriesPoint> {
    let at = |number: usize| number as i64 * MINUTE_US;
    let values = values.iter().enumerate();
    values.map(|(number, &value)| SeriesPoint { at_us: at(number), value }).collect()
}

/// Periods of no length, which are not shaded.
const NO_PERIODS: [TimePeriod; 2] = [TimePeriod { begin_us: 0, end_us: 0 }; 2];

fn drawn(
    points: &[SeriesPoint],
    quantity: PathQuantity,
    periods: [TimePeriod; 2],
) -> Option<FigureSheet> {
    let pair = pair("slac", "<cesnet>");
    let series = QuantitySeries { pair, quantity, points: points.to_vec(), buckets: Vec::new() };
    let (case, path) = case(vec![series], periods);
    draw_level_chart("Throughput", &[quantity], &case, &path)
}

/// Returns two numbers of all marks of one kind, in order.
fn numbers(sheet: &FigureSheet, tag: &str, names: [&str; 2]) -> Vec<(f64, f64)> {
    let svg = sheet.svg();
    let document = roxmltree::Document::parse(&svg).expect("XML");
    let number =
        |mark: roxmltree::Node, name: &str| -> Option<f64> { mark.attribute(name)?.parse().ok() };
    let marks = document.descendants().filter(|it| it.has_tag_name(tag));
    marks.filter_map(|it| Some((number(it, names[0])?, number(it, names[1])?))).collect()
}

/// Returns the positions of the values, in order; the last dot is that of the key.
fn dots(sheet: &FigureSheet) -> Vec<(f64, f64)> {
    let mut dots = numbers(sheet, "circle", ["cx", "cy"]);
    dots.pop();
    dots
}

fn texts(svg: &str) -> Vec<String> {
    let document = roxmltree::Document::parse(svg).expect("XML");
    let texts = document.descendants().filter_map(|it| it.text());
    let texts = texts.map(|it| it.trim().to_owned());
    texts.filter(|it| !it.is_empty()).collect()
}

#[test]
fn a_case_has_a_figure_for_what_was_measured_and_none_for_what_was_not() {
    let there = pair("slac", "<cesnet>");
    let back = pair("<cesnet>", "slac");
    let rates = [250e6, 240e6, 150e6, 140e6];
    let period = |begin, end| TimePeriod { begin_us: begin * HOUR_US, end_us: end * HOUR_US };
    let (case, path) = case(
        vec![
            series(there.clone(), PathQuantity::Goodput, &rates),
            series(back, PathQuantity::Goodput, &rates),
            series(there.clone(), PathQuantity::RttFloor, &[165e3; 2]),
            series(there, PathQuantity::Available, &[]),
        ],
        [period(0, 2), period(2, 4)],
    );
    let figures = draw_case_figures(&case, &path);
    let titles: Vec<String> = figures.iter().map(|(svg, _)| texts(svg)[0].clone()).collect();
    assert_eq!(titles, ["Throughput", "Min RTT of each run"]);
    let times = |svg: &str| {
        let texts = texts(svg).into_iter();
        let times = texts.filter(|it| it.contains(':')).collect::<Vec<_>>();
        (times.first().cloned(), times.last().cloned())
    };
    assert_eq!(times(&figures[0].0), times(&figures[1].0), "one axis of time");
    let (svg, caption) = &figures[0];
    assert!(caption.starts_with("Throughput: "), "{caption}");
    let texts = texts(svg);
    let title = PathQuantity::Goodput.title();
    for word in [title, &format!("{title}, reverse"), "before", "after"] {
        assert!(texts.iter().any(|it| it == word), "{word}: {texts:?}");
    }
    let values = svg.matches("<circle").count();
    assert_eq!(values, 2 * rates.len() + 2, "every run, and two in the key");
}

#[test]
fn later_is_further_right_and_more_is_higher_from_nought_on() {
    let points = points(&[250e6, 125e6, 0.0]);
    let sheet = drawn(&points, PathQuantity::Goodput, NO_PERIODS).expect("points");
    let dots = dots(&sheet);
    assert_eq!(dots.len(), 3);
    assert!(dots.windows(2).all(|two| two[0].0 < two[1].0), "{dots:?}");
    let heights = [dots[2].1 - dots[1].1, dots[1].1 - dots[0].1];
    assert!((heights[0] - heights[1]).abs() < 0.2, "{dots:?}");
    assert!((dots[2].1 - (HEIGHT - BOTTOM)).abs() < 0.1, "0 on the axis");
    let texts = texts(&sheet.svg());
    for word in ["Throughput", PathQuantity::Goodput.title(), "Mbit/s", "UTC", "00:01:00"] {
        assert!(texts.iter().any(|it| it == word), "{word}: {texts:?}");
    }
}

#[test]
fn round_trips_are_in_ms_and_their_axis_begins_near_the_least() {
    let points = points(&[150_000.0, 160_000.0]);
    let sheet = drawn(&points, PathQuantity::RttFloor, NO_PERIODS).expect("points");
    let dots = dots(&sheet);
    let apart = dots[0].1 - dots[1].1;
    assert!(apart > 60.0, "10 ms of 160 are seen: {apart}");
    let texts = texts(&sheet.svg());
    for word in ["ms", "150", "160"] {
        assert!(texts.iter().any(|it| it == word), "{word}: {texts:?}");
    }
}

#[test]
fn periods_are_shaded_as_far_as_the_axis_goes() {
    let points = points(&[1e6, 2e6, 3e6, 4e6]);
    let period = |begin_us, end_us| TimePeriod { begin_us, end_us };
    let periods = [period(-100 * MINUTE_US, MINUTE_US), period(2 * MINUTE_US, 100 * MINUTE_US)];
    let sheet = drawn(&points, PathQuantity::Goodput, periods).expect("points");
    let shaded = numbers(&sheet, "rect", ["x", "width"]);
    let dots = dots(&sheet);
    assert_eq!(shaded.len(), 2);
    assert!((shaded[0].0 + shaded[0].1 - dots[1].0).abs() < 0.2, "{shaded:?} {dots:?}");
    assert!((shaded[1].0 - dots[2].0).abs() < 0.2, "{shaded:?} {dots:?}");
    let out_of_sight = [period(-9 * MINUTE_US, -8 * MINUTE_US); 2];
    let sheet = drawn(&points, PathQuantity::Goodput, out_of_sight).expect("points");
    assert!(!texts(&sheet.svg()).iter().any(|it| it == "before"));
}

#[test]
fn without_a_point_there_is_no_figure() {
    assert!(drawn(&[], PathQuantity::Goodput, NO_PERIODS).is_none());
}

proptest! {
    #[test]
    fn every_value_at_every_time_lies_on_the_sheet(
        values in proptest::collection::vec((0i64..1 << 52, 0.0..1e15f64), 1..20),
        delay: bool,
    ) {
        let points: Vec<SeriesPoint> = values
            .into_iter()
            .map(|(at_us, value)| SeriesPoint { at_us, value })
            .collect();
        let quantity = if delay { PathQuantity::RttFloor } else { PathQuantity::Goodput };
        let sheet = drawn(&points, quantity, NO_PERIODS).expect("points");
        for (x, y) in dots(&sheet) {
            prop_assert!((MARGIN + LEFT..=WIDTH - MARGIN).contains(&x), "{x}");
            prop_assert!((TOP - 0.5..=HEIGHT - BOTTOM + 0.5).contains(&y), "{y}");
        }
        let lines = sheet.svg().lines().count() - points.len();
        prop_assert!(lines < 80, "{lines} marks for few values");
    }
}
