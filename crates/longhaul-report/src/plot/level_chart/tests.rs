//! Values over time: their positions, the shaded periods, and extreme values.

use super::*;
use proptest::prelude::*;

const MINUTE_US: i64 = 60_000_000;

fn points(values: &[f64]) -> Vec<SeriesPoint> {
    let at = |number: usize| number as i64 * MINUTE_US;
    let values = values.iter().enumerate();
    values.map(|(number, &value)| SeriesPoint { at_us: at(number), value }).collect()
}

fn drawn(
    points: &[SeriesPoint],
    upward: ValueAxis,
    periods: Vec<(&'static str, TimePeriod)>,
) -> Option<FigureSheet> {
    let lines = vec![ChartLine { name: String::from("goodput"), points }];
    draw_level_chart(&LevelChart {
        title: "Throughput",
        lines,
        value_axis: upward,
        span_us: None,
        periods,
    })
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

fn texts(sheet: &FigureSheet) -> Vec<String> {
    let svg = sheet.svg();
    let document = roxmltree::Document::parse(&svg).expect("XML");
    let texts = document.descendants().filter_map(|it| it.text());
    texts.map(|it| it.trim().to_owned()).collect()
}

#[test]
fn later_is_further_right_and_more_is_higher_from_nought_on() {
    let points = points(&[250e6, 125e6, 0.0]);
    let sheet = drawn(&points, ValueAxis::Rate, Vec::new()).expect("points");
    let dots = dots(&sheet);
    assert_eq!(dots.len(), 3);
    assert!(dots.windows(2).all(|two| two[0].0 < two[1].0), "{dots:?}");
    let heights = [dots[2].1 - dots[1].1, dots[1].1 - dots[0].1];
    assert!((heights[0] - heights[1]).abs() < 0.2, "{dots:?}");
    assert!((dots[2].1 - (HEIGHT - BOTTOM)).abs() < 0.1, "0 on the axis");
    let texts = texts(&sheet);
    for word in ["Throughput", "goodput", "Mbit/s", "UTC", "00:01:00"] {
        assert!(texts.iter().any(|it| it == word), "{word}: {texts:?}");
    }
}

#[test]
fn round_trips_are_in_ms_and_their_axis_begins_near_the_least() {
    let points = points(&[150_000.0, 160_000.0]);
    let sheet = drawn(&points, ValueAxis::Delay, Vec::new()).expect("points");
    let dots = dots(&sheet);
    let apart = dots[0].1 - dots[1].1;
    assert!(apart > 60.0, "10 ms of 160 are seen: {apart}");
    let texts = texts(&sheet);
    for word in ["ms", "150", "160"] {
        assert!(texts.iter().any(|it| it == word), "{word}: {texts:?}");
    }
}

#[test]
fn periods_are_shaded_as_far_as_the_axis_goes() {
    let points = points(&[1e6, 2e6, 3e6, 4e6]);
    let period = |begin_us, end_us| TimePeriod { begin_us, end_us };
    let periods = vec![
        ("before", period(-100 * MINUTE_US, MINUTE_US)),
        ("after", period(2 * MINUTE_US, 100 * MINUTE_US)),
    ];
    let sheet = drawn(&points, ValueAxis::Rate, periods).expect("points");
    let shaded = numbers(&sheet, "rect", ["x", "width"]);
    let dots = dots(&sheet);
    assert_eq!(shaded.len(), 2);
    assert!((shaded[0].0 + shaded[0].1 - dots[1].0).abs() < 0.2, "{shaded:?} {dots:?}");
    assert!((shaded[1].0 - dots[2].0).abs() < 0.2, "{shaded:?} {dots:?}");
    let out_of_sight = vec![("before", period(-9 * MINUTE_US, -8 * MINUTE_US))];
    let sheet = drawn(&points, ValueAxis::Rate, out_of_sight).expect("points");
    assert!(!texts(&sheet).iter().any(|it| it == "before"));
}

#[test]
fn without_a_point_there_is_no_figure() {
    assert!(drawn(&[], ValueAxis::Rate, Vec::new()).is_none());
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
        let upward = if delay { ValueAxis::Delay } else { ValueAxis::Rate };
        let sheet = drawn(&points, upward, Vec::new()).expect("points");
        for (x, y) in dots(&sheet) {
            prop_assert!((MARGIN + LEFT..=WIDTH - MARGIN).contains(&x), "{x}");
            prop_assert!((TOP - 0.5..=HEIGHT - BOTTOM + 0.5).contains(&y), "{y}");
        }
        let lines = sheet.svg().lines().count() - points.len();
        prop_assert!(lines < 80, "{lines} marks for few values");
    }
}
