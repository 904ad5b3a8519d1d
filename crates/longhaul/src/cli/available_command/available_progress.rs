//! Progress on stderr: first the budget, then one line that is updated in place.

use crate::cli::args::AvailableArgs;
use longhaul_model::report::v1::available::{AvailablePlan, DirectionProbing};
use longhaul_report::available_text::format_probe_bytes;
use longhaul_report::number_format::{count_of, format_micros};
use longhaul_report::text_page::{WIDTH, wrap_text};
use std::io::{IsTerminal, Write};

pub struct AvailableProgress {
    /// Whether to print the budget.
    prints_budget: bool,
    /// Whether to draw the progress line: only on a terminal.
    draws_line: bool,
    drawn: bool,
}

impl AvailableProgress {
    pub fn new(args: &AvailableArgs) -> AvailableProgress {
        let says = !args.output.quiet;
        AvailableProgress {
            prints_budget: says,
            draws_line: says && !args.output.form.json && std::io::stderr().is_terminal(),
            drawn: false,
        }
    }

    /// Prints the budget of each direction before the measurement.
    pub fn print_budget(&mut self, plan: &AvailablePlan) {
        if !self.prints_budget {
            return;
        }
        let way = match (plan.forward, plan.reverse) {
            (true, true) => "per direction",
            (false, _) => "reverse",
            (true, false) => "forward",
        };
        let text = format!(
            "budget: at most {} and {}, {way}; packets of {}",
            format_probe_bytes(plan.most_bytes),
            format_micros(plan.most_time_us + plan.shaper_time_us.unwrap_or(0)),
            count_of(u64::from(plan.packet_bytes), "byte"),
        );
        let lines = wrap_text(&text, WIDTH).join("\n");
        // If stderr is closed, the text is lost and the run continues.
        let _ = writeln!(anstream::stderr(), "{lines}");
    }

    /// Shows the progress of a direction.
    pub fn print_round(&mut self, forward: bool, probing: &DirectionProbing) {
        let way = if forward { "forward" } else { "reverse" };
        self.draw_line(&format!(
            "{way}: {}, {}, {}",
            count_of(probing.trains.len() as u64, "train"),
            format_probe_bytes(probing.probe_bytes),
            format_micros(probing.duration_us),
        ));
    }

    /// Overwrites the line.
    pub fn draw_line(&mut self, text: &str) {
        if !self.draws_line {
            return;
        }
        self.drawn = true;
        let width = WIDTH - 1;
        let _ = write!(anstream::stderr(), "\r{text:<width$}");
    }

    /// Clears the line.
    pub fn finish(&mut self) {
        if std::mem::take(&mut self.drawn) {
            let width = WIDTH - 1;
            let _ = write!(anstream::stderr(), "\r{:<width$}\r", "");
        }
    }
}
