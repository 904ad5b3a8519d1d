//! Conclusions from any observation: none panics or takes long, and a report with them can be
//! stored and read again.

#![no_main]

use libfuzzer_sys::arbitrary::Unstructured;
use libfuzzer_sys::fuzz_target;
use longhaul_analysis::available_bandwidth::{PriorPathFacts, ProbeSchedule};
use longhaul_analysis::imported::convert_to_path_report;
use longhaul_analysis::path::{KnownRoute, PathCapacityEstimate, conclude_path};
use longhaul_analysis::predict::{derive_plan_from_scan, predict_goodput};
use longhaul_analysis::tune::{ProbeTrial, SearchSpent, SearchStart, SearchStep, SettingSearch};
use longhaul_fuzz::report_conclusions::conclude_again;
use longhaul_fuzz::report_input::{parse_report, read_report};
use longhaul_history::change_detection::{DetectionOptions, analyse_series};
use longhaul_model::report::v1::quantity::PathQuantity;
use longhaul_model::report::v1::{
    AnyReport, AvailableReport, PathReport, ScanReport, SeriesPoint, ThroughputReport,
};
use std::time::Duration;

/// No search and no schedule takes more steps.
const MAX_STEPS: usize = 1000;

fuzz_target!(|bytes: &[u8]| {
    let mut input = Unstructured::new(bytes);
    let Some(mut report) = read_report(&mut input) else {
        return;
    };
    let runs: Vec<ThroughputReport> = (0..3).filter_map(|_| read_run(&mut input)).collect();
    conclude_again(&mut report, &runs);
    check_stored(&report);
    match &report {
        AnyReport::Path(path) => conclude_known_path(path),
        AnyReport::Available(available) => follow_schedule(available),
        AnyReport::Scan(scan) => continue_scan(scan, &runs),
        AnyReport::Imported(imported) => {
            convert_to_path_report(imported);
        }
        _ => {}
    }
    find_changes(&mut input);
});

fn read_run(input: &mut Unstructured<'_>) -> Option<ThroughputReport> {
    match read_report(input)? {
        AnyReport::Throughput(run) => Some(*run),
        _ => None,
    }
}

/// A number that JSON does not have would make the report unreadable.
fn check_stored(report: &AnyReport) {
    let stored = serde_json::to_string(report).expect("JSON");
    let value = serde_json::from_str(&stored).expect("JSON");
    let again = parse_report(&value).unwrap_or_else(|| panic!("not read again: {stored}"));
    assert_eq!(again.kind(), report.kind());
}

fn conclude_known_path(path: &PathReport) {
    let routes = path.observation.route.iter().chain(&path.observation.route_reverse);
    let known: Vec<KnownRoute> = routes
        .zip(0..)
        .map(|(route, number)| KnownRoute {
            number,
            run_id: path.run.id.clone(),
            at: path.run.started_at.clone(),
            route: route.clone(),
            rtt_min_ns: path.analysis.rtt.as_ref().map(|rtt| rtt.min_ns),
            narrow_link: path.analysis.narrow_link.clone(),
        })
        .collect();
    let capacity = PathCapacityEstimate { bps: u64::MAX, interval_bps: Some([0, u64::MAX]) };
    conclude_path(&path.plan, &path.observation, &known, Some(capacity));
}

/// Gives the schedule of trains the observed ones, over and over.
fn follow_schedule(available: &AvailableReport) {
    let observation = &available.observation;
    for probing in [&observation.forward, &observation.reverse].into_iter().flatten() {
        let mut schedule = ProbeSchedule::new(&available.plan, PriorPathFacts::default());
        let mut observed = probing.trains.iter().cycle();
        let mut steps = 0;
        while let Some(trains) = schedule.next() {
            let results: Vec<_> = observed.by_ref().take(trains.len()).cloned().collect();
            schedule.record(&results);
            steps += 1;
            assert!(steps < MAX_STEPS, "a schedule that never ends");
        }
    }
}

/// Searches on with the runs of the scan, and predicts from it.
fn continue_scan(scan: &ScanReport, runs: &[ThroughputReport]) {
    for forward in [true, false] {
        if let Ok((plan, observation)) = derive_plan_from_scan(scan, runs, forward) {
            predict_goodput(&plan, &observation);
        }
    }
    let mut search = SettingSearch::new(&scan.plan, SearchStart::default());
    let mut spent = SearchSpent { probes: 0, bytes: 0, time: Duration::ZERO };
    while let SearchStep::Probe(probe) = search.next(spent) {
        let run = runs.get(spent.probes as usize % runs.len().max(1));
        search.record(match run {
            Some(run) => ProbeTrial::of(probe.setting, run),
            None => ProbeTrial::failed(probe.setting),
        });
        spent.probes += 1;
        assert!((spent.probes as usize) < MAX_STEPS, "a search that never ends");
    }
}

/// Looks for lasting changes in a series of any values.
fn find_changes(input: &mut Unstructured<'_>) {
    let mut points = Vec::new();
    while let (Ok(at_us), Ok(value)) = (input.arbitrary(), input.arbitrary()) {
        points.push(SeriesPoint { at_us, value });
        if input.is_empty() {
            break;
        }
    }
    let quantity = PathQuantity::ALL[points.len() % PathQuantity::ALL.len()];
    analyse_series(&points, quantity, &DetectionOptions::default());
}
