//! Figures of cases and asymmetries: their number and content.

use super::*;
use longhaul_model::report::v1::asymmetry::{AsymmetryVerdict, MatchedRuns};
use longhaul_model::report::v1::comparison::TimePeriod;
use longhaul_model::report::v1::scan::HistogramBin;

const HOUR_US: i64 = 3_600_000_000;

fn pair(from: &str, to: &str) -> HostPair {
    HostPair { from: from.to_owned(), to: to.to_owned() }
}

fn series(pair: HostPair, quantity: PathQuantity, values: &[f64]) -> QuantitySeries {
    let points =
        (0..).zip(values).map(|(hour, &value)| SeriesPoint { at_us: hour * HOUR_US, value });
    QuantitySeries { pair, quantity, points: points.collect(), buckets: Vec::new() }
}

fn case(series: Vec<QuantitySeries>) -> (CaseReport, PathCase) {
    let period = |begin, end| TimePeriod { begin_us: begin * HOUR_US, end_us: end * HOUR_US };
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
        before: period(0, 2),
        after: period(2, 4),
        event_id: None,
        paths: Vec::new(),
        caveats: Vec::new(),
    };
    (case, path)
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
    let (case, path) = case(vec![
        series(there.clone(), PathQuantity::Goodput, &rates),
        series(back, PathQuantity::Goodput, &rates),
        series(there.clone(), PathQuantity::RttFloor, &[165e3; 2]),
        series(there, PathQuantity::Available, &[]),
    ]);
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
fn an_asymmetry_is_shown_over_time() {
    let matched = |hour: i64, forward_bps: u64, reverse_bps: u64| {
        let (forward, reverse) = (forward_bps as f64, reverse_bps as f64);
        MatchedRuns {
            at_us: hour * HOUR_US,
            apart_us: 1,
            forward_bps,
            reverse_bps,
            forward_by_reverse_ratio: forward / reverse,
            asymmetry_ratio: (forward - reverse) / (forward + reverse),
        }
    };
    let mut path = PathAsymmetry {
        pair: pair("slac", "daresbury"),
        period: None,
        matched: vec![matched(0, 9_000_000, 3_000_000), matched(1, 9_100_000, 3_000_000)],
        unmatched_run_counts: [0, 0],
        median_ratio: Some(3.0),
        median_interval_ratio: None,
        p_value: None,
        verdict: AsymmetryVerdict::CannotTell,
        histogram: vec![HistogramBin { from_ratio: 0.5, to_ratio: 0.6, cells: 2 }],
        causes: Vec::new(),
    };
    let (svg, _) = draw_asymmetry_figure(&path).expect("runs");
    let values = svg.matches("<circle").count();
    assert_eq!(values, 4 + 2, "both ways of both, and two in the key");
    path.matched.clear();
    assert!(draw_asymmetry_figure(&path).is_none(), "without runs there is no figure");
}
