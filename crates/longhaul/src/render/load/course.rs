//! The timeline of a load report: load, competitor, RTT and losses on a common time axis.
//!
//! The drawing shows the maximum of each column and is not a statistic.

use super::csv::rate_at;
use super::nanos;
use crate::render::figures::rate;
use crate::render::page::{LABEL, Page, WIDTH};
use crate::render::style::{FAINT, paint};
use longhaul_model::report::v1::Load;
use longhaul_model::report::v1::load::{Flow, Observation, Phase};

const BLOCKS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
/// The minimum number of probes for a timeline.
const LEAST_PROBES: usize = 50;
const COLUMNS: usize = WIDTH - LABEL;

/// Maps times to columns.
struct Axis {
    until_us: u64,
}

impl Axis {
    fn column(&self, at_us: u64) -> usize {
        let place = u128::from(at_us) * COLUMNS as u128 / u128::from(self.until_us.max(1));
        (place as usize).min(COLUMNS - 1)
    }

    fn middle_us(&self, column: usize) -> u64 {
        let place = (2 * column as u128 + 1) * u128::from(self.until_us);
        (place / (2 * COLUMNS as u128)) as u64
    }
}

pub fn draw(page: &mut Page, report: &Load) {
    let observation = &report.observation;
    let Some(last) = observation.probes.last() else {
        return;
    };
    if observation.probes.len() < LEAST_PROBES {
        return;
    }
    let axis = Axis {
        until_us: last.echo.at_us + 1,
    };
    page.blank();
    let mut line = |label: &str, picture: &str, top: String| {
        page.line(&format!(
            "{}{picture}",
            paint(FAINT, format!("{label:<LABEL$}"))
        ));
        if !top.is_empty() {
            let note = format!("{:LABEL$}a full block is {top}", "");
            page.line(&paint(FAINT, note));
        }
    };
    for (label, pick) in [
        (
            "load",
            (|phase| phase.load.as_ref()) as fn(&Phase) -> Option<&Flow>,
        ),
        ("competitor", |phase| phase.competitor.as_ref()),
    ] {
        let rates = rates(observation, &axis, pick);
        let most = rates.iter().copied().max().unwrap_or(0);
        if most > 0 {
            line(label, &blocks(&rates), rate(most));
        }
    }
    let trips = round_trips(observation, &axis);
    let most = trips.iter().copied().max().unwrap_or(0);
    line("round trips", &blocks(&trips), nanos(most));
    let lost = losses(observation, &axis);
    if lost.contains('x') {
        line("lost probes", &lost, String::new());
    }
    let seconds = format!("0 to {:.1} s", axis.until_us as f64 / 1e6);
    page.line(&paint(FAINT, format!("{:LABEL$}{seconds}", "")));
}

fn rates(observation: &Observation, axis: &Axis, pick: fn(&Phase) -> Option<&Flow>) -> Vec<u64> {
    let at = |column: usize| {
        let at_us = axis.middle_us(column);
        let mut phases = observation.phases.iter();
        let phase = phases.find(|p| (p.from_us..p.until_us).contains(&at_us))?;
        rate_at(pick(phase)?, at_us)
    };
    (0..COLUMNS).map(|column| at(column).unwrap_or(0)).collect()
}

fn round_trips(observation: &Observation, axis: &Axis) -> Vec<u64> {
    let mut columns = vec![0; COLUMNS];
    for probe in &observation.probes {
        let column = &mut columns[axis.column(probe.echo.at_us)];
        *column = probe.echo.rtt_ns.unwrap_or(0).max(*column);
    }
    columns
}

fn losses(observation: &Observation, axis: &Axis) -> String {
    let mut columns = vec![' '; COLUMNS];
    for probe in observation
        .probes
        .iter()
        .filter(|p| p.echo.rtt_ns.is_none())
    {
        columns[axis.column(probe.echo.at_us)] = 'x';
    }
    columns.into_iter().collect()
}

/// Draws values relative to their maximum; any value above zero is visible.
fn blocks(values: &[u64]) -> String {
    let most = values.iter().copied().max().unwrap_or(0).max(1);
    let block = |value: &u64| {
        let eighths = (*value as f64 / most as f64 * 8.0).round() as usize;
        BLOCKS[eighths.clamp(usize::from(*value > 0), 8)]
    };
    values.iter().map(block).collect()
}
