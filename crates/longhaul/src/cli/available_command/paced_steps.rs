//! Available bandwidth with an iperf3 server: steps of paced TCP, which only the sender observes.

use super::{AvailableArgs, early_end_caveat, plan_available};
use crate::cli::progress_lines::{StatusLine, print_statement};
use crate::cli::report_archiving::{self, saturating_micros};
use crate::command_failure::{CommandFailure, USAGE};
use jiff::Timestamp;
use longhaul_analysis::available_bandwidth::{
    PacedRate, choose_paced_rate, conclude_available, read_paced_step,
};
use longhaul_model::report::v1::available::{
    AvailableMode, AvailableObservation, AvailablePlan, DirectionProbing, FallbackMethod,
};
use longhaul_model::report::v1::plan::{StopCondition, ThroughputPlan};
use longhaul_model::report::v1::{AvailableReport, Report, RunParty};
use longhaul_model::units::format_duration;
use longhaul_probe::plan_limits;
use longhaul_probe::supervise::StopFlag;
use longhaul_probe::throughput::{TargetHost, ThroughputOutcome, choose_path_address};
use longhaul_report::available_text::format_probe_bytes;
use longhaul_report::number_format::format_rate;
use std::time::{Duration, Instant};

/// The number of streams of a step: one that loses a packet does not slow down all.
const STREAMS: u32 = 4;
/// The minimum time of a step in round trips: slow start and half of the rest.
const ROUND_TRIPS: u32 = 40;
/// The payload of all steps, unless `--bytes` allows another amount. The first step, whose rate is
/// unknown, is not limited by it.
const MAX_BYTES: u64 = 4_000_000_000;
const SAMPLE_INTERVAL_US: u64 = 50_000;

/// Measures with paced TCP, in the direction in which this end sends.
pub fn measure_from_one_end(
    args: &AvailableArgs,
    target: &TargetHost,
    stop: &StopFlag,
) -> Result<AvailableReport, CommandFailure> {
    if args.reverse || args.shaper.is_some() {
        let text = "an iperf3 server reports no RTT: only the forward direction, without --shaper";
        return Err(CommandFailure::new(USAGE, text)
            .hint(Some("omit -R and --shaper, or run `longhaul serve` there")));
    }
    let (started, begun) = (Timestamp::now(), Instant::now());
    let target = &target.with_address(choose_path_address(target)?);
    let server = args.server.use_iperf3(target)?;
    let plan = AvailablePlan {
        forward: true,
        reverse: false,
        most_bytes: args.bytes.unwrap_or(MAX_BYTES),
        uncooperative: Some(FallbackMethod::PacedTcp),
        ..plan_available(args)
    };
    let step = step_time(plan.mode);
    let text = format!(
        "TCP to an iperf3 server at up to 8 rates, {} each, at most about {} after the first",
        format_duration(step),
        format_probe_bytes(plan.most_bytes)
    );
    print_statement(&args.output, &text);
    let mut line = StatusLine::new(args.output.shows_progress());
    let mut course = PacedCourse { plan: &plan, step, idle_rtt_us: None, ends: None };
    let mut probing = DirectionProbing::default();
    let mut early_end = None;
    while let Some(rate) = course.next_rate(&probing) {
        line.draw(&format!("forward: {}", describe_rate(rate)));
        let at_us = saturating_micros(begun.elapsed());
        let outcome = match (server.bulk_run)(target, &course.step_plan(rate), stop, &mut |_| {}) {
            Ok(outcome) => outcome,
            Err(error) if probing.paced_steps.is_empty() => {
                line.clear();
                return Err(error.into());
            }
            Err(error) => {
                early_end = Some(early_end_caveat(&error));
                break;
            }
        };
        early_end = outcome.caveats.iter().find(|caveat| caveat.is_early_end()).cloned();
        let step = read_paced_step(rate, at_us, &outcome.observation);
        probing.probe_bytes += step.sent_bytes;
        probing.paced_steps.push(step);
        probing.duration_us = saturating_micros(begun.elapsed());
        course.note_outcome(outcome);
        if early_end.is_some() {
            break;
        }
    }
    line.clear();
    let observation = AvailableObservation {
        idle_rtt_us: course.idle_rtt_us,
        loopback: course.ends.as_ref().is_some_and(|(one, other)| one.address == other.address),
        forward: Some(probing),
        reverse: None,
    };
    let conclusion = conclude_available(&plan, &observation);
    let (initiator, responder) = course.ends.unwrap_or_default();
    let run = report_archiving::create_run_info(started, begun.elapsed(), initiator, responder);
    let caveats = conclusion.caveats.into_iter().chain(server.caveats).chain(early_end).collect();
    Ok(Report::new(run, plan, observation, conclusion.analysis)
        .with_notes(conclusion.findings, caveats))
}

/// The state of the steps.
struct PacedCourse<'a> {
    plan: &'a AvailablePlan,
    step: Duration,
    idle_rtt_us: Option<u64>,
    /// The two ends of the first step.
    ends: Option<(RunParty, RunParty)>,
}

impl PacedCourse<'_> {
    /// Returns the next rate that fits into the budget of bytes.
    fn next_rate(&self, probing: &DirectionProbing) -> Option<PacedRate> {
        let rate = choose_paced_rate(&probing.paced_steps, self.idle_rtt_us)?;
        let cost = match rate {
            PacedRate::Unlimited => 0,
            PacedRate::Bps(bps) => bps / 8 * self.step_us() / 1_000_000,
        };
        let left = self.plan.most_bytes.saturating_sub(probing.probe_bytes);
        (rate == PacedRate::Unlimited || cost <= left).then_some(rate)
    }

    fn step_us(&self) -> u64 {
        let rtt_us = self.idle_rtt_us.unwrap_or(0);
        saturating_micros(self.step).max(rtt_us * u64::from(ROUND_TRIPS))
    }

    fn step_plan(&self, rate: PacedRate) -> ThroughputPlan {
        let least = plan_limits::INTERVAL_US.0;
        ThroughputPlan {
            streams: STREAMS,
            stop: StopCondition::TimeUs(self.step_us()),
            pacing_bps: match rate {
                PacedRate::Unlimited => None,
                PacedRate::Bps(bps) => Some((bps / u64::from(STREAMS)).max(1000)),
            },
            dscp: self.plan.dscp,
            interval_us: SAMPLE_INTERVAL_US.max(least),
            ..ThroughputPlan::default()
        }
    }

    fn note_outcome(&mut self, outcome: ThroughputOutcome) {
        self.idle_rtt_us = self.idle_rtt_us.or(outcome.observation.idle_rtt_us);
        self.ends.get_or_insert((outcome.initiator, outcome.responder));
    }
}

fn step_time(mode: AvailableMode) -> Duration {
    Duration::from_secs(match mode {
        AvailableMode::Light => 1,
        AvailableMode::Quick => 2,
        AvailableMode::Careful => 5,
    })
}

fn describe_rate(rate: PacedRate) -> String {
    match rate {
        PacedRate::Unlimited => "unlimited TCP".to_owned(),
        PacedRate::Bps(bps) => format!("TCP at {}", format_rate(bps)),
    }
}
