//! Builds events and their evidence for tests.

use super::candidate::Candidate;
use super::case::Case;
use super::evidence::{Audited, BaseRate, Evidence, Note, Place, PlanChange, Seen};
use crate::path::scene;
use longhaul_model::report::v1::analysis::{self, Limiter};
use longhaul_model::report::v1::available::{self, Bucket, BucketKind, Estimate, Mode, Verdict};
use longhaul_model::report::v1::event::{Event, Level, State};
use longhaul_model::report::v1::observation::{self, End, Ends};
use longhaul_model::report::v1::path::{PathMtu, Route, Rtt};
use longhaul_model::report::v1::plan::Plan;
use longhaul_model::report::v1::quantity::Quantity;
use longhaul_model::report::v1::series::{Pair, Point};
use longhaul_model::report::v1::{
    Available, Host, Kind, Party, Path, Run, SCHEMA, Throughput, host,
};

pub const MINUTE: i64 = 60_000_000;
pub const HOUR: i64 = 60 * MINUTE;
pub const DAY: i64 = 24 * HOUR;
/// 2003-06-11 22:45 UTC, when SLAC moved to ESnet. All times are relative to it.
pub const T0: i64 = 1_055_371_500_000_000;

/// Owned evidence around one event.
pub struct Sketch {
    event: Event,
    paths: Vec<(i64, Path)>,
    throughput: Vec<(i64, Throughput)>,
    available: Vec<(i64, Available)>,
    audits: Vec<(i64, Place, Host)>,
    rtt: Vec<Point>,
    pub notes: Vec<Note>,
    pub plan_changes: Vec<PlanChange>,
    pub base_rate: Option<BaseRate>,
    pub earlier: Vec<Event>,
}

/// Goodput from slac to cesnet that fell from 250 to 150 Mbit/s, within half an hour of `T0`.
pub fn fell() -> Sketch {
    of(Quantity::Goodput, 250e6, 150e6)
}

pub fn of(quantity: Quantity, before: f64, after: f64) -> Sketch {
    let level = |median: f64| Level {
        median,
        deviation: median / 20.0,
        samples: 24,
    };
    Sketch {
        event: Event {
            id: String::from("event"),
            pair: pair("slac", "cesnet"),
            quantity,
            state: State::Confirmed,
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
        },
        paths: Vec::new(),
        throughput: Vec::new(),
        available: Vec::new(),
        audits: Vec::new(),
        rtt: Vec::new(),
        notes: Vec::new(),
        plan_changes: Vec::new(),
        base_rate: None,
        earlier: Vec::new(),
    }
}

pub fn pair(from: &str, to: &str) -> Pair {
    Pair {
        from: from.to_owned(),
        to: to.to_owned(),
    }
}

/// A route to that address.
pub fn route_to(to: &str, hops: &[&str]) -> Route {
    Route {
        to: to.to_owned(),
        ..scene::route(hops)
    }
}

/// A token bucket with a burst of 100 KiB.
pub fn bucket(kind: BucketKind, peak_bps: u64, sustained_bps: u64) -> Bucket {
    Bucket {
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
pub fn stream(mss_bytes: u32) -> observation::Stream {
    let sender = observation::StreamEnd {
        mss_bytes: Some(mss_bytes),
        ..observation::StreamEnd::default()
    };
    observation::Stream {
        index: 0,
        sender,
        receiver: observation::StreamEnd::default(),
    }
}

impl Sketch {
    pub fn between(&mut self, from: &str, to: &str) -> &mut Self {
        self.event.pair = pair(from, to);
        self
    }

    pub fn trace(&mut self, at: i64, hops: &[&str]) -> &mut Self {
        self.path(at, |report| {
            report.observation.route = Some(scene::route(hops));
        })
    }

    pub fn trace_back(&mut self, at: i64, hops: &[&str]) -> &mut Self {
        self.path(at, |report| {
            report.observation.route_reverse = Some(scene::route(hops));
        })
    }

    pub fn mtu(&mut self, at: i64, bytes: u32) -> &mut Self {
        let mtu = PathMtu {
            bytes,
            refused_bytes: None,
            black_hole: false,
        };
        self.path(at, |report| report.analysis.path_mtu = Some(mtu))
    }

    /// Adds a path run with these round trips.
    pub fn echoes(&mut self, at: i64, rtt_us: u64) -> &mut Self {
        let ns = rtt_us * 1_000;
        let rtt = Rtt {
            sent: 10,
            answered: 10,
            min_ns: ns,
            avg_ns: ns,
            max_ns: ns,
            stddev_ns: 0,
            median_ns: ns,
            loss_ratio: 0.0,
            loss_interval_ratio: [0.0, 0.28],
            duplicates: 0,
            reordered: 0,
        };
        self.path(at, |report| report.analysis.rtt = Some(rtt))
    }

    fn path(&mut self, at: i64, change: impl FnOnce(&mut Path)) -> &mut Self {
        let mut report = scene::report("2003-06-11T00:00:00Z", scene::route(&[]));
        report.observation.route = None;
        change(&mut report);
        self.paths.push((T0 + at, report));
        self
    }

    pub fn rtt(&mut self, at: i64, us: f64) -> &mut Self {
        self.rtt.push(Point {
            at_us: T0 + at,
            value: us,
        });
        self
    }

    pub fn run(&mut self, at: i64, change: impl FnOnce(&mut Throughput)) -> &mut Self {
        let mut report = throughput();
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
        bucket: Option<Bucket>,
    ) -> &mut Self {
        let report = estimate(capacity as u64, available as u64, bucket);
        self.available.push((T0 + at, report));
        self
    }

    /// Adds an available-bandwidth run that measured the capacity only.
    pub fn capacity(&mut self, at: i64, bps: f64) -> &mut Self {
        let mut report = estimate(bps as u64, 0, None);
        let way = report.analysis.forward.as_mut();
        way.expect("the way there").available_bps = None;
        self.available.push((T0 + at, report));
        self
    }

    pub fn audit(&mut self, at: i64, place: Place, readings: &[(&str, &str)]) -> &mut Self {
        let all = readings
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let observation = host::Observation {
            readings: all.collect(),
            ..host::Observation::default()
        };
        self.audits.push((
            T0 + at,
            place,
            enveloped(
                Kind::Host,
                host::Plan::default(),
                observation,
                host::Analysis::default(),
            ),
        ));
        self
    }

    /// Returns the candidate of one cause.
    pub fn found(&self, cause: fn(&Case) -> Option<Candidate>) -> Option<Candidate> {
        cause(&Case {
            event: &self.event,
            evidence: &self.evidence(),
        })
    }

    pub fn event(&self) -> Event {
        self.event.clone()
    }

    pub fn evidence(&self) -> Evidence<'_> {
        Evidence {
            period_us: HOUR,
            paths: seen(&self.paths),
            throughput: seen(&self.throughput),
            available: seen(&self.available),
            hosts: self
                .audits
                .iter()
                .map(|(at_us, place, report)| Audited {
                    at_us: *at_us,
                    place: *place,
                    report,
                })
                .collect(),
            rtt: self.rtt.clone(),
            notes: self.notes.clone(),
            plan_changes: self.plan_changes.clone(),
            base_rate: self.base_rate,
            earlier: self.earlier.iter().collect(),
            ..Evidence::default()
        }
    }
}

fn seen<R>(all: &[(i64, R)]) -> Vec<Seen<'_, R>> {
    all.iter()
        .map(|(at_us, report)| Seen {
            at_us: *at_us,
            report,
            forward: true,
        })
        .collect()
}

fn enveloped<P, O, A>(
    kind: Kind,
    plan: P,
    observation: O,
    analysis: A,
) -> longhaul_model::report::v1::Report<P, O, A> {
    let party = |host: &str| Party {
        host: host.to_owned(),
        ..Party::default()
    };
    longhaul_model::report::v1::Report {
        schema: SCHEMA.to_owned(),
        kind,
        run: Run {
            id: String::from("run"),
            started_at: String::from("2003-06-11T00:00:00Z"),
            duration_us: 10_000_000,
            longhaul: String::from("0"),
            initiator: party("slac"),
            responder: party("cesnet"),
            part_of: None,
        },
        plan,
        observation,
        analysis,
        findings: Vec::new(),
        caveats: Vec::new(),
    }
}

fn throughput() -> Throughput {
    let observation = observation::Observation {
        forward: true,
        elapsed_us: 10_000_000,
        idle_rtt_us: None,
        clock_error_us: None,
        same_host: false,
        same_boot: None,
        streams: Vec::new(),
        ends: Ends {
            sender: End::default(),
            receiver: End::default(),
        },
        reverse: None,
    };
    let analysis = analysis::Analysis {
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
        totals: analysis::Totals::default(),
        streams: Vec::new(),
        reverse: None,
    };
    enveloped(Kind::Throughput, Plan::default(), observation, analysis)
}

fn estimate(capacity: u64, available: u64, bucket: Option<Bucket>) -> Available {
    let plan = available::Plan {
        mode: Mode::Quick,
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
    let forward = Estimate {
        verdict: Verdict::Estimated,
        capacity_bps: Some(capacity),
        available_bps: Some(available),
        bucket,
        ..Estimate::default()
    };
    let analysis = available::Analysis {
        forward: Some(forward),
        ..available::Analysis::default()
    };
    enveloped(
        Kind::Available,
        plan,
        available::Observation::default(),
        analysis,
    )
}
