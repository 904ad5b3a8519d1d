//! Findings about the load steps, with evidence and advice.
//!
//! Source: RFC 6349 for deep queues; RFC 8622 and RFC 6817 for yielding. Units: as in the text.
//! Error: see each threshold. Wrong when: the remote host itself answers late.

use super::rise::is_rise;
use super::yielding::LEAST_KEPT;
use crate::diagnose;
use crate::throughput::words::streams;
use longhaul_model::report::v1::analysis::Limiter;
use longhaul_model::report::v1::load::{
    Analysis, Delays, Observation, Phase, Plan, Scavenger, Step, StepResult,
};
use longhaul_model::report::v1::{Advice, Finding};
use longhaul_model::units::{Bytes, Rate, format_duration};
use std::time::Duration;

/// The minimum added delay that people notice; it must also exceed the idle RTT.
const LEAST_DEEP_NS: u64 = 30_000_000;
/// A flow is harmed if it keeps less than this fraction of its fair share.
const FAIR_MARGIN: f64 = 0.8;

pub fn findings(plan: &Plan, observation: &Observation, analysis: &Analysis) -> Vec<Finding> {
    let Some(idle) = &analysis.idle else {
        return analysis.scavenger.iter().map(yields).collect();
    };
    let plain: Vec<Case> = analysis
        .steps
        .iter()
        .filter_map(|result| Case::of(plan, observation, idle, result))
        .collect();
    let mut found: Vec<Finding> = deepest(&plain).into_iter().collect();
    found.extend(no_queue(&plain));
    found.extend(loss(&plain));
    found.extend(harm(&plain));
    found.extend(analysis.scavenger.iter().map(yields));
    found
}

/// One load step with the data of its findings.
struct Case<'a> {
    step: &'a Step,
    result: &'a StepResult,
    idle: &'a Delays,
    limited_by: Option<Limiter>,
}

impl<'a> Case<'a> {
    fn of(
        plan: &'a Plan,
        observation: &'a Observation,
        idle: &'a Delays,
        result: &'a StepResult,
    ) -> Option<Case<'a>> {
        let step = plan.steps.get(result.step as usize)?;
        let phase: Option<&Phase> = observation
            .phases
            .iter()
            .find(|p| p.step == Some(result.step));
        Some(Case {
            step,
            result,
            idle,
            limited_by: phase.and_then(|p| p.load.as_ref()).map(|f| f.limited_by),
        })
    }

    fn load(&self) -> String {
        let load = streams(self.step.streams);
        let rate = self.step.rate_bps.map(|bps| format!(" at {}", rate(bps)));
        format!("{load}{}", rate.unwrap_or_default())
    }

    /// Returns true for a load at full speed that does not yield, other than a baseline.
    fn is_plain(&self) -> bool {
        !self.step.baseline && !self.step.scavenger
    }
}

fn deepest(cases: &[Case]) -> Option<Finding> {
    let case = cases
        .iter()
        .filter(|c| {
            c.is_plain() && c.result.rise_ns >= Some(LEAST_DEEP_NS.max(c.idle.rtt_median_ns))
        })
        .max_by_key(|c| c.result.rise_ns)?;
    let (rise, idle) = (case.result.rise_ns?, case.idle.rtt_median_ns);
    let waits = case
        .result
        .queue_bytes
        .map(|bytes| format!("; up to {} wait in it", Bytes(bytes)));
    let mut supports = Vec::new();
    if let Some([low, high]) = case.result.rise_interval_ns {
        supports.push(format!(
            "the median round trip grew by {} to {} (95 %)",
            nanos(low),
            nanos(high)
        ));
    }
    if let Some(grew) = &case.result.grew {
        supports.push(format!("one-way times say that it grew {}", towards(grew)));
    }
    if let Some(back) = case.result.recovery_us {
        supports.push(format!(
            "round trips were back {} after the load ended",
            format_duration(Duration::from_micros(back))
        ));
    }
    let pace = case.result.goodput_bps.map(|bps| bps / 20 * 19);
    let mut advice = vec![advise(
        "path",
        "A managed queue (fq_codel, cake) at the narrow link keeps the rate and drops the delay",
    )];
    advice.extend(pace.map(|bps| Advice {
        expected_bps: Some(bps),
        ..advise(
            "sender",
            &format!(
                "Or hold the load to {}, just below what fills the queue",
                rate(bps)
            ),
        )
    }));
    advice.push(advise(
        "sender",
        "Or send bulk data with a sender that yields (`longhaul test --scavenger` shows its rate)",
    ));
    Some(Finding {
        cause: "deep_queue".to_owned(),
        summary: format!(
            "Under {} a deep queue adds {} to every round trip ({} idle){}",
            case.load(),
            nanos(rise),
            nanos(idle),
            waits.unwrap_or_default()
        ),
        confidence_ratio: 0.95,
        supports,
        contradicts: Vec::new(),
        advice,
    })
}

/// Reports loads that filled the path without an increase of the RTT.
fn no_queue(cases: &[Case]) -> Option<Finding> {
    let filled: Vec<&Case> = cases
        .iter()
        .filter(|c| c.is_plain() && c.limited_by.is_some_and(|l| fills(l) || l == Limiter::Loss))
        .collect();
    let rises = |c: &Case| {
        let rise = c.result.rise_ns.unwrap_or(0);
        is_rise(rise as f64, c.idle.rtt_median_ns as f64)
    };
    let case = *filled.first()?;
    if filled.iter().any(|c| rises(c)) {
        return None;
    }
    let delays = case.result.delays?;
    Some(Finding {
        cause: "no_queue".to_owned(),
        summary: format!(
            "Full load hardly delays others: {} under {}, {} idle",
            nanos(delays.rtt_median_ns),
            case.load(),
            nanos(case.idle.rtt_median_ns)
        ),
        confidence_ratio: 0.8,
        supports: vec![format!(
            "the load was limited by {}",
            crate::throughput::words::name(case.limited_by?)
        )],
        contradicts: Vec::new(),
        advice: Vec::new(),
    })
}

pub fn fills(limiter: Limiter) -> bool {
    matches!(
        limiter,
        Limiter::PathCapacity | Limiter::Shaper | Limiter::Policer
    )
}

fn loss(cases: &[Case]) -> Option<Finding> {
    let lossy = |c: &&Case| {
        c.result
            .delays
            .is_some_and(|d| d.loss_interval_ratio[0] > c.idle.loss_interval_ratio[1])
    };
    let worst = cases.iter().filter(lossy).max_by(|a, b| {
        let share = |c: &Case| c.result.delays.map_or(0.0, |d| d.loss_ratio);
        share(a).total_cmp(&share(b))
    })?;
    let delays = worst.result.delays?;
    let percent = |ratio: f64| format!("{:.2} %", ratio * 100.0);
    let [low, high] = delays.loss_interval_ratio;
    Some(Finding {
        cause: "loss_under_load".to_owned(),
        summary: format!(
            "Under {} other packets are lost too: {} of the probes, {} on the idle path",
            worst.load(),
            percent(delays.loss_ratio),
            percent(worst.idle.loss_ratio)
        ),
        confidence_ratio: 0.9,
        supports: vec![format!(
            "{} of {} probes are {} to {} (95 %)",
            (delays.loss_ratio * f64::from(delays.probes)).round(),
            delays.probes,
            percent(low),
            percent(high)
        )],
        contradicts: Vec::new(),
        advice: vec![advise(
            "sender",
            "Fewer streams, or a load held below the capacity, keep the queue from overflowing",
        )],
    })
}

/// Reports a competitor that lost more than an even share explains.
fn harm(cases: &[Case]) -> Option<Finding> {
    let unfair = |c: &&Case| {
        let fair = 1.0 / f64::from(c.step.streams.saturating_add(1));
        let high = c.result.competitor_kept_interval_ratio.map(|i| i[1]);
        c.is_plain()
            && high
                .or(c.result.competitor_kept_ratio)
                .is_some_and(|k| k < FAIR_MARGIN * fair)
    };
    let case = cases.iter().find(unfair)?;
    let kept = case.result.competitor_kept_ratio?;
    let fair = 1.0 / f64::from(case.step.streams.saturating_add(1));
    Some(Finding {
        cause: "harms_others".to_owned(),
        summary: format!(
            "Beside {} another flow keeps {:.0} % of its rate alone; an even share would be {:.0} %",
            case.load(),
            kept * 100.0,
            fair * 100.0
        ),
        confidence_ratio: 0.8,
        supports: Vec::new(),
        contradicts: Vec::new(),
        advice: vec![advise("sender", "Fewer streams, or a sender that yields")],
    })
}

/// Reports the comparison of the scavenger.
fn yields(scavenger: &Scavenger) -> Finding {
    let kept = scavenger.competitor_kept_yielding_ratio;
    let bounds = scavenger.competitor_kept_yielding_interval_ratio;
    let sure = bounds.is_some_and(|[low, high]| low >= LEAST_KEPT || high < LEAST_KEPT);
    let mut supports = Vec::new();
    if let Some([low, high]) = bounds {
        supports.push(format!(
            "the share kept is {:.0} to {:.0} % (95 %)",
            low * 100.0,
            high * 100.0
        ));
    }
    let (cause, advice) = if kept >= LEAST_KEPT {
        ("yields", Vec::new())
    } else {
        let text = "The queue there is shorter than the delay that a sender can act on: hold the \
                    load to a rate instead";
        ("does_not_yield", vec![advise("sender", text)])
    };
    Finding {
        cause: cause.to_owned(),
        summary: scavenger.text.clone(),
        confidence_ratio: if sure { 0.95 } else { 0.6 },
        supports,
        contradicts: Vec::new(),
        advice,
    }
}

fn towards(grew: &str) -> &'static str {
    match grew {
        "forward" => "on the way to the far end",
        "reverse" => "on the way back",
        _ => "both ways",
    }
}

fn advise(place: &str, text: &str) -> Advice {
    diagnose::advice(place, text.to_owned())
}

fn nanos(ns: u64) -> String {
    format_duration(Duration::from_micros(ns / 1000))
}

fn rate(bps: u64) -> String {
    Rate::bits_per_second(bps).to_string()
}
