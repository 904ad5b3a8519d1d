//! Small archives for tests: bulk runs and traces between `slac` and `cesnet`.

use super::{ArchivedPath, ArchivedRun};
use crate::path_test_builder::build_route;
use longhaul_model::report::v1::analysis::{self, Limiter, RunTotals};
use longhaul_model::report::v1::copy::{CopyAnalysis, CopyLimiter, CopyObservation, CopyPlan};
use longhaul_model::report::v1::observation::{
    BothEnds, EndObservation, ObservedStream, StreamEnd, ThroughputObservation,
};
use longhaul_model::report::v1::path::{self, ProbeProtocol};
use longhaul_model::report::v1::plan::{RunDirection, ThroughputPlan};
use longhaul_model::report::v1::{
    AnyReport, HostPair, Report, ReportKind, RunInfo, RunParty, SCHEMA, ThroughputReport,
};

pub const MINUTE_US: i64 = 60_000_000;
#[derive(Default)]
pub struct TestArchive {
    pub runs: Vec<ArchivedRun>,
}

impl TestArchive {
    pub fn material(&self) -> ArchivedPath<'_> {
        let pair = HostPair { from: String::from("slac"), to: String::from("cesnet") };
        ArchivedPath::new(pair, &self.runs, &[])
    }

    /// Adds a bulk run with this goodput at this minute.
    pub fn run(&mut self, minute: i64, forward: bool, bps: f64) {
        let id = format!("bulk-{minute}-{forward}");
        let mut report = build_archived_run(
            (ReportKind::Throughput, minute, &id),
            ThroughputPlan::default(),
            build_observation(forward),
            build_analysis(bps as u64),
        );
        if !forward {
            report.plan.direction = RunDirection::Reverse;
        }
        self.push(minute, id, AnyReport::Throughput(Box::new(report)));
    }

    /// Changes the latest bulk run.
    pub fn change_last(&mut self, change: impl FnOnce(&mut ThroughputReport)) {
        let last = self.runs.last_mut().expect("there is a run");
        let AnyReport::Throughput(report) = &mut last.report else {
            panic!("the latest is a bulk run");
        };
        change(report);
    }

    /// Adds a copy that this limited to a rate.
    pub fn copy(&mut self, minute: i64, forward: bool, limited_by: CopyLimiter, bps: u64) {
        let id = format!("copy-{minute}");
        let plan = CopyPlan { forward, ..CopyPlan::default() };
        let judged = CopyAnalysis { limited_by, goodput_bps: Some(bps), ..CopyAnalysis::default() };
        let seen = CopyObservation::default();
        let report = build_archived_run((ReportKind::Copy, minute, &id), plan, seen, judged);
        self.push(minute, id, AnyReport::Copy(Box::new(report)));
    }

    /// Adds a path report with a traced route of these hops.
    pub fn trace(&mut self, minute: i64, addresses: &[&str]) {
        let id = format!("path-{minute}");
        let plan = path::PathPlan::without_probes(ProbeProtocol::Udp);
        let seen = path::PathObservation {
            route: Some(build_route(addresses)),
            ..path::PathObservation::default()
        };
        let judged = path::PathAnalysis::default();
        let report = build_archived_run((ReportKind::Path, minute, &id), plan, seen, judged);
        self.push(minute, id, AnyReport::Path(Box::new(report)));
    }

    fn push(&mut self, minute: i64, run_id: String, report: AnyReport) {
        self.runs.push(ArchivedRun {
            at_us: minute * MINUTE_US,
            run_id,
            near: String::from("slac"),
            far: String::from("cesnet"),
            report,
        });
    }
}

/// Returns the time `minute` minutes after the start of 1970.
fn unix_us_of_minute(minute: i64) -> String {
    let (day, minute) = (minute / 1440, minute % 1440);
    format!("1970-01-{:02}T{:02}:{:02}:00Z", day + 1, minute / 60, minute % 60)
}

fn build_archived_run<P, O, A>(
    (kind, minute, id): (ReportKind, i64, &str),
    plan: P,
    observation: O,
    analysis: A,
) -> Report<P, O, A> {
    let party = |host: &str| RunParty { host: host.to_owned(), ..RunParty::default() };
    Report {
        schema: SCHEMA.to_owned(),
        kind,
        run: RunInfo {
            id: id.to_owned(),
            started_at: unix_us_of_minute(minute),
            duration_us: 10_000_000,
            longhaul: String::from("0"),
            initiator: party("slac"),
            responder: party("cesnet"),
            part_of: None,
            environment: None,
        },
        plan,
        observation,
        analysis,
        findings: Vec::new(),
        caveats: Vec::new(),
    }
}

fn build_observation(forward: bool) -> ThroughputObservation {
    ThroughputObservation {
        forward,
        elapsed_us: 10_000_000,
        idle_rtt_us: None,
        clock_error_us: None,
        same_host: false,
        same_boot: None,
        streams: vec![ObservedStream {
            index: 0,
            sender: StreamEnd::default(),
            receiver: StreamEnd::default(),
        }],
        ends: BothEnds { sender: EndObservation::default(), receiver: EndObservation::default() },
        reverse: None,
    }
}

fn build_analysis(bps: u64) -> analysis::ThroughputAnalysis {
    analysis::ThroughputAnalysis {
        version: 1,
        goodput_bps: Some(bps),
        goodput_interval_bps: None,
        mean_goodput_bps: None,
        steady: None,
        ramp_us: None,
        rtt_us: None,
        limited_by: Limiter::PathCapacity,
        confidence_ratio: 0.8,
        shares: Vec::new(),
        bounds: Vec::new(),
        next_limit: None,
        totals: RunTotals::default(),
        streams: Vec::new(),
        reverse: None,
    }
}
