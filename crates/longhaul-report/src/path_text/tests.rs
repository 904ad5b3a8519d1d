//! Reports of paths as text: what must be in it, and that it fits.

use super::{build_path_document, format_ms};
use crate::text_page::WIDTH;
use longhaul_model::report::v1::PathReport;

fn fixture(name: &str) -> PathReport {
    let text = match name {
        "long" => include_str!("../../../../fixtures/reports/path-sanjose-lulea.json"),
        "changed" => include_str!("../../../../fixtures/reports/path-slac-cesnet-change.json"),
        _ => include_str!("../../../../fixtures/reports/path-balanced-v6.json"),
    };
    serde_json::from_str(text).expect("the fixture is a report")
}

fn plain(report: &PathReport) -> String {
    anstream::adapter::strip_str(&super::build_path_document(report).text()).to_string()
}

fn line<'a>(text: &'a str, begin: &str) -> &'a str {
    let found = text.lines().find(|line| line.starts_with(begin));
    found.unwrap_or_else(|| panic!("no line begins with `{begin}`:\n{text}"))
}

#[test]
fn every_line_fits_80_columns() {
    for name in ["long", "changed", "balanced"] {
        for line in plain(&fixture(name)).lines() {
            assert!(line.chars().count() <= WIDTH, "{name}: {line}");
        }
    }
}

#[test]
fn no_link_delay_is_negative_and_slow_answers_have_none() {
    let text = plain(&fixture("long"));
    assert!(!text.contains(" -0.") && !text.contains(" -1"), "{text}");
    let slow = line(&text, "19s ");
    assert!(slow.ends_with('-'), "{slow}");
    assert!(text.contains("s  answers slowly"), "{text}");
}

#[test]
fn silent_and_rate_limited_hops_are_told_apart() {
    let text = plain(&fixture("long"));
    assert_eq!(line(&text, " 8 "), " 8   *  no answer to 3 probes");
    assert!(line(&text, "12r ").contains("67 %"), "{text}");
    assert!(text.contains("r  limits the rate of its answers"), "{text}");
    let folded = line(&text, "12-17");
    assert!(folded.ends_with("*  no answer to 18 probes"), "{folded}");
}

#[test]
fn the_way_back_is_compared_with_the_way_there() {
    let text = plain(&fixture("long"));
    assert!(line(&text, "REVERSE ROUTE").contains("41 hops"), "{text}");
    assert!(line(&text, "symmetry").contains("3 of 4 autonomous systems"), "{text}");
}

#[test]
fn a_change_names_ranges_and_step_and_the_narrow_link_its_hops() {
    let text = plain(&fixture("changed"));
    assert!(line(&text, "ROUTE 2").contains("13 hops"), "{text}");
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    for part in [
        "several hops differ, compared with route 1; hops 5-11 replaced by hops 5-7; RTT -0.200 ms",
        "link, between hop 7 and hop 8; confidence 97 % the queue grew between hop 7 (192.0.2.7) and hop 8",
        "path capacity 622 Mbit/s (598 Mbit/s to 641 Mbit/s)",
        "10 % lost (95 % interval",
        "offered by both ends but not negotiated: selective acknowledgements",
        "missing: reverse: the far end",
    ] {
        assert!(words.contains(part), "{part}:\n{text}");
    }
}

#[test]
fn alternatives_stand_under_their_hop_with_their_flows() {
    let text = plain(&fixture("balanced"));
    let address = "2001:db8:a1b2:c3d4:e5f6:1234:5678:9a41";
    let drawn = text.lines().find(|line| line.contains(address));
    let drawn = drawn.expect("the alternative");
    assert!(drawn.starts_with(" ├ ") && drawn.ends_with("flows"), "{drawn}");
    assert!(text.contains(" └   2001:db8:a1b2:c3d4:e5f6:1234:5678:9a42"), "{text}");
    assert!(text.contains("AS4200000005"), "{text}");
    assert!(text.contains("black hole"), "{text}");
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("rewritten upstream: dscp"), "{text}");
}

#[test]
fn a_report_of_silence_is_a_page_too() {
    let mut silent = fixture("balanced");
    silent.observation = longhaul_model::report::v1::path::PathObservation {
        address: "192.0.2.1".to_owned(),
        ..Default::default()
    };
    silent.analysis = longhaul_model::report::v1::path::PathAnalysis::default();
    let text = build_path_document(&silent).text();
    assert!(text.contains("run 20260911T142200Z-aa01cd"), "{text}");
}

#[test]
fn times_fit_their_column() {
    for (ns, text) in [
        (0, "0.000"),
        (9_999_499, "9.999"),
        (9_999_999, "10.0"),
        (436_612_345, "436.6"),
        (9_999_949_999, "9999.9"),
        (30_000_400_000, "30000"),
    ] {
        assert_eq!(format_ms(ns), text);
    }
}
