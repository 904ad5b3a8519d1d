//! Checks that the clock is cheap to read and synchronised.
//!
//! Source: see each rule. Units: none.
//! Error: none. Wrong when: a daemon sets the clock without telling the kernel.

use super::Rule;
use super::case::Case;
use super::judgement::{Judgement, advice, by_hand, command, good};
use super::readings::Read;

const SOURCE: &str = "clock.source";
const SYNCHRONISED: &str = "clock.synchronised";
/// These are read over a bus, which takes about a microsecond.
const SLOW: [&str; 5] = ["hpet", "acpi_pm", "jiffies", "refined-jiffies", "pit"];

pub const RULES: &[Rule] = &[
    Rule {
        name: "clock_source",
        title: "reading the clock is cheap",
        source: "Linux timers/timekeeping (2025)",
        needs: &[SOURCE],
        by_path: false,
        applies: false,
        judge: clock_source,
    },
    Rule {
        name: "clock_synchronised",
        title: "the clock agrees with others",
        source: "RFC 7679 (2016); RFC 5905 (2010)",
        needs: &[SYNCHRONISED],
        by_path: false,
        applies: false,
        judge: clock_synchronised,
    },
];

fn clock_source(case: &Case) -> Read<Judgement> {
    let source = case.readings.text(SOURCE)?;
    if !SLOW.contains(&source) {
        return Ok(good(source));
    }
    let text = format!("{source} is slow to read, and pacing and time stamps read it all the time");
    let others = case.readings.text("clock.sources").unwrap_or_default();
    let tsc = others.split_whitespace().any(|word| word == "tsc");
    let remedy = if tsc {
        command(
            "echo tsc > /sys/devices/system/clocksource/clocksource0/current_clocksource",
            "See in the kernel's log first why it was passed over",
        )
    } else {
        by_hand("See in the kernel's log why the processor's own counter is not used")
    };
    Ok(advice(text).remedy(remedy))
}

fn clock_synchronised(case: &Case) -> Read<Judgement> {
    if case.readings.switch(SYNCHRONISED)? {
        return Ok(good("synchronised"));
    }
    let text = "not synchronised: what happened at both ends at one time cannot be told";
    Ok(advice(text).remedy(by_hand("Run chrony or another NTP daemon")))
}
