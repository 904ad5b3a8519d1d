//! Checks that the clock is cheap to read and synchronised.
//!
//! Source: see each rule. Units: none.
//! Error: none. Wrong when: a daemon sets the clock without telling the kernel.

use super::AuditRule;
use super::audit_case::AuditCase;
use super::host_readings::ReadingResult;
use super::rule_judgement::{
    RuleJudgement, judge_advice, judge_good, judge_unless, remedy_by_command, remedy_by_hand,
};

const SOURCE: &str = "clock.source";
const SYNCHRONISED: &str = "clock.synchronised";
/// These are read over a bus, which takes about a microsecond.
const SLOW: [&str; 5] = ["hpet", "acpi_pm", "jiffies", "refined-jiffies", "pit"];

pub const RULES: &[AuditRule] = &[
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
