//! Evidence from a search for better settings that an event requested.

use super::event_evidence::DatedReport;
use longhaul_history::event::EventExplanation;
use longhaul_model::report::v1::event::ChangeEvent;
use longhaul_model::report::v1::quantity::PathQuantity;
use longhaul_model::report::v1::scan::{SettingChoice, TransferSetting};
use longhaul_model::report::v1::{AnyReport, FindingAdvice, ReportFinding};
use longhaul_model::units::Bytes;
use longhaul_report::number_format::{count_of, format_rate};

/// The minimum ratio of the found setting's goodput to that of the runs since the event.
const MIN_GAIN: f64 = 1.1;
/// The confidence of a cause that a measured better setting confirms.
const CONFIRMED_CONFIDENCE_RATIO: f64 = 0.95;

/// Adds the newest search since the event to the causes.
pub fn add_tuning_cause(
    event: &ChangeEvent,
    reports: &[DatedReport],
    explained: &mut EventExplanation,
) {
    let better =
        |choice: &&SettingChoice| choice.goodput_bps as f64 > event.after.median * MIN_GAIN;
    let scans = reports.iter().filter(|it| matches!(it.report, AnyReport::Scan(_)));
    let newest = scans.max_by_key(|it| it.at_us);
    let found = newest.and_then(find_recommendation).filter(better);
    let Some(found) = found.filter(|_| event.quantity == PathQuantity::Goodput) else {
        return;
    };
    let text = format!(
        "a scan after the event found {}, which reached {} instead of {}",
        describe_setting(&found.setting),
        format_rate(found.goodput_bps),
        format_rate(event.after.median as u64)
    );
    let advice = FindingAdvice {
        place: "initiator".to_owned(),
        text: format!("Use {}.", describe_setting(&found.setting)),
        command: None,
        expected_bps: Some(found.goodput_bps),
    };
    let causes = &mut explained.causes;
    if causes.is_empty() {
        causes.push(build_finding(event));
    }
    // With another cause, a better setting may have existed before the event too.
    let Some(finding) = causes.iter_mut().find(|it| it.cause == "retune") else {
        return;
    };
    finding.confidence_ratio = CONFIRMED_CONFIDENCE_RATIO;
    finding.supports.insert(0, text);
    finding.advice.insert(0, advice);
    causes.sort_by(|a, b| b.confidence_ratio.total_cmp(&a.confidence_ratio));
}

/// Returns the recommended setting in the direction of the event.
fn find_recommendation(dated: &DatedReport) -> Option<&SettingChoice> {
    let AnyReport::Scan(scan) = &dated.report else {
        return None;
    };
    let mut directions = scan.analysis.directions.iter();
    let same = directions.find(|it| it.forward == dated.forward)?;
    same.recommended.as_ref()
}

fn build_finding(event: &ChangeEvent) -> ReportFinding {
    ReportFinding {
        cause: "retune".to_owned(),
        summary: format!(
            "The setting no longer fits the path: another one is faster than the {} of the runs",
            format_rate(event.after.median as u64)
        ),
        confidence_ratio: CONFIRMED_CONFIDENCE_RATIO,
        supports: Vec::new(),
        contradicts: Vec::new(),
        advice: Vec::new(),
    }
}

fn describe_setting(setting: &TransferSetting) -> String {
    let window = setting.window_bytes.map_or_else(
        || "autotuned windows".to_owned(),
        |bytes| format!("windows of {}", Bytes(bytes)),
    );
    let control = setting.congestion_control.as_ref();
    let control = control.map_or_else(String::new, |name| format!(", {name}"));
    format!("{} with {window}{control}", count_of(u64::from(setting.streams), "stream"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use longhaul_model::report::v1::event::{EventState, QuantityLevel};
    use longhaul_model::report::v1::series::HostPair;

    const SCAN: &str = include_str!("../../../../../fixtures/reports/scan-guided.json");

    fn event(after: f64) -> ChangeEvent {
        let level = |median| QuantityLevel { median, deviation: 0.0, samples: 10 };
        ChangeEvent {
            id: "goodput-1".to_owned(),
            pair: HostPair { from: "a".to_owned(), to: "b".to_owned() },
            quantity: PathQuantity::Goodput,
            state: EventState::Confirmed,
            between_us: [0, 10],
            before: level(2.0 * after),
            after: level(after),
            change_ratio: Some(0.5),
            score: 2.0,
            autocorrelation: 0.0,
            announced_at_us: 10,
            recovered_by: None,
            causes: Vec::new(),
            unchanged: Vec::new(),
            scope: None,
            follow_ups: Vec::new(),
        }
    }

    fn scan() -> DatedReport {
        let scan = serde_json::from_str(SCAN).expect("a report");
        DatedReport { at_us: 20, forward: true, report: AnyReport::Scan(Box::new(scan)) }
    }

    #[test]
    fn a_setting_that_gives_more_is_the_first_cause_with_its_proof() {
        let found = find_recommendation(&scan()).expect("a choice").goodput_bps;
        let mut explained = EventExplanation::default();
        add_tuning_cause(&event(found as f64 / 2.0), &[scan()], &mut explained);
        let first = &explained.causes[0];
        assert_eq!(first.cause, "retune");
        assert_eq!(first.advice[0].expected_bps, Some(found));
        assert!(first.supports[0].contains("stream"), "{first:?}");
    }

    #[test]
    fn beside_another_cause_a_better_setting_is_no_cause() {
        let found = find_recommendation(&scan()).expect("a choice").goodput_bps;
        let mut explained = EventExplanation::default();
        explained.causes.push(ReportFinding {
            cause: "shaper_appeared".to_owned(),
            ..build_finding(&event(1.0))
        });
        let before = explained.clone();
        add_tuning_cause(&event(found as f64 / 2.0), &[scan()], &mut explained);
        assert_eq!(explained, before);
    }

    #[test]
    fn a_setting_that_gives_no_more_proves_nothing() {
        let found = find_recommendation(&scan()).expect("a choice").goodput_bps;
        let mut explained = EventExplanation::default();
        add_tuning_cause(&event(found as f64), &[scan()], &mut explained);
        assert_eq!(explained, EventExplanation::default());
    }
}
