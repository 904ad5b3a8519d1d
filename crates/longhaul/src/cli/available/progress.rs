//! Progress on stderr: first the budget, then one line that is updated in place.

use crate::cli::args::AvailableArgs;
use crate::render::available::size;
use crate::render::figures::{count_of, duration};
use crate::render::page::{WIDTH, wrap};
use longhaul_model::report::v1::available::{Plan, Probing};
use std::io::{IsTerminal, Write};

pub struct Progress {
    /// Whether to print the budget.
    says: bool,
    /// Whether to draw the progress line: only on a terminal.
    lines: bool,
    drawn: bool,
}

impl Progress {
    pub fn new(args: &AvailableArgs) -> Progress {
        let says = !args.output.quiet;
        Progress {
            says,
            lines: says && !args.output.json && std::io::stderr().is_terminal(),
            drawn: false,
        }
    }

    /// Prints the budget of each direction before the measurement.
    pub fn budget(&mut self, plan: &Plan) {
        if !self.says {
            return;
        }
        let way = match (plan.forward, plan.reverse) {
            (true, true) => "each way",
            (false, _) => "from the far end to here",
            (true, false) => "from here to the far end",
        };
        let text = format!(
            "budget: at most {} and {}, {way}; packets of {}",
            size(plan.most_bytes),
            duration(plan.most_time_us + plan.shaper_time_us.unwrap_or(0)),
            count_of(u64::from(plan.packet_bytes), "byte"),
        );
        let lines = wrap(&text, WIDTH).join("\n");
        // If stderr is closed, the text is lost and the run continues.
        let _ = writeln!(anstream::stderr(), "{lines}");
    }

    /// Shows the progress of a direction.
    pub fn round(&mut self, forward: bool, probing: &Probing) {
        let way = if forward { "forward" } else { "reverse" };
        self.line(&format!(
            "{way}: {}, {}, {}",
            count_of(probing.trains.len() as u64, "train"),
            size(probing.probe_bytes),
            duration(probing.duration_us),
        ));
    }

    /// Overwrites the line.
    pub fn line(&mut self, text: &str) {
        if !self.lines {
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
