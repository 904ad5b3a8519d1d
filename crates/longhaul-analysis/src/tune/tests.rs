//! The search against small models of real paths.

mod model;
mod properties;

use super::{aggregate_trials, choose_smallest, *};
use longhaul_model::report::v1::analysis::Limiter;
use longhaul_model::report::v1::plan;
use longhaul_model::report::v1::scan::{self, ScanBudget, ScanPlan};
use model::{MIB, Model, limits};

fn plan() -> ScanPlan {
    ScanPlan {
        search: scan::SearchMode::Guided,
        direction: plan::RunDirection::Forward,
        windows_bytes: Vec::new(),
        streams: Vec::new(),
        congestion_controls: Vec::new(),
        repeats: 1,
        seed: 0,
        present: None,
        budget: ScanBudget { probes: 10, time_us: 600_000_000, bytes: None },
        probe: plan::ThroughputPlan::default(),
    }
}

fn drive(
    mut search: SettingSearch,
    path: impl Fn(TransferSetting) -> ProbeTrial,
) -> (SettingSearch, u32, SearchStop) {
    let mut spent = SearchSpent::default();
    loop {
        match search.next(spent) {
            SearchStep::Done(stop) => return (search, spent.probes, stop),
            SearchStep::Probe(probe) => {
                assert!(!probe.why.is_empty() && probe.time.usual >= Duration::from_secs(2));
                search.record(path(probe.setting));
                spent.probes += 1;
                spent.time += probe.time.longest;
            }
        }
    }
}

/// Returns the smallest setting within 2 % of the best.
fn choose(search: &SettingSearch) -> Option<&TransferSetting> {
    choose_smallest(&aggregate_trials(search.trials())).map(|it| it.setting)
}

fn tuned(model: &Model) -> (TransferSetting, f64, u32, SearchStop) {
    let search = SettingSearch::new(&plan(), SearchStart::default());
    let (search, probes, stop) = drive(search, |s| model.probe(s));
    let choice = choose(&search).unwrap().clone();
    let bps = model.truth(&choice).0;
    (choice, bps, probes, stop)
}

#[test]
fn a_path_that_one_stream_fills_needs_one_stream() {
    let (choice, bps, probes, stop) = tuned(&Model::sdsc());
    assert_eq!(choice, TransferSetting::default());
    assert_eq!((bps, stop), (122e6, SearchStop::Settled));
    assert!(probes <= 4, "{probes}");
}

#[test]
fn a_long_fat_path_gets_its_windows() {
    let (choice, bps, probes, _) = tuned(&Model::geneva());
    assert!(bps >= 0.95 * 6.18e9 && probes <= 8, "{choice:?} {probes}");
}

#[test]
fn where_no_window_may_be_asked_streams_carry_it() {
    let stingy = Model {
        sender: limits(212_992, 4 * MIB),
        receiver: limits(212_992, 6 * MIB),
        ..Model::geneva()
    };
    let (choice, bps, probes, _) = tuned(&stingy);
    assert_eq!(choice.window_bytes, None);
    assert!(bps >= 0.95 * 6.18e9 && probes <= 8, "{choice:?} {probes}");
    assert!(choice.streams <= 64, "{choice:?}");
}

#[test]
fn a_clipped_host_gets_just_enough_streams() {
    let (choice, bps, probes, _) = tuned(&Model::daresbury());
    assert!(bps >= 0.95 * 9.5e6 && probes <= 8, "{choice:?} {probes}");
    assert!(choice.streams <= 4, "{choice:?}");
}

#[test]
fn loss_gets_streams_and_bbr_where_it_may() {
    let (choice, bps, probes, _) = tuned(&Model::cesnet());
    assert!(bps >= 0.95 * 300e6 && probes <= 8, "{choice:?} {probes}");
    assert!((32..=48).contains(&choice.streams), "{choice:?}");
    let (choice, bps, probes, _) = tuned(&Model { bbr: true, ..Model::cesnet() });
    assert_eq!(choice.congestion_control.as_deref(), Some("bbr"));
    assert!(bps >= 0.95 * 300e6 && probes <= 8, "{choice:?} {probes}");
}

#[test]
fn a_policed_path_is_paced() {
    let (choice, _, probes, stop) = tuned(&Model { policed_bps: 40e6, ..Model::sdsc() });
    assert_eq!((choice.pacing_bps, choice.streams), (Some(38_000_000), 1));
    assert!(stop == SearchStop::Policed && probes <= 4, "{stop:?} {probes}");
}

#[test]
fn an_application_is_left_alone_once_more_streams_did_not_help() {
    let slow = |setting: TransferSetting| ProbeTrial {
        goodput_bps: Some(50_000_000),
        interval_bps: Some([49_900_000, 50_100_000]),
        limiter: Limiter::Application,
        ..ProbeTrial::failed(setting)
    };
    let (search, probes, stop) = drive(SettingSearch::new(&plan(), SearchStart::default()), slow);
    assert_eq!((choose(&search), probes), (Some(&TransferSetting::default()), 2));
    assert_eq!(stop, SearchStop::Application);
}

#[test]
fn what_is_remembered_and_still_holds_takes_two_probes() {
    let (choice, bps, ..) = tuned(&Model::geneva());
    let start = SearchStart {
        remembered: Some(RememberedSetting { setting: choice.clone(), goodput_bps: bps as u64 }),
        ..SearchStart::default()
    };
    let search = SettingSearch::new(&plan(), start.clone());
    let SearchStep::Probe(first) = search.next(SearchSpent::default()) else {
        panic!("nothing measured");
    };
    assert_eq!(first.setting, choice);
    let (_, probes, stop) = drive(search, |s| Model::geneva().probe(s));
    assert_eq!((probes, stop), (2, SearchStop::Settled));
    let lossy = Model { loss_bps: 50e6, ..Model::geneva() };
    let search = SettingSearch::new(&plan(), start);
    let (search, probes, _) = drive(search, |s| lossy.probe(s));
    assert!(probes > 2);
    assert!(lossy.truth(choose(&search).unwrap()).0 >= 0.95 * 6.18e9);
}

#[test]
fn a_probe_whose_rate_settles_gets_more_time_while_the_budget_has_it() {
    let start = SearchStart { idle_rtt: Some(Duration::from_millis(20)), ..SearchStart::default() };
    let time_after = |spent_s| {
        let budget = ScanBudget { probes: 10, time_us: 20_000_000, bytes: None };
        let search = SettingSearch::new(&ScanPlan { budget, ..plan() }, start.clone());
        let spent = SearchSpent { time: Duration::from_secs(spent_s), ..SearchSpent::default() };
        match search.next(spent) {
            SearchStep::Probe(probe) => Ok(probe.time),
            SearchStep::Done(stop) => Err(stop),
        }
    };
    let usual = time_after(0).expect("a probe").usual;
    assert_eq!(time_after(0), Ok(ProbeTime { usual, longest: 2 * usual }));
    assert!((usual..2 * usual).contains(&time_after(16).expect("a probe").longest));
    assert_eq!(time_after(18), Err(SearchStop::Time));
}

/// A managed queue drops one packet of one stream's slow start, except in the first such run.
fn probe_managed_queue(setting: TransferSetting, runs_before: usize) -> ProbeTrial {
    let is_bbr = setting.congestion_control.is_some();
    let is_lucky = is_bbr || setting.window_bytes.is_none() || runs_before == 0;
    let mbps = match (setting.window_bytes, setting.streams) {
        (None, streams) => 7 * u64::from(streams).min(12),
        (Some(_), streams) if is_lucky => 84 + u64::from(streams) / 8,
        (Some(_), streams) => 32 + 9 * u64::from(streams.min(4)),
    };
    ProbeTrial {
        goodput_bps: Some(mbps * 1_000_000),
        limiter: match setting.window_bytes {
            None => Limiter::ReceiveWindow,
            Some(_) if is_lucky => Limiter::PathCapacity,
            Some(_) => Limiter::Unknown,
        },
        idle_rtt: Some(Duration::from_millis(80)),
        loss_ratio: Some(if is_lucky { 0.0 } else { 3e-5 }),
        permitted: vec!["cubic".to_owned(), "bbr".to_owned()],
        ..Model::geneva().probe(setting)
    }
}

#[test]
fn a_rate_that_was_lucky_once_is_probed_again_and_bbr_is_tried() {
    let runs = std::cell::Cell::new(0);
    let search = SettingSearch::new(&plan(), SearchStart::default());
    let (search, ..) = drive(search, |setting| {
        let before = runs.get();
        let is_single = setting.window_bytes.is_some() && setting.streams == 1;
        runs.set(before + usize::from(is_single));
        probe_managed_queue(setting, before)
    });
    let choice = choose(&search).unwrap();
    assert_eq!(choice.congestion_control.as_deref(), Some("bbr"));
    let lucky = &search.trials()[1].setting;
    let repeats = search.trials().iter().filter(|trial| trial.setting == *lucky);
    assert_eq!(repeats.count(), 2);
}

#[test]
fn a_path_that_fails_ends_the_search() {
    let (search, probes, stop) =
        drive(SettingSearch::new(&plan(), SearchStart::default()), ProbeTrial::failed);
    assert_eq!((choose(&search), probes, stop), (None, 2, SearchStop::Settled));
}

#[test]
fn a_budget_ends_the_search_before_it_is_passed() {
    let stop_of = |budget| {
        let plan = ScanPlan { budget, ..plan() };
        drive(SettingSearch::new(&plan, SearchStart::default()), |s| Model::geneva().probe(s)).2
    };
    let budget = plan().budget;
    assert_eq!(stop_of(ScanBudget { probes: 2, ..budget }), SearchStop::Probes);
    let time_us = 25_000_000;
    assert_eq!(stop_of(ScanBudget { time_us, ..budget }), SearchStop::Time);
    let bytes = Some(100);
    assert_eq!(stop_of(ScanBudget { bytes, ..budget }), SearchStop::Bytes);
}
