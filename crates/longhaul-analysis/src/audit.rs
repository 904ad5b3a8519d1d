//! Audits the host's settings for the given paths, with rules as data applied to readings.
//!
//! Each rule names the readings that it needs and its source, and judges one host for one path: the
//! setting limits the path, it may cost something, it is good, or it could not be checked. With
//! several paths the most demanding one decides. The program may write a remedy that names a
//! setting and a value; every other remedy is for the user.
//!
//! Source: each rule names its own; docs/methods/host-audit.md has the table.
//! Units: bytes, bit/s, µs. Error: a bound is what the setting allows, not the rate that will be
//! reached.
//! Wrong when: the given paths are not the ones in use.
//!
//! # Clock rules
//!
//! Checks that the clock is cheap to read and synchronised.
//!
//! Source: see each rule. Units: none.
//! Error: none. Wrong when: a daemon sets the clock without telling the kernel.
//!
//! # Host readings
//!
//! Readings, converted to the type that a rule needs, or the reason why they are missing.
//!
//! Source: crates/longhaul-probe, which names the readings. Units: those of the reading.
//! Error: none. Wrong when: a driver reports wrong values.
//!
//! # Rule judgement
//!
//! The result of a rule.
//!
//! Source: none; data types only. Units: bit/s. Error: none. Wrong when: never.
//!
//! # Audit case
//!
//! The bandwidth-delay product that a path needs, and the rate that a window allows on it.
//!
//! Source: bandwidth-delay product as in RFC 6349 (2011). Units: bytes, bit/s, µs.
//! Error: none beyond that of rate and RTT. Wrong when: either is not that of the path.
//!
//! ## The reference path
//!
//! The reference path that a host is judged for if the plan names none.
//!
//! Source: ours; 100 ms is the RTT of ESnet's recommended settings (fasterdata, 10 Gbit/s to 100
//! ms).
//! Units: bit/s, µs. Error: it is not a path of the user, and a caveat says so.
//! Wrong when: the interface reports a speed that it does not have, as virtual ones do.

mod buffer_rules;
mod change_trials;
mod cpu_rules;
mod interface_rules;
mod offload_rules;
mod queueing_rules;
mod softnet_rules;
mod tcp_rules;

const SOURCE: &str = "clock.source";
const SYNCHRONISED: &str = "clock.synchronised";
/// These are read over a bus, which takes about a microsecond.
const SLOW: [&str; 5] = ["hpet", "acpi_pm", "jiffies", "refined-jiffies", "pit"];

const RULES: &[AuditRule] = &[
    AuditRule::of_host("clock_source", judge_clock_source)
        .title("reading the clock is cheap")
        .source("Linux timers/timekeeping (2025)"),
    AuditRule::of_host("clock_synchronised", judge_clock_synchronised)
        .title("the clock is synchronised")
        .source("RFC 7679 (2016); RFC 5905 (2010)"),
];

fn judge_clock_source(case: &AuditCase) -> ReadingResult<RuleJudgement> {
    let source = case.readings.text(SOURCE)?;
    let others = case.readings.text("clock.sources").unwrap_or_default();
    let remedy = if others.split_whitespace().any(|word| word == "tsc") {
        remedy_by_command(
            "echo tsc > /sys/devices/system/clocksource/clocksource0/current_clocksource",
            "First check in the kernel log why the kernel did not choose it",
        )
    } else {
        remedy_by_hand("Check in the kernel log why the CPU's own counter (TSC) is not used")
    };
    let trouble = " is slow to read, and pacing and timestamps read it constantly";
    Ok(judge_unless(!SLOW.contains(&source), source, trouble, remedy))
}

fn judge_clock_synchronised(case: &AuditCase) -> ReadingResult<RuleJudgement> {
    if case.readings.switch(SYNCHRONISED)? {
        return Ok(judge_good("synchronised"));
    }
    let text = "not synchronised: events at the two hosts cannot be aligned";
    Ok(judge_advice(text).remedy(remedy_by_hand("Run chrony or another NTP daemon")))
}

/// A reading, or the reason why it is missing.
type ReadingResult<T> = Result<T, String>;

/// The maximum plausible value: no kernel setting exceeds it.
const MAX_READING: u64 = 1 << 53;
/// The number of characters shown of an invalid reading.
const MAX_SHOWN_CHARS: usize = 40;

#[derive(Clone, Copy)]
struct HostReadings<'a> {
    observation: &'a AuditObservation,
}

impl<'a> HostReadings<'a> {
    pub fn new(observation: &'a AuditObservation) -> Self {
        HostReadings { observation }
    }

    pub fn text(self, name: &str) -> ReadingResult<&'a str> {
        if let Some(text) = self.observation.readings.get(name) {
            return Ok(text.trim());
        }
        Err(match self.observation.unread.get(name) {
            Some(why) => format!("cannot read {name}: {why}"),
            None => format!("this host has no {name}"),
        })
    }

    pub fn number(self, name: &str) -> ReadingResult<u64> {
        let text = self.text(name)?;
        parse_number(text).ok_or_else(|| describe_invalid_reading(name, text, "a number"))
    }

    /// Returns the three values min, default and max, in ascending order.
    pub fn triple(self, name: &str) -> ReadingResult<[u64; 3]> {
        let text = self.text(name)?;
        let words: Vec<Option<u64>> = text.split_whitespace().map(parse_number).collect();
        match words.as_slice() {
            &[Some(least), Some(usual), Some(most)] if least <= usual && usual <= most => {
                Ok([least, usual, most])
            }
            _ => Err(describe_invalid_reading(name, text, "three ascending numbers")),
        }
    }

    /// Returns a non-negative number that may have decimals.
    pub fn decimal(self, name: &str) -> ReadingResult<f64> {
        let text = self.text(name)?;
        let value = text.parse::<f64>().ok();
        value
            .filter(|v| v.is_finite() && (0.0..=MAX_READING as f64).contains(v))
            .ok_or_else(|| describe_invalid_reading(name, text, "a number"))
    }

    /// Returns a reading that the host may lack.
    pub fn optional<T>(
        self,
        name: &str,
        read: fn(Self, &str) -> ReadingResult<T>,
    ) -> ReadingResult<Option<T>> {
        self.text(name).ok().map(|_| read(self, name)).transpose()
    }

    /// Returns whether a setting is on; sysctls use 1 and 0 for `on` and `off`.
    pub fn switch(self, name: &str) -> ReadingResult<bool> {
        match self.text(name)? {
            "on" | "1" => Ok(true),
            "off" | "0" => Ok(false),
            text => Err(describe_invalid_reading(name, text, "on or off")),
        }
    }
}

fn parse_number(text: &str) -> Option<u64> {
    text.parse().ok().filter(|value| *value <= MAX_READING)
}

fn describe_invalid_reading(name: &str, text: &str, expected: &str) -> String {
    let shown: String = text.chars().take(MAX_SHOWN_CHARS).collect();
    format!("{name} reads `{shown}`, which is not {expected}")
}

/// The function of a rule that judges the readings for one path.
type JudgeRule = fn(&AuditCase) -> ReadingResult<RuleJudgement>;

struct RuleJudgement {
    pub grade: AuditGrade,
    pub text: String,
    pub bound_bps: Option<u64>,
    pub remedies: Vec<AuditRemedy>,
}

fn build_judgement(grade: AuditGrade, text: impl Into<String>) -> RuleJudgement {
    RuleJudgement { grade, text: text.into(), bound_bps: None, remedies: Vec::new() }
}

fn judge_good(text: impl Into<String>) -> RuleJudgement {
    build_judgement(AuditGrade::Good, text)
}

fn judge_advice(text: impl Into<String>) -> RuleJudgement {
    build_judgement(AuditGrade::Advice, text)
}

fn judge_limits(text: impl Into<String>) -> RuleJudgement {
    build_judgement(AuditGrade::Limits, text)
}

fn judge_unknown(why: String) -> RuleJudgement {
    build_judgement(AuditGrade::Unknown, why)
}

/// Returns a good judgement with the text, or else advice with the trouble after the text.
fn judge_unless(is_good: bool, what: &str, trouble: &str, remedy: AuditRemedy) -> RuleJudgement {
    if is_good {
        return judge_good(what);
    }
    judge_advice(format!("{what}{trouble}")).remedy(remedy)
}

impl RuleJudgement {
    pub fn bound(mut self, bound_bps: Option<u64>) -> Self {
        self.bound_bps = bound_bps;
        self
    }

    pub fn remedy(mut self, remedy: AuditRemedy) -> Self {
        self.remedies.push(remedy);
        self
    }
}

/// Returns a remedy that writes a sysctl. The program may apply it: it is reversible.
fn remedy_by_sysctl(name: &str, value: impl Into<String>, text: impl Into<String>) -> AuditRemedy {
    let value = value.into();
    let quoted = if value.contains(' ') { format!("\"{value}\"") } else { value.clone() };
    AuditRemedy {
        name: Some(name.to_owned()),
        value: Some(value),
        command: Some(format!("sysctl -w {name}={quoted}")),
        text: text.into(),
    }
}

/// Returns a remedy that is a command for the user.
fn remedy_by_command(command: impl Into<String>, text: impl Into<String>) -> AuditRemedy {
    AuditRemedy { name: None, value: None, command: Some(command.into()), text: text.into() }
}

/// Returns a remedy that no command can apply.
fn remedy_by_hand(text: impl Into<String>) -> AuditRemedy {
    AuditRemedy { name: None, value: None, command: None, text: text.into() }
}

/// From this rate on, handling single packets takes a noticeable part of a core.
const FAST_BPS: u64 = 10_000_000_000;
/// From this rate on, one core is not enough.
const VERY_FAST_BPS: u64 = 40_000_000_000;
/// The maximum buffer that a sysctl can hold: it is an int.
const MAX_BUFFER_BYTES: u64 = (1 << 31) - 1;

/// One host, judged for one path.
struct AuditCase<'a> {
    pub readings: HostReadings<'a>,
    pub observation: &'a AuditObservation,
    pub path: &'a AuditPath,
}

/// Returns the bandwidth-delay product.
fn compute_bdp_bytes(path: &AuditPath) -> u64 {
    Rate::bits_per_second(path.rate_bps).bytes_in(Duration::from_micros(path.rtt_us))
}

impl<'a> AuditCase<'a> {
    pub fn in_flight_bytes(&self) -> u64 {
        compute_bdp_bytes(self.path)
    }

    /// Returns twice the bandwidth-delay product, rounded up to a power of two a sysctl can hold.
    pub fn wanted_buffer(&self) -> u64 {
        let twice = self.in_flight_bytes().saturating_mul(2);
        let power = twice.checked_next_power_of_two().unwrap_or(u64::MAX);
        power.min(MAX_BUFFER_BYTES)
    }

    /// Returns the maximum rate of one stream with this window.
    pub fn max_rate_bps(&self, window: u64) -> Option<u64> {
        window_bound_bps(window, self.path.rtt_us)
    }

    /// Returns whether the path is at least this fast.
    pub fn is_at_least(&self, rate_bps: u64) -> bool {
        self.path.rate_bps >= rate_bps
    }

    /// Returns text such as `10 Gbit/s × 100 ms needs 119.2 MiB in flight`.
    pub fn describe_need(&self) -> String {
        format!(
            "{} × {} needs {} in flight",
            Rate::bits_per_second(self.path.rate_bps),
            self.rtt(),
            Bytes(self.in_flight_bytes())
        )
    }

    pub fn rtt(&self) -> String {
        format_duration(Duration::from_micros(self.path.rtt_us))
    }

    /// Returns the interface's name, for a command.
    pub fn device(&self) -> &'a str {
        self.readings.text("interface.name").unwrap_or("DEV")
    }
}

const RTT_US: u64 = 100_000;
const RATE_BPS: u64 = 10_000_000_000;

/// Returns a path with the interface's speed, or 10 Gbit/s, and an RTT of 100 ms.
fn build_reference_path(readings: HostReadings) -> AuditPath {
    let speed = readings.number("interface.speed_bps").ok();
    let rate_bps = speed.filter(|bps| *bps > 0).unwrap_or(RATE_BPS);
    AuditPath {
        name: format!("reference, {} × 100 ms", Rate::bits_per_second(rate_bps)),
        rtt_us: RTT_US,
        rate_bps,
        origin: String::from("reference"),
    }
}

fn build_reference_caveat(path: &AuditPath) -> ReportCaveat {
    ReportCaveat::new(
        "reference_path",
        format!(
            "no path is known, so the host is judged for {} × 100 ms; give yours with --rtt and \
             --rate, or measure it",
            Rate::bits_per_second(path.rate_bps)
        ),
    )
}

#[cfg(test)]
mod tests;

use crate::limit::limit_bounds::window_bound_bps;
use longhaul_model::report::v1::host::{
    AuditAnalysis, AuditGrade, AuditObservation, AuditPath, AuditPlan, AuditRemedy, AuditVerdict,
};
use longhaul_model::report::v1::{FindingAdvice, ReportCaveat, ReportFinding};
use longhaul_model::units::{Bytes, Rate, format_duration};
use std::time::Duration;

pub use change_trials::{affects_direction, evaluate_trials, has_helped};

/// A rule of the host audit.
pub struct AuditRule {
    /// Its stable identifier.
    pub name: &'static str,
    /// The checked property, for people.
    pub title: &'static str,
    /// The document, with its year.
    pub source: &'static str,
    /// Set if the verdict depends on the path.
    pub by_path: bool,
    judge: JudgeRule,
}

impl AuditRule {
    /// Creates a rule whose verdict depends on the path.
    const fn of_path(name: &'static str, judge: JudgeRule) -> AuditRule {
        AuditRule { by_path: true, ..AuditRule::of_host(name, judge) }
    }

    /// Creates a rule whose verdict is the same for all paths.
    const fn of_host(name: &'static str, judge: JudgeRule) -> AuditRule {
        AuditRule { name, title: "", source: "", by_path: false, judge }
    }

    const fn title(self, title: &'static str) -> AuditRule {
        AuditRule { title, ..self }
    }

    const fn source(self, source: &'static str) -> AuditRule {
        AuditRule { source, ..self }
    }
}

const SUBJECTS: [&[AuditRule]; 11] = [
    buffer_rules::RULES,
    tcp_rules::RULES,
    tcp_rules::CONGESTION_RULES,
    queueing_rules::RULES,
    interface_rules::RULES,
    offload_rules::RULES,
    cpu_rules::RULES,
    interface_rules::BUS_RULES,
    RULES,
    softnet_rules::CONNTRACK_RULES,
    softnet_rules::RULES,
];

/// Returns all rules, by subject.
pub fn list_rules() -> impl Iterator<Item = &'static AuditRule> {
    SUBJECTS.into_iter().flatten()
}

/// Applies every rule to the paths of the plan, or to a reference path if the plan names none.
pub fn audit_host(
    plan: &AuditPlan,
    observation: &AuditObservation,
) -> (AuditAnalysis, Vec<ReportFinding>, Vec<ReportCaveat>) {
    let readings = HostReadings::new(observation);
    let mut caveats = collect_audit_caveats(readings);
    let mut paths = plan.paths.clone();
    if paths.is_empty() {
        let path = build_reference_path(readings);
        caveats.push(build_reference_caveat(&path));
        paths.push(path);
    }
    // The most demanding path comes first, so that verdicts name it.
    paths.sort_by_key(|path| std::cmp::Reverse(compute_bdp_bytes(path)));
    let mut verdicts: Vec<AuditVerdict> =
        list_rules().map(|rule| judge_rule(rule, observation, &paths)).collect();
    verdicts.sort_by_key(|verdict| (verdict.grade, verdict.bound_bps.unwrap_or(u64::MAX)));
    let findings = verdicts.iter().filter_map(build_audit_finding).collect();
    let analysis = AuditAnalysis {
        version: crate::VERSION,
        verdicts,
        proof: evaluate_trials(&observation.trials),
    };
    (analysis, findings, caveats)
}

/// Returns the worst judgement over the paths.
fn judge_rule(
    rule: &AuditRule,
    observation: &AuditObservation,
    paths: &[AuditPath],
) -> AuditVerdict {
    let readings = HostReadings::new(observation);
    let judge = |path| {
        let case = AuditCase { readings, observation, path };
        (path, (rule.judge)(&case).unwrap_or_else(judge_unknown))
    };
    let worst = paths.iter().map(judge).min_by_key(|(_, j)| j.grade);
    let (path, judgement) = worst.map_or_else(
        || (None, judge_unknown(String::from("no path was given"))),
        |(path, judgement)| (Some(path), judgement),
    );
    let RuleJudgement { grade, text, bound_bps, remedies } = judgement;
    AuditVerdict {
        rule: rule.name.to_owned(),
        grade,
        text,
        path: path
            .filter(|_| rule.by_path && grade != AuditGrade::Unknown)
            .map(|path| path.name.clone()),
        bound_bps,
        remedies,
        source: rule.source.to_owned(),
    }
}

/// Returns a finding for a setting that limits; it names the path if the verdict does.
fn build_audit_finding(verdict: &AuditVerdict) -> Option<ReportFinding> {
    if verdict.grade != AuditGrade::Limits {
        return None;
    }
    let advice = verdict.remedies.iter().map(|remedy| FindingAdvice {
        place: String::from("initiator"),
        text: remedy.text.clone(),
        command: remedy.command.clone(),
        expected_bps: None,
    });
    Some(ReportFinding {
        cause: verdict.rule.clone(),
        summary: verdict.text.clone(),
        confidence_ratio: 1.0,
        supports: verdict.path.iter().map(|p| format!("path {p}")).collect(),
        contradicts: Vec::new(),
        advice: advice.collect(),
    })
}

fn collect_audit_caveats(readings: HostReadings) -> Vec<ReportCaveat> {
    let mut found = Vec::new();
    if readings.switch("cpu.hypervisor") == Ok(true) {
        found.push(ReportCaveat::new(
            "virtual_machine",
            "this is a virtual machine: the physical interface, CPU and queues beneath it are not \
             visible",
        ));
    }
    found
}
