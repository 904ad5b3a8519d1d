//! Progress of a scan on stderr: first the budget, then one line for each probe.

use super::asked;
use super::course::Wanted;
use crate::cli::args::TuneArgs;
use crate::render::figures::{ABSENT, count_of, duration, or_absent, rate};
use crate::render::page::{WIDTH, wrap};
use crate::render::scan::words;
use crate::render::style::{CAVEAT, FAINT, paint};
use longhaul_model::report::v1::plan::Direction;
use longhaul_model::report::v1::scan::{Budget, Cell, Plan, Search};
use longhaul_model::units::{Bytes, Rate};
use longhaul_probe::throughput::{FlowProgress, Progress};
use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

/// The time between two updates of the current line.
const EVERY: Duration = Duration::from_millis(500);
/// The time of a probe besides its payload, until one has been measured.
const AROUND_A_PROBE_US: u64 = 1_500_000;

/// Prints the progress of a scan.
pub struct Told {
    /// Whether to print statements: the budget, a resumed scan.
    says: bool,
    /// Whether to print lines of probes: only on a terminal.
    lines: bool,
    search: Search,
    both: bool,
    /// The maximum number of probes, the number done by this process, and their time.
    total: u32,
    done: u32,
    taken: Duration,
    begun: Instant,
    /// The time of the last update, the receiver's counters then, and the rate shown.
    drawn: Option<(Instant, FlowProgress, Option<Rate>)>,
}

impl Told {
    pub fn new(args: &TuneArgs) -> Told {
        let terminal = std::io::stderr().is_terminal();
        Told {
            says: !args.quiet,
            lines: !args.quiet && !args.json && terminal,
            search: if args.grid {
                Search::Grid
            } else {
                Search::Guided
            },
            both: args.bidir,
            total: 0,
            done: 0,
            taken: Duration::ZERO,
            begun: Instant::now(),
            drawn: None,
        }
    }

    fn say(&self, text: &str) {
        if !self.says {
            return;
        }
        let lines = wrap(text, WIDTH);
        // If stderr is closed, the text is lost and the scan continues.
        let _ = writeln!(anstream::stderr(), "{}", lines.join("\n"));
    }

    /// Prints the budget before the scan.
    pub fn budget(&mut self, plan: &Plan) {
        self.total = plan.budget.probes;
        let time = asked::time_us(plan);
        self.say(&match plan.search {
            Search::Grid => grid_size(plan),
            Search::Guided => format!(
                "budget: up to {} of about {}, at most {}, {}",
                count_of(u64::from(plan.budget.probes), "probe"),
                words::span(time),
                words::span(plan.budget.time_us),
                payload(&plan.budget)
            ),
        });
    }

    /// Prints the budget of a direction, if there are two.
    pub fn budget_of_direction(&self, budget: &Budget, forward: bool) {
        if self.both {
            let way = if forward { "forward" } else { "reverse" };
            self.say(&format!(
                "{way}: up to {} of these, at most {}",
                count_of(u64::from(budget.probes), "probe"),
                words::span(budget.time_us)
            ));
        }
    }

    /// Prints that the probes of an earlier process are reused.
    pub fn resumed(&mut self, id: &str, cells: usize, plan: &Plan) {
        if cells == 0 {
            return;
        }
        let of = match plan.search {
            Search::Grid => format!(" of {}", plan.budget.probes),
            Search::Guided => String::new(),
        };
        self.total = self.total.saturating_sub(cells as u32);
        self.say(&format!(
            "resuming scan {id}: {cells}{of} probes are done; --fresh begins anew"
        ));
    }

    /// Starts the line of a probe.
    pub fn begins(&mut self, wanted: &Wanted) {
        self.begun = Instant::now();
        self.drawn = None;
        if !self.lines {
            return;
        }
        if let Some(why) = &wanted.why {
            let first = format!("probe {}: ", wanted.index + 1);
            let indent = " ".repeat(first.len());
            let text = wrap(why, WIDTH - first.len()).join(&format!("\n{indent}"));
            let _ = writeln!(anstream::stderr(), "{}", paint(FAINT, first + &text));
        }
        self.draw(&self.line(wanted, "connecting"));
    }

    /// Updates the line of the current probe.
    pub fn progress(&mut self, wanted: &Wanted, progress: &Progress) {
        let flow = if wanted.forward {
            &progress.forward
        } else {
            &progress.reverse
        };
        let Some(flow) = flow.as_ref().filter(|_| self.lines) else {
            return;
        };
        let now = Instant::now();
        if matches!(&self.drawn, Some((at, ..)) if now.duration_since(*at) < EVERY) {
            return;
        }
        let (before, shown) = match self.drawn.take() {
            Some((_, before, shown)) => (before, shown),
            None => (FlowProgress::default(), None),
        };
        // The server's counters are up to a second old; the line keeps its rate until they change.
        let fresh = flow.received_at > before.received_at;
        let rate = if fresh {
            rate_between(&before, flow)
        } else {
            shown
        };
        let elapsed = format!(
            "{:>4.1} of {:.0} s",
            progress.elapsed.as_secs_f64(),
            wanted.time.as_secs_f64()
        );
        let goodput = or_absent(rate, |rate| rate.to_string());
        self.draw(&self.line(wanted, &format!("{elapsed}  {goodput:>14}")));
        self.drawn = Some((now, if fresh { flow.clone() } else { before }, rate));
    }

    fn line(&self, wanted: &Wanted, what: &str) -> String {
        let setting = place_and_setting(
            wanted.index,
            &words::short(&wanted.setting),
            wanted.forward,
            self.both,
        );
        format!("{setting}{what}{}", self.left(wanted.time))
    }

    /// Returns the remaining time, from the mean duration of the probes so far.
    fn left(&self, payload_time: Duration) -> String {
        let around = Duration::from_micros(AROUND_A_PROBE_US);
        let each = match self.done {
            0 => payload_time + around,
            done => self.taken / done,
        };
        let probes = self.total.saturating_sub(self.done);
        let left = (each * probes).saturating_sub(self.begun.elapsed());
        let most = match self.search {
            Search::Grid => "about",
            Search::Guided => "at most",
        };
        format!("  {most} {} left", words::span(left.as_micros() as u64))
    }

    /// Overwrites the line. Spaces instead of an escape sequence: dumb terminals have none.
    fn draw(&self, line: &str) {
        if self.lines {
            let line: String = line.chars().take(WIDTH - 1).collect();
            let mut err = anstream::stderr();
            let _ = write!(err, "\r{line:<width$}", width = WIDTH - 1);
            let _ = err.flush();
        }
    }

    /// Completes the line of a probe.
    pub fn ended(&mut self, cell: &Cell) {
        self.done += 1;
        self.taken += self.begun.elapsed();
        if !self.lines {
            return;
        }
        let head = place_and_setting(
            cell.index,
            &words::short(&cell.setting),
            cell.forward,
            self.both,
        );
        let what = match (&cell.error, cell.goodput_bps) {
            (Some(error), _) => format!("failed: {error}"),
            (None, goodput) => format!(
                "{:>14}  {}, RTT {}",
                or_absent(goodput, rate),
                cell.limited_by.map_or(ABSENT, words::limit),
                or_absent(cell.loaded_rtt_us, duration)
            ),
        };
        self.draw(&format!("{head}{what}"));
        let _ = writeln!(anstream::stderr());
        self.drawn = None;
    }

    /// Prints that the server does not answer.
    pub fn waiting(&self, why: &str) {
        self.draw("");
        if self.lines {
            let _ = write!(anstream::stderr(), "\r");
        }
        self.say(&format!("{why}; waiting for the far end to answer again"));
    }

    /// Clears the current line.
    pub fn leave(&self) {
        if self.lines {
            self.draw("");
            let _ = write!(anstream::stderr(), "\r");
        }
    }
}

/// Prints a caveat at once.
pub fn warn(text: &str) {
    let _ = writeln!(anstream::stderr(), "{} {text}", paint(CAVEAT, "caveat:"));
}

fn place_and_setting(index: u32, setting: &str, forward: bool, both: bool) -> String {
    let way = match (both, forward) {
        (false, _) => "",
        (true, true) => " fwd",
        (true, false) => " rev",
    };
    format!("{:>4}{way}  {setting:<18} ", index + 1)
}

fn rate_between(before: &FlowProgress, now: &FlowProgress) -> Option<Rate> {
    let bytes = now
        .received_bytes?
        .saturating_sub(before.received_bytes.unwrap_or(0));
    let time = now
        .received_at?
        .saturating_sub(before.received_at.unwrap_or_default());
    Rate::over(bytes, time)
}

fn payload(budget: &Budget) -> String {
    match budget.bytes {
        Some(bytes) => format!("at most {} of payload", Bytes(bytes)),
        None => "no limit of payload (--budget-bytes sets one)".to_owned(),
    }
}

fn grid_size(plan: &Plan) -> String {
    let probes = u64::from(plan.budget.probes);
    let each = asked::time_us(plan);
    let cells =
        plan.windows_bytes.len() * plan.streams.len() * plan.congestion_controls.len().max(1);
    let ways = if plan.direction == Direction::Both {
        " in both directions"
    } else {
        ""
    };
    let repeats = match plan.repeats {
        1 => String::new(),
        repeats => format!(", {repeats} times each"),
    };
    let watch = probes.saturating_sub(
        cells as u64
            * u64::from(plan.repeats)
            * if plan.direction == Direction::Both {
                2
            } else {
                1
            },
    );
    let watch = match watch {
        0 => String::new(),
        more => format!(", and {more} more to watch the path"),
    };
    format!(
        "grid: {}{repeats}{ways}{watch}: {} of {}, about {} in all",
        count_of(cells as u64, "cell"),
        count_of(probes, "probe"),
        words::span(each),
        words::span(probes * (each + AROUND_A_PROBE_US))
    )
}
