//! CSV of a load report: one line per probe, with the rates at that time.

use crate::scan_text::scan_csv::format_optional;
use longhaul_model::report::v1::LoadReport;
use longhaul_model::report::v1::load::{LoadFlow, LoadObservation, LoadPhase};
use std::fmt::Write;

/// The time around a probe over which rates are computed.
const SPAN_US: u64 = 200_000;

/// Renders the table with a header line.
pub fn render_load_csv(load: &LoadReport) -> String {
    let mut text =
        String::from("at_us,step,rtt_ns,forward_ns,reverse_ns,load_bps,competitor_bps\n");
    let observation = &load.observation;
    for probe in &observation.probes {
        let at_us = probe.echo.at_us;
        let phase = find_phase_at(observation, at_us);
        let flow_rate = |pick: fn(&LoadPhase) -> Option<&LoadFlow>| {
            let rate = phase.and_then(pick).and_then(|flow| compute_rate_at(flow, at_us));
            format_optional(rate)
        };
        let _ = writeln!(
            text,
            "{at_us},{},{},{},{},{},{}",
            format_optional(phase.and_then(|phase| phase.step)),
            format_optional(probe.echo.rtt_ns),
            format_optional(probe.forward_ns),
            format_optional(probe.reverse_ns),
            flow_rate(|phase| phase.load.as_ref()),
            flow_rate(|phase| phase.competitor.as_ref()),
        );
    }
    text
}

/// Returns the phase at a time.
fn find_phase_at(observation: &LoadObservation, at_us: u64) -> Option<&LoadPhase> {
    let mut phases = observation.phases.iter();
    phases.find(|phase| (phase.from_us..phase.until_us).contains(&at_us))
}

/// Returns the rate between the counts around a time.
pub fn compute_rate_at(flow: &LoadFlow, at_us: u64) -> Option<u64> {
    let before = flow.series.partition_point(|p| p.at_us <= at_us.saturating_sub(SPAN_US / 2));
    let after = flow.series.partition_point(|p| p.at_us < at_us + SPAN_US / 2);
    let low = flow.series.get(before.saturating_sub(1))?;
    let high = flow.series.get(after).or(flow.series.last())?;
    let time = high.at_us.checked_sub(low.at_us).filter(|time| *time > 0)?;
    Some(high.bytes.saturating_sub(low.bytes).saturating_mul(8_000_000) / time)
}
