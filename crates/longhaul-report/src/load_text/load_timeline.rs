//! The timeline of a load report: load, competitor, RTT and losses on a common time axis.
//!
//! The drawing shows the maximum of each column and is not a statistic.

use super::format_nanos;
use super::load_csv::{compute_rate_at, find_phase_at};
use crate::document::ReportDocument;
use crate::goodput_picture::draw_blocks;
use crate::number_format::format_rate;
use crate::style::FAINT;
use crate::text_page::{LABEL, WIDTH};
use longhaul_model::report::v1::LoadReport;
use longhaul_model::report::v1::load::{LoadFlow, LoadObservation, LoadPhase};

/// The minimum number of probes for a timeline.
const MIN_PROBES: usize = 50;
const COLUMNS: usize = WIDTH - LABEL;

/// Maps times to columns.
struct TimelineAxis {
    until_us: u64,
}

impl TimelineAxis {
    fn column(&self, at_us: u64) -> usize {
        let place = u128::from(at_us) * COLUMNS as u128 / u128::from(self.until_us.max(1));
        (place as usize).min(COLUMNS - 1)
    }

    fn middle_us(&self, column: usize) -> u64 {
        let place = (2 * column as u128 + 1) * u128::from(self.until_us);
        (place / (2 * COLUMNS as u128)) as u64
    }
}

pub fn draw_timeline(page: &mut ReportDocument, report: &LoadReport) {
    let observation = &report.observation;
    let Some(last) = observation.probes.last() else {
        return;
    };
    if observation.probes.len() < MIN_PROBES {
        return;
    }
    let axis = TimelineAxis { until_us: last.echo.at_us + 1 };
    page.gap();
    let mut line = |label: &str, values: &[u64], top: String| {
        let values: Vec<f64> = values.iter().map(|value| *value as f64).collect();
        page.picture(label, draw_blocks(&values));
        page.styled_fact("", format!("█ = {top}"), FAINT);
    };
    for (label, pick) in [
        ("load", (|phase| phase.load.as_ref()) as fn(&LoadPhase) -> Option<&LoadFlow>),
        ("competitor", |phase| phase.competitor.as_ref()),
    ] {
        let rates = column_rates(observation, &axis, pick);
        let most = rates.iter().copied().max().unwrap_or(0);
        if most > 0 {
            line(label, &rates, format_rate(most));
        }
    }
    let trips = column_round_trips(observation, &axis);
    let most = trips.iter().copied().max().unwrap_or(0);
    line("RTT", &trips, format_nanos(most));
    let lost = column_losses(observation, &axis);
    if lost.contains('x') {
        page.picture("lost probes", lost);
    }
    let seconds = format!("0 to {:.1} s", axis.until_us as f64 / 1e6);
    page.styled_fact("", seconds, FAINT);
}

fn column_rates(
    observation: &LoadObservation,
    axis: &TimelineAxis,
    pick: fn(&LoadPhase) -> Option<&LoadFlow>,
) -> Vec<u64> {
    let at = |column: usize| {
        let at_us = axis.middle_us(column);
        let phase = find_phase_at(observation, at_us)?;
        compute_rate_at(pick(phase)?, at_us)
    };
    (0..COLUMNS).map(|column| at(column).unwrap_or(0)).collect()
}

fn column_round_trips(observation: &LoadObservation, axis: &TimelineAxis) -> Vec<u64> {
    let mut columns = vec![0; COLUMNS];
    for probe in &observation.probes {
        let column = &mut columns[axis.column(probe.echo.at_us)];
        *column = probe.echo.rtt_ns.unwrap_or(0).max(*column);
    }
    columns
}

fn column_losses(observation: &LoadObservation, axis: &TimelineAxis) -> String {
    let mut columns = vec![' '; COLUMNS];
    for probe in observation.probes.iter().filter(|p| p.echo.rtt_ns.is_none()) {
        columns[axis.column(probe.echo.at_us)] = 'x';
    }
    columns.into_iter().collect()
}
