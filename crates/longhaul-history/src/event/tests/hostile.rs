//! Nothing that strangers or people wrote acts on a terminal or a mail.

use super::super::change_evidence::HostRole;
use super::super::event_test_builder::{HOUR, build_goodput_drop};
use super::super::{build_operator_report, explain_event};
use longhaul_model::report::v1::ReportFinding;

const EVIL: &str = "gw\u{1b}]0;owned\u{7}\u{1b}[2J\r\nBcc: everyone\n\u{202e}gpj.exe\u{0}\u{9b}31m<script>alert(1)</script>";

fn harmless(text: &str) {
    for c in text.chars() {
        let fine = (c == '\n' || !c.is_control()) && !('\u{200b}'..='\u{2069}').contains(&c);
        assert!(fine, "{c:?} in {text:?}");
    }
}

fn findings(all: &[ReportFinding]) {
    for finding in all {
        let lines = finding.supports.iter().chain(&finding.contradicts);
        for line in lines.chain([&finding.summary]).chain(finding.advice.iter().map(|a| &a.text)) {
            harmless(line);
            assert!(!line.contains('\n'), "{line:?}");
        }
    }
}

#[test]
fn hostile_names_are_made_harmless_everywhere() {
    let mut sketch = build_goodput_drop();
    sketch.set_pair(EVIL, &EVIL.repeat(50));
    sketch
        .trace(-HOUR, &["10.1.0.1", EVIL, "10.9.0.1"])
        .trace(HOUR, &["10.1.0.1", "10.7.0.1", &EVIL.repeat(9)]);
    for (at, value) in [(-HOUR, "1"), (HOUR, EVIL)] {
        sketch.audit(
            at,
            HostRole::Sender,
            &[("net.ipv4.tcp_sack", value), (EVIL, value), ("interface.driver", value)],
        );
        sketch.run(at, |report| {
            report.observation.ends.sender.host.kernel = value.to_owned();
            report.plan.congestion_control = Some(value.to_owned());
        });
    }
    let (event, evidence) = (sketch.event(), sketch.evidence());
    let explained = explain_event(&event, &evidence);
    assert!(!explained.causes.is_empty());
    findings(&explained.causes);
    explained.unchanged.iter().for_each(|line| harmless(line));
    let text = build_operator_report(&event, &explained, &evidence).to_text();
    harmless(&text);
    assert!(text.lines().all(|line| line.chars().count() <= 78), "{text}");
    assert!(!text.lines().any(|line| line.starts_with("Bcc")), "{text}");
}

#[test]
fn numbers_without_sense_do_no_harm() {
    for (before, after) in [
        (0.0, 0.0),
        (0.0, 5e6),
        (5e6, 0.0),
        (f64::NAN, 1.0),
        (1.0, f64::INFINITY),
        (f64::MAX, f64::MIN),
    ] {
        for extreme in [i64::MIN, i64::MAX, 0] {
            let mut sketch = build_goodput_drop();
            sketch
                .trace(-HOUR, &["10.1.0.1"])
                .trace(HOUR, &["10.2.0.1"])
                .rtt(-HOUR, before)
                .rtt(HOUR, after);
            sketch.estimate(-HOUR, before, after, None).estimate(HOUR, after, before, None);
            let mut event = sketch.event();
            event.before.median = before;
            event.after.median = after;
            event.change_ratio = None;
            event.between_us[0] = extreme.min(event.between_us[0]);
            event.between_us[1] = extreme.max(event.between_us[1]);
            let evidence = sketch.evidence();
            let explained = explain_event(&event, &evidence);
            for cause in &explained.causes {
                assert!((0.0..=1.0).contains(&cause.confidence_ratio), "{cause:?}");
            }
            harmless(&build_operator_report(&event, &explained, &evidence).to_text());
        }
    }
}
