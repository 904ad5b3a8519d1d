//! Progress of the loads on stderr: first the total duration, then one line per second.

use crate::cli::args::LoadArgs;
use longhaul_model::report::v1::load::LoadPlan;
use longhaul_model::units::{Rate, format_duration};
use longhaul_probe::load_run::LoadRunProgress;
use longhaul_report::load_text::load_step_text;
use longhaul_report::number_format::{ABSENT, count_of, format_micros, format_rate, or_absent};
use longhaul_report::style::{FAINT, paint};
use std::io::{IsTerminal, Write};
use std::time::Duration;

/// The time between two lines.
const UPDATE_INTERVAL: Duration = Duration::from_secs(1);
/// The time to set up a load and to exchange results, on a path of 100 ms.
const SETUP_TIME_US: u64 = 2_000_000;

/// Prints the progress of the loads.
pub struct LoadProgress<'a> {
    plan: &'a LoadPlan,
    lines: bool,
    last: Option<LoadRunProgress>,
}

impl<'a> LoadProgress<'a> {
    pub fn new(args: &LoadArgs, plan: &'a LoadPlan) -> LoadProgress<'a> {
        let terminal = std::io::stderr().is_terminal();
        let steps = plan.steps.len() as u64;
        if !args.output.quiet {
            let whole = plan.idle_us * (steps + 1) + (plan.load_us + SETUP_TIME_US) * steps;
            print_line(&format!(
                "{} of {}, with probes every {}: about {} in total",
                count_of(steps, "load"),
                format_micros(plan.load_us),
                format_micros(plan.probe_interval_us),
                format_micros(whole / 1_000_000 * 1_000_000)
            ));
        }
        LoadProgress {
            plan,
            lines: !args.output.quiet && !args.output.form.json && terminal,
            last: None,
        }
    }

    /// Prints a line if the last one is old enough or another load has begun.
    pub fn show(&mut self, now: &LoadRunProgress) {
        let (before, due) = match &self.last {
            None => (LoadRunProgress::default(), true),
            Some(last) => {
                let changed = last.step != now.step;
                (last.clone(), changed || now.elapsed >= last.elapsed + UPDATE_INTERVAL)
            }
        };
        if !self.lines || !due {
            return;
        }
        let step = now.step.and_then(|i| self.plan.steps.get(i as usize));
        let what = step.map_or_else(|| "idle".to_owned(), load_step_text::describe_step);
        let time = now.elapsed.saturating_sub(before.elapsed);
        let speed = |new: Option<u64>, old: Option<u64>| {
            let grown = new?.checked_sub(old.unwrap_or(0))?;
            Rate::over(grown, time).map(|r| format_rate(r.as_bps()))
        };
        print_line(&format!(
            "{:>6.1} s  {what:<34}  RTT {:<9} {:>14} {:>14}",
            now.elapsed.as_secs_f64(),
            or_absent(now.rtt, format_duration),
            speed(now.load_bytes, before.load_bytes).unwrap_or_else(|| ABSENT.to_owned()),
            speed(now.competitor_bytes, before.competitor_bytes).unwrap_or_default(),
        ));
        self.last = Some(now.clone());
    }

    /// Prints an empty line between progress and result.
    pub fn finish(&self) {
        if self.last.is_some() {
            print_line("");
        }
    }
}

fn print_line(text: &str) {
    // If stderr is closed, the line is lost and the loads continue.
    let _ = writeln!(anstream::stderr(), "{}", paint(FAINT, text.trim_end()));
}
