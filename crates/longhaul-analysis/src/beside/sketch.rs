//! Small archives for tests: bulk runs and traces between `slac` and `cesnet`.

use super::{Material, Taken};
use crate::path::scene::route;
use longhaul_model::report::v1::analysis::{self, Limiter, Totals};
use longhaul_model::report::v1::observation::{End, Ends, Observation, Stream, StreamEnd};
use longhaul_model::report::v1::path::{self, Protocol};
use longhaul_model::report::v1::plan::{Direction, Plan};
use longhaul_model::report::v1::series::Pair;
use longhaul_model::report::v1::{AnyReport, Kind, Party, Report, Run, SCHEMA, Throughput};

pub const MINUTE_US: i64 = 60_000_000;
#[derive(Default)]
pub struct Archive {
    pub runs: Vec<Taken>,
}

impl Archive {
    pub fn material(&self) -> Material<'_> {
        let pair = Pair {
            from: String::from("slac"),
            to: String::from("cesnet"),
        };
        Material::new(pair, &self.runs, &[])
    }

    /// Adds a bulk run with this goodput at this minute.
    pub fn run(&mut self, minute: i64, forward: bool, bps: f64) {
        let id = format!("bulk-{minute}-{forward}");
        let mut report = enveloped(
            (Kind::Throughput, minute, &id),
            Plan::default(),
            seen(forward),
            judged(bps as u64),
        );
        if !forward {
            report.plan.direction = Direction::Reverse;
        }
        self.push(minute, id, AnyReport::Throughput(Box::new(report)));
    }

    /// Changes the latest bulk run.
    pub fn change_last(&mut self, change: impl FnOnce(&mut Throughput)) {
        let last = self.runs.last_mut().expect("there is a run");
        let AnyReport::Throughput(report) = &mut last.report else {
            panic!("the latest is a bulk run");
        };
        change(report);
    }

    /// Adds a path report with a traced route of these hops.
    pub fn trace(&mut self, minute: i64, addresses: &[&str]) {
        let id = format!("path-{minute}");
        let plan = path::Plan::of_nothing(Protocol::Udp);
        let seen = path::Observation {
            route: Some(route(addresses)),
            ..path::Observation::default()
        };
        let judged = path::Analysis::default();
        let report = enveloped((Kind::Path, minute, &id), plan, seen, judged);
        self.push(minute, id, AnyReport::Path(Box::new(report)));
    }

    fn push(&mut self, minute: i64, run_id: String, report: AnyReport) {
        self.runs.push(Taken {
            at_us: minute * MINUTE_US,
            run_id,
            near: String::from("slac"),
            far: String::from("cesnet"),
            report,
        });
    }
}

/// Returns the time `minute` minutes after the start of 1970.
fn moment(minute: i64) -> String {
    let (day, minute) = (minute / 1440, minute % 1440);
    format!(
        "1970-01-{:02}T{:02}:{:02}:00Z",
        day + 1,
        minute / 60,
        minute % 60
    )
}

fn enveloped<P, O, A>(
    (kind, minute, id): (Kind, i64, &str),
    plan: P,
    observation: O,
    analysis: A,
) -> Report<P, O, A> {
    let party = |host: &str| Party {
        host: host.to_owned(),
        ..Party::default()
    };
    Report {
        schema: SCHEMA.to_owned(),
        kind,
        run: Run {
            id: id.to_owned(),
            started_at: moment(minute),
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

fn seen(forward: bool) -> Observation {
    Observation {
        forward,
        elapsed_us: 10_000_000,
        idle_rtt_us: None,
        clock_error_us: None,
        same_host: false,
        same_boot: None,
        streams: vec![Stream {
            index: 0,
            sender: StreamEnd::default(),
            receiver: StreamEnd::default(),
        }],
        ends: Ends {
            sender: End::default(),
            receiver: End::default(),
        },
        reverse: None,
    }
}

fn judged(bps: u64) -> analysis::Analysis {
    analysis::Analysis {
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
        totals: Totals::default(),
        streams: Vec::new(),
        reverse: None,
    }
}
