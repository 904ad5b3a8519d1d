//! Builds events and their evidence for tests.

use super::change_evidence::{ChangeEvidence, EvidenceReport, HostRole, RouteChangeBaseRate};
use super::event_case::EventCase;
use crate::path_test_builder;
use longhaul_model::report::v1::analysis::{self, Limiter};
use longhaul_model::report::v1::available::{
    self, AvailableEstimate, AvailableMode, EstimateVerdict, TokenBucketEstimate, TokenBucketKind,
};
use longhaul_model::report::v1::observation::{self, BothEnds, EndObservation};
use longhaul_model::report::v1::path::{ObservedRoute, PathMtu, PathRtt};
use longhaul_model::report::v1::plan::ThroughputPlan;
use longhaul_model::report::v1::quantity::PathQuantity;
use longhaul_model::report::v1::{
    AvailableReport, ChangeEvent, EventState, HostPair, HostReport, PathReport, QuantityLevel,
    ReportFinding, ReportKind, RunInfo, RunParty, SCHEMA, SeriesPoint, ThroughputReport, host,
};

pub const MINUTE: i64 = 60_000_000;
pub const HOUR: i64 = 60 * MINUTE;
pub const DAY: i64 = 24 * HOUR;
/// 2003-06-11 22:45 UTC, when SLAC moved to ESnet. All times are relative to it.
pub const T0: i64 = 1_055_371_500_000_000;

/// Owned evidence around one event.
pub struct EvidenceBuilder {
    event: ChangeEvent,
    paths: Vec<(i64, PathReport)>,
    throughput: Vec<(i64, ThroughputReport)>,
    available: Vec<(i64, AvailableReport)>,
    audits: Vec<(i64, HostRole, HostReport)>,
    rtt: Vec<SeriesPoint>,
    pub base_rate: Option<RouteChangeBaseRate>,
    pub earlier: Vec<ChangeEvent>,
}

/// Goodput from slac to cesnet that fell from 250 to 150 Mbit/s, within half an hour of `T0`.
pub fn build_goodput_drop() -> EvidenceBuilder {
    build_level_step(PathQuantity::Goodput, 250e6, 150e6)
}

pub fn build_level_step(quantity: PathQuantity, before: f64, after: f64) -> EvidenceBuilder {
    let level = |median: f64| QuantityLevel { median, deviation: median / 20.0, samples: 24 };
    EvidenceBuilder {
        event: ChangeEvent {
            id: String::from("event"),
            pair: build_pair("slac", "cesnet"),
            quantity,
            state: EventState::Confirmed,
            between_us: [T0 - 30 * MINUTE, T0 + 30 * MINUTE],
            before: level(before),
            after: level(after),
            change_ratio: Some(after / before),
            score: 3.0,
            autocorrelation: 0.2,
            announced_at_us: T0 + 12 * HOUR,
            recovered_by: None,
            causes: Vec::new(),
            unchanged: Vec::new(),
            scope: None,
            follow_ups: Vec::new(),
            shared: None,
            part_of: None,
        },
        paths: Vec::new(),
        throughput: Vec::new(),
        available: Vec::new(),
        audits: Vec::new(),
        rtt: Vec::new(),
        base_rate: None,
        earlier: Vec::new(),
    }
}

pub fn build_pair(from: &str, to: &str) -> HostPair {
    HostPair { from: from.to_owned(), to: to.to_owned() }
}

/// A route to that address.
pub fn build_route_to(to: &str, hops: &[&str]) -> ObservedRoute {
    ObservedRoute { to: to.to_owned(), ..path_test_builder::build_route(hops) }
}

/// A token bucket with a burst of 100 KiB.
pub fn build_bucket(
    kind: TokenBucketKind,
    peak_bps: u64,
    sustained_bps: u64,
) -> TokenBucketEstimate {
    TokenBucketEstimate {
        kind,
        peak_bps,
        sustained_bps,
        sustained_interval_bps: None,
        burst_bytes: 100 << 10,
        burst_interval_bytes: None,
        confidence_ratio: 0.9,
    }
}

/// A stream with segments of that size.
pub fn build_stream(mss_bytes: u32) -> observation::ObservedStream {
    let sender =
        observation::StreamEnd { mss_bytes: Some(mss_bytes), ..observation::StreamEnd::default() };
    observation::ObservedStream { index: 0, sender, receiver: observation::StreamEnd::default() }
}

impl EvidenceBuilder {
    pub fn set_pair(&mut self, from: &str, to: &str) -> &mut Self {
        self.event.pair = build_pair(from, to);
        self
    }

    pub fn trace(&mut self, at: i64, hops: &[&str]) -> &mut Self {
        self.path(at, |report| {
            report.observation.route = Some(path_test_builder::build_route(hops));
        })
    }

    pub fn trace_back(&mut self, at: i64, hops: &[&str]) -> &mut Self {
        self.path(at, |report| {
            report.observation.route_reverse = Some(path_test_builder::build_route(hops));
        })
    }

    pub fn mtu(&mut self, at: i64, bytes: u32) -> &mut Self {
        let mtu = PathMtu { bytes, refused_bytes: None, black_hole: false };
        self.path(at, |report| report.analysis.path_mtu = Some(mtu))
    }

    /// Adds a path run with these round trips.
    pub fn echoes(&mut self, at: i64, rtt_us: u64) -> &mut Self {
        let ns = rtt_us * 1_000;
        let rtt = PathRtt {
            sent: 10,
            answered: 10,
            min_ns: ns,
            avg_ns: ns,
            max_ns: ns,
            stddev_ns: 0,
            median_ns: ns,
            p95_ns: Some(ns),
            loss_ratio: 0.0,
            loss_interval_ratio: [0.0, 0.28],
            duplicates: 0,
            reordered: 0,
        };
        self.path(at, |report| report.analysis.rtt = Some(rtt))
    }

    fn path(&mut self, at: i64, change: impl FnOnce(&mut PathReport)) -> &mut Self {
        let mut report = path_test_builder::build_report(
            "2003-06-11T00:00:00Z",
            path_test_builder::build_route(&[]),
        );
        report.observation.route = None;
        change(&mut report);
        self.paths.push((T0 + at, report));
        self
    }

    pub fn rtt(&mut self, at: i64, us: f64) -> &mut Self {
        self.rtt.push(SeriesPoint { at_us: T0 + at, value: us });
        self
    }

    pub fn run(&mut self, at: i64, change: impl FnOnce(&mut ThroughputReport)) -> &mut Self {
        let mut report = build_throughput_report();
        change(&mut report);
        self.throughput.push((T0 + at, report));
        self
    }

    pub fn run_limited(&mut self, at: i64, limiter: Limiter) -> &mut Self {
        self.run(at, |report| report.analysis.limited_by = limiter)
    }

    pub fn estimate(
        &mut self,
        at: i64,
        capacity: f64,
        available: f64,
        bucket: Option<TokenBucketEstimate>,
    ) -> &mut Self {
        let report = build_available_report(capacity as u64, available as u64, bucket);
        self.available.push((T0 + at, report));
        self
    }

    /// Adds a light available-bandwidth run that hardly limits the available bandwidth.
    pub fn guess(&mut self, at: i64, capacity: f64, available: f64) -> &mut Self {
        let mut report = build_available_report(capacity as u64, available as u64, None);
        report.plan.mode = AvailableMode::Light;
        let way = report.analysis.forward.as_mut();
        way.expect("the way there").available_interval_bps =
            Some([available as u64 / 2, capacity as u64]);
        self.available.push((T0 + at, report));
        self
    }

    /// Adds a light available-bandwidth run that is sure of its estimate.
    pub fn light_estimate(&mut self, at: i64, capacity: f64, available: f64) -> &mut Self {
        let mut report = build_available_report(capacity as u64, available as u64, None);
        report.plan.mode = AvailableMode::Light;
        self.available.push((T0 + at, report));
        self
    }

    /// Adds an available-bandwidth run that measured the capacity only.
    pub fn capacity(&mut self, at: i64, bps: f64) -> &mut Self {
        let mut report = build_available_report(bps as u64, 0, None);
        let way = report.analysis.forward.as_mut();
        way.expect("the way there").available_bps = None;
        self.available.push((T0 + at, report));
        self
    }

    pub fn audit(&mut self, at: i64, place: HostRole, readings: &[(&str, &str)]) -> &mut Self {
        let all = readings.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let observation =
            host::AuditObservation { readings: all.collect(), ..host::AuditObservation::default() };
        self.audits.push((
            T0 + at,
            place,
            wrap_report(
                ReportKind::Host,
                host::AuditPlan::default(),
                observation,
                host::AuditAnalysis::default(),
            ),
        ));
        self
    }

    /// Returns the candidate of one cause.
    pub fn run_cause(
        &self,
        cause: fn(&EventCase) -> Option<ReportFinding>,
    ) -> Option<ReportFinding> {
        cause(&EventCase { event: &self.event, evidence: &self.evidence() })
    }

    /// Returns the confidence of one cause as a ratio of its weight, for a change at the event.
    pub fn consistency(
        &self,
        cause: fn(&EventCase) -> Option<ReportFinding>,
        weight: f64,
    ) -> Option<f64> {
        let ratio = self.run_cause(cause)?.confidence_ratio / weight;
        Some((ratio * 1e9).round() / 1e9)
    }

    pub fn event(&self) -> ChangeEvent {
        self.event.clone()
    }

    pub fn evidence(&self) -> ChangeEvidence<'_> {
        ChangeEvidence {
            period_us: HOUR,
            paths: borrow_reports(&self.paths),
            throughput: borrow_reports(&self.throughput),
            available: borrow_reports(&self.available),
            hosts: self
                .audits
                .iter()
                .map(|(at_us, place, report)| EvidenceReport {
                    at_us: *at_us,
                    report,
                    forward: *place == HostRole::Sender,
                })
                .collect(),
            rtt: self.rtt.clone(),
            base_rate: self.base_rate,
            open_events: self.earlier.iter().collect(),
            ..ChangeEvidence::default()
        }
    }
}

fn borrow_reports<R>(all: &[(i64, R)]) -> Vec<EvidenceReport<'_, R>> {
    all.iter()
        .map(|(at_us, report)| EvidenceReport { at_us: *at_us, report, forward: true })
        .collect()
}

fn wrap_report<P, O, A>(
    kind: ReportKind,
    plan: P,
    observation: O,
    analysis: A,
) -> longhaul_model::report::v1::Report<P, O, A> {
    let party = |host: &str| RunParty { host: host.to_owned(), ..RunParty::default() };
    longhaul_model::report::v1::Report {
        schema: SCHEMA.to_owned(),
        kind,
        run: RunInfo {
            id: String::from("run"),
            started_at: String::from("2003-06-11T00:00:00Z"),
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

fn build_throughput_report() -> ThroughputReport {
    let observation = observation::ThroughputObservation {
        forward: true,
        elapsed_us: 10_000_000,
        idle_rtt_us: None,
        clock_error_us: None,
        same_host: false,
        same_boot: None,
        streams: Vec::new(),
        ends: BothEnds { sender: EndObservation::default(), receiver: EndObservation::default() },
        reverse: None,
    };
    let analysis = analysis::ThroughputAnalysis {
        version: 1,
        goodput_bps: None,
        goodput_interval_bps: None,
        mean_goodput_bps: None,
        steady: None,
        ramp_us: None,
        rtt_us: None,
        limited_by: Limiter::Unknown,
        confidence_ratio: 0.8,
        shares: Vec::new(),
        bounds: Vec::new(),
        next_limit: None,
        totals: analysis::RunTotals::default(),
        streams: Vec::new(),
        reverse: None,
    };
    wrap_report(ReportKind::Throughput, ThroughputPlan::default(), observation, analysis)
}

fn build_available_report(
    capacity: u64,
    available: u64,
    bucket: Option<TokenBucketEstimate>,
) -> AvailableReport {
    let plan = available::AvailablePlan {
        mode: AvailableMode::Quick,
        forward: true,
        reverse: false,
        packet_bytes: 1500,
        most_bytes: 10_000_000,
        most_time_us: 10_000_000,
        seed: 1,
        dscp: None,
        uncooperative: None,
        shaper_time_us: None,
    };
    let forward = AvailableEstimate {
        verdict: EstimateVerdict::Estimated,
        capacity_bps: Some(capacity),
        available_bps: Some(available),
        bucket,
        ..AvailableEstimate::default()
    };
    let analysis = available::AvailableAnalysis {
        forward: Some(forward),
        ..available::AvailableAnalysis::default()
    };
    wrap_report(ReportKind::Available, plan, available::AvailableObservation::default(), analysis)
}
