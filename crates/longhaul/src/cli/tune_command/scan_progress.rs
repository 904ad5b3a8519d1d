//! Progress of a scan on stderr: first the budget, then one line for each probe.

use super::active_scan::ProbeRequest;
use super::scan_plan;
use crate::cli::args::TuneArgs;
use longhaul_model::report::v1::plan::RunDirection;
use longhaul_model::report::v1::scan::{ScanBudget, ScanCell, ScanPlan, SearchMode};
use longhaul_model::units::{Bytes, Rate};
use longhaul_probe::throughput::{PayloadProgress, ThroughputProgress};
use longhaul_report::number_format::{ABSENT, count_of, format_micros, format_rate, or_absent};
use longhaul_report::scan_text::setting_format;
use longhaul_report::style::{CAVEAT, FAINT, paint};
use longhaul_report::text_page::{WIDTH, wrap_text};
use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

/// The time between two updates of the current line.
const UPDATE_INTERVAL: Duration = Duration::from_millis(500);
/// The time of a probe besides its payload, until one has been measured.
const PROBE_OVERHEAD_US: u64 = 1_500_000;

/// Prints the progress of a scan.
pub struct ScanProgress {
    /// Whether to print statements: the budget, a resumed scan.
    prints_statements: bool,
    /// Whether to print lines of probes: only on a terminal.
    prints_probes: bool,
    search: SearchMode,
    both: bool,
    /// The maximum number of probes, the number done by this process, and their time.
    total: u32,
    done: u32,
    time_used: Duration,
    begun: Instant,
    /// The time of the last update, the receiver's counters then, and the rate shown.
    drawn: Option<(Instant, PayloadProgress, Option<Rate>)>,
}

impl ScanProgress {
    pub fn new(args: &TuneArgs) -> ScanProgress {
        let terminal = std::io::stderr().is_terminal();
        ScanProgress {
            prints_statements: !args.output.quiet,
            prints_probes: !args.output.quiet && !args.output.form.json && terminal,
            search: if args.grid { SearchMode::Grid } else { SearchMode::Guided },
            both: args.bidir,
            total: 0,
            done: 0,
            time_used: Duration::ZERO,
            begun: Instant::now(),
            drawn: None,
        }
    }

    fn print_statement(&self, text: &str) {
        if !self.prints_statements {
            return;
        }
        let lines = wrap_text(text, WIDTH);
        // If stderr is closed, the text is lost and the scan continues.
        let _ = writeln!(anstream::stderr(), "{}", lines.join("\n"));
    }

    /// Prints the budget before the scan.
    pub fn print_budget(&mut self, plan: &ScanPlan) {
        self.total = plan.budget.probes;
        let time = scan_plan::probe_time_us(plan);
        self.print_statement(&match plan.search {
            SearchMode::Grid => describe_grid(plan),
            SearchMode::Guided => format!(
                "budget: up to {} of about {}, at most {}, {}",
                count_of(u64::from(plan.budget.probes), "probe"),
                setting_format::format_span(time),
                setting_format::format_span(plan.budget.time_us),
                describe_payload_budget(&plan.budget)
            ),
        });
    }

    /// Prints the budget of a direction, if there are two.
    pub fn print_direction_budget(&self, budget: &ScanBudget, forward: bool) {
        if self.both {
            let way = if forward { "forward" } else { "reverse" };
            self.print_statement(&format!(
                "{way}: up to {} of these, at most {}",
                count_of(u64::from(budget.probes), "probe"),
                setting_format::format_span(budget.time_us)
            ));
        }
    }

    /// Prints that the probes of an earlier process are reused.
    pub fn print_resumed(&mut self, id: &str, cells: usize, plan: &ScanPlan) {
        if cells == 0 {
            return;
        }
        let of = match plan.search {
            SearchMode::Grid => format!(" of {}", plan.budget.probes),
            SearchMode::Guided => String::new(),
        };
        self.total = self.total.saturating_sub(cells as u32);
        self.print_statement(&format!(
            "resuming scan {id}: {cells}{of} probes are done; --fresh starts a new scan"
        ));
    }

    /// Starts the line of a probe.
    pub fn begin_probe(&mut self, wanted: &ProbeRequest) {
        self.begun = Instant::now();
        self.drawn = None;
        if !self.prints_probes {
            return;
        }
        if let Some(why) = &wanted.why {
            let first = format!("probe {}: ", wanted.index + 1);
            let indent = " ".repeat(first.len());
            let text = wrap_text(why, WIDTH - first.len()).join(&format!("\n{indent}"));
            let _ = writeln!(anstream::stderr(), "{}", paint(FAINT, first + &text));
        }
        self.overwrite_line(&self.format_line(wanted, "connecting"));
    }

    /// Updates the line of the current probe.
    pub fn update_probe(&mut self, wanted: &ProbeRequest, progress: &ThroughputProgress) {
        let flow = if wanted.forward { &progress.forward } else { &progress.reverse };
        let Some(flow) = flow.as_ref().filter(|_| self.prints_probes) else {
            return;
        };
        let now = Instant::now();
        if matches!(&self.drawn, Some((at, ..)) if now.duration_since(*at) < UPDATE_INTERVAL) {
            return;
        }
        let (before, shown) = match self.drawn.take() {
            Some((_, before, shown)) => (before, shown),
            None => (PayloadProgress::default(), None),
        };
        // The server's counters are up to a second old; the line keeps its rate until they change.
        let fresh = flow.received_at > before.received_at;
        let rate = if fresh { rate_between(&before, flow) } else { shown };
        let elapsed = format!(
            "{:>4.1} of {:.0} s",
            progress.elapsed.as_secs_f64(),
            wanted.time.as_secs_f64()
        );
        let goodput = or_absent(rate, |rate| rate.to_string());
        self.overwrite_line(&self.format_line(wanted, &format!("{elapsed}  {goodput:>14}")));
        self.drawn = Some((now, if fresh { flow.clone() } else { before }, rate));
    }

    fn format_line(&self, wanted: &ProbeRequest, what: &str) -> String {
        let setting = format_cell_label(
            wanted.index,
            &setting_format::format_setting(&wanted.setting),
            wanted.forward,
            self.both,
        );
        format!("{setting}{what}{}", self.format_time_left(wanted.time))
    }

    /// Returns the remaining time, from the mean duration of the probes so far.
    fn format_time_left(&self, payload_time: Duration) -> String {
        let around = Duration::from_micros(PROBE_OVERHEAD_US);
        let each = match self.done {
            0 => payload_time + around,
            done => self.time_used / done,
        };
        let probes = self.total.saturating_sub(self.done);
        let left = (each * probes).saturating_sub(self.begun.elapsed());
        let most = match self.search {
            SearchMode::Grid => "about",
            SearchMode::Guided => "at most",
        };
        format!("  {most} {} left", setting_format::format_span(left.as_micros() as u64))
    }

    /// Overwrites the line. Spaces instead of an escape sequence: dumb terminals have none.
    fn overwrite_line(&self, line: &str) {
        if self.prints_probes {
            let line: String = line.chars().take(WIDTH - 1).collect();
            let mut err = anstream::stderr();
            let _ = write!(err, "\r{line:<width$}", width = WIDTH - 1);
            let _ = err.flush();
        }
    }

    /// Completes the line of a probe.
    pub fn end_probe(&mut self, cell: &ScanCell) {
        self.done += 1;
        self.time_used += self.begun.elapsed();
        if !self.prints_probes {
            return;
        }
        let head = format_cell_label(
            cell.index,
            &setting_format::format_setting(&cell.setting),
            cell.forward,
            self.both,
        );
        let what = match (&cell.error, cell.goodput_bps) {
            (Some(error), _) => format!("failed: {error}"),
            (None, goodput) => format!(
                "{:>14}  {}, RTT {}",
                or_absent(goodput, format_rate),
                cell.limited_by.map_or(ABSENT, setting_format::limiter_label),
                or_absent(cell.loaded_rtt_us, format_micros)
            ),
        };
        self.overwrite_line(&format!("{head}{what}"));
        let _ = writeln!(anstream::stderr());
        self.drawn = None;
    }

    /// Prints that the server does not answer.
    pub fn print_waiting(&self, why: &str) {
        self.overwrite_line("");
        if self.prints_probes {
            let _ = write!(anstream::stderr(), "\r");
        }
        self.print_statement(&format!("{why}; waiting for the server"));
    }

    /// Clears the current line.
    pub fn clear_line(&self) {
        if self.prints_probes {
            self.overwrite_line("");
            let _ = write!(anstream::stderr(), "\r");
        }
    }
}

/// Prints a caveat at once.
pub fn print_caveat(text: &str) {
    let _ = writeln!(anstream::stderr(), "{} {text}", paint(CAVEAT, "caveat:"));
}

fn format_cell_label(index: u32, setting: &str, forward: bool, both: bool) -> String {
    let way = match (both, forward) {
        (false, _) => "",
        (true, true) => " fwd",
        (true, false) => " rev",
    };
    format!("{:>4}{way}  {setting:<18} ", index + 1)
}

fn rate_between(before: &PayloadProgress, now: &PayloadProgress) -> Option<Rate> {
    let bytes = now.received_bytes?.saturating_sub(before.received_bytes.unwrap_or(0));
    let time = now.received_at?.saturating_sub(before.received_at.unwrap_or_default());
    Rate::over(bytes, time)
}

fn describe_payload_budget(budget: &ScanBudget) -> String {
    match budget.bytes {
        Some(bytes) => format!("at most {} of payload", Bytes(bytes)),
        None => "unlimited payload (limit it with --budget-bytes)".to_owned(),
    }
}

fn describe_grid(plan: &ScanPlan) -> String {
    let probes = u64::from(plan.budget.probes);
    let each = scan_plan::probe_time_us(plan);
    let cells =
        plan.windows_bytes.len() * plan.streams.len() * plan.congestion_controls.len().max(1);
    let ways = if plan.direction == RunDirection::Both { " in both directions" } else { "" };
    let repeats = match plan.repeats {
        1 => String::new(),
        repeats => format!(", {repeats} times each"),
    };
    let watch = probes.saturating_sub(
        cells as u64
            * u64::from(plan.repeats)
            * if plan.direction == RunDirection::Both { 2 } else { 1 },
    );
    let watch = match watch {
        0 => String::new(),
        more => format!(", and {more} more to detect changes of the path"),
    };
    format!(
        "grid: {}{repeats}{ways}{watch}: {} of {}, about {} in total",
        count_of(cells as u64, "cell"),
        count_of(probes, "probe"),
        setting_format::format_span(each),
        setting_format::format_span(probes * (each + PROBE_OVERHEAD_US))
    )
}
