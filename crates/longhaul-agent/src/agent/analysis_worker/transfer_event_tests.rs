//! Reports of kind `flows` become events that name the limiter.

use super::*;
use crate::agent::flows_test_builder::{ArchiveFolder, build_run};
use crate::event_log::LogFormat;
use crate::token_store::TokenStore;
use crate::watch::watch_file::{SecretFileState, WatchFileContext, parse_watch_file};
use longhaul_model::report::v1::FlowsReport;
use longhaul_model::report::v1::analysis::{Limiter, LimiterShare};
use longhaul_store::RunEntry;
use longhaul_store::history_store::IncomingRun;
use std::path::Path;

const HOUR_US: i64 = 3_600_000_000;
const WATCH_FILE: &str = "[agent]\nname = \"here\"\n[[measure]]\nname = \"transfers\"\n\
                          kind = \"flows\"\nevery = \"1 h\"\n";

impl AnalysisThread {
    fn over(folder: &ArchiveFolder) -> (AnalysisThread, mpsc::Receiver<AnalysisResult>) {
        let context =
            WatchFileContext { agent: None, check_secret: &|_: &Path| SecretFileState::Private };
        let file = parse_watch_file("w", WATCH_FILE, &context).expect("a right file");
        let path = folder.0.join("archive");
        let open = Arc::new(move || Archive::open(&path));
        let tokens = TokenStore::of_archive(&folder.0.join("archive"));
        let (state, _) = SharedState::new(open, Arc::new(file), folder.0.clone(), tokens, 0);
        let (results, heard) = mpsc::channel(MAX_QUEUED_RESULTS);
        let log = AgentLog { format: LogFormat::Text };
        let archive = folder.open();
        let explanations = HashMap::new();
        (AnalysisThread { archive, state, log, results, explanations }, heard)
    }
}

fn limit(report: &mut FlowsReport, limiter: Limiter, goodput_bps: u64) {
    let run = &mut report.analysis.transfers[0].run;
    run.limited_by = limiter;
    run.goodput_bps = Some(goodput_bps);
    run.shares = vec![LimiterShare { state: limiter.to_string(), limiter, share_ratio: 1.0 }];
    report.findings[0].cause = limiter.to_string();
    report.findings[0].summary = format!("Limited by {limiter}");
}

fn stored(run: &IncomingRun) -> StoredRun {
    StoredRun {
        entry: Arc::new(RunEntry::from_run(run)),
        pairs: run.pairs.clone(),
        updated_series: run.readings.iter().map(|it| (it.pair.clone(), it.quantity)).collect(),
        was_stored_before: false,
    }
}

/// The window closes twenty hours ago, at this ratio of the rate.
fn find_events(name: &str, ratio: f64) -> Vec<ChangeEvent> {
    let folder = ArchiveFolder::new(name);
    let (mut thread, _heard) = AnalysisThread::over(&folder);
    let now_us = clocks::read_wall_us();
    for hour in 0..60_u32 {
        let at_us = now_us - i64::from(60 - hour) * HOUR_US;
        let noise = u64::from(hour % 7) * 1_000_000;
        let run = build_run(hour, at_us, |report| {
            if hour < 40 {
                limit(report, Limiter::PathCapacity, 400_000_000 + noise);
            } else {
                let bps = 400_000_000.0 * ratio;
                limit(report, Limiter::ReceiveWindow, bps as u64 + noise);
            }
        });
        thread.archive.append_runs(std::slice::from_ref(&run)).expect("stored");
        thread.analyze_run(&stored(&run), None).expect("analysed");
    }
    let filter = EventFilter::newest(MAX_EARLIER_EVENTS);
    thread.archive.events(&filter).expect("events")
}

#[test]
fn a_slower_transfer_is_an_event_that_names_its_new_limiter() {
    let events = find_events("slower", 0.4);
    let event = events.iter().find(|it| it.quantity == PathQuantity::Goodput).expect("an event");
    assert_eq!((event.pair.from.as_str(), event.pair.to.as_str()), ("here/rclone", "10.77.0.2"));
    assert_eq!(event.state, EventState::Confirmed);
    let cause = event.causes.first().expect("a cause");
    assert_eq!(cause.cause, "transfer_limiter");
    let told = "rclone to 10.77.0.2 has been limited by the receive window since ";
    assert!(cause.summary.starts_with(told), "{}", cause.summary);
    assert!(cause.summary.ends_with("and by the capacity of the path before"), "{}", cause.summary);
    assert_eq!(cause.supports[0], "Limited by receive_window");
    assert!(!cause.advice.is_empty());
}

#[test]
fn another_limiter_at_the_same_rate_is_an_event_too() {
    let events = find_events("same-rate", 1.0);
    let quantities: Vec<_> = events.iter().map(|it| it.quantity).collect();
    assert_eq!(quantities, [PathQuantity::HostShare]);
    assert_eq!(events[0].causes[0].cause, "transfer_limiter");
    assert!((events[0].before.median, events[0].after.median) == (0.0, 1.0), "{:?}", events[0]);
}
