//! Progress of a path measurement on stderr: hops as they answer, and a status line.

use crate::cli::args::PathArgs;
use longhaul_model::report::v1::path::{ObservedHop, ObservedRoute, ProbeEcho};
use longhaul_probe::path::{PathPart, PathProgress};
use longhaul_report::number_format::{ABSENT, or_absent};
use longhaul_report::path_text::format_ms;
use longhaul_report::style::{FAINT, paint};
use longhaul_report::text_page::WIDTH;
use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

/// The time between two updates of the status line.
const UPDATE_INTERVAL: Duration = Duration::from_millis(100);
/// A silent hop is shown once a hop this far beyond it has answered.
const SILENT_HOP_LAG: u8 = 3;

/// Prints the progress of one path measurement, if it is enabled.
pub struct PathProgressLines {
    enabled: bool,
    /// The number of hops printed.
    shown: usize,
    drawn: Option<Instant>,
}

impl PathProgressLines {
    pub fn new(args: &PathArgs) -> PathProgressLines {
        let output = &args.output;
        PathProgressLines {
            enabled: !output.quiet && !output.form.json && std::io::stderr().is_terminal(),
            shown: 0,
            drawn: None,
        }
    }

    pub fn show(&mut self, progress: &PathProgress<'_>) {
        if !self.enabled {
            return;
        }
        let done = progress.observation.route.as_ref();
        if let Some(route) = done.or(progress.route) {
            self.print_settled_hops(route, done.is_some());
        }
        let due = self.drawn.is_none_or(|at| at.elapsed() >= UPDATE_INTERVAL);
        if due {
            self.drawn = Some(Instant::now());
            overwrite_line(&format_path_progress(progress));
        }
    }

    /// Prints the hops whose result is final, in order.
    fn print_settled_hops(&mut self, route: &ObservedRoute, done: bool) {
        let last = route.hops.iter().rev().find(|hop| !hop.answers.is_empty());
        let last = last.map_or(0, |hop| hop.ttl);
        while let Some(hop) = route.hops.get(self.shown) {
            let passed = last >= hop.ttl.saturating_add(SILENT_HOP_LAG);
            if !done && hop.answers.is_empty() && !passed {
                break;
            }
            overwrite_line("");
            // If stderr is closed, the lines are lost and the measurement continues.
            let _ = writeln!(anstream::stderr(), "\r{}", paint(FAINT, format_hop_line(hop)));
            self.shown += 1;
        }
    }

    /// Clears the status line.
    pub fn finish(&self) {
        if self.drawn.is_some() {
            overwrite_line("");
            let _ = write!(anstream::stderr(), "\r");
        }
        if self.shown > 0 {
            let _ = writeln!(anstream::stderr());
        }
    }
}

/// Overwrites the line. Spaces instead of an escape sequence: dumb terminals have none.
fn overwrite_line(line: &str) {
    let line: String = line.chars().take(WIDTH - 1).collect();
    let mut err = anstream::stderr();
    let _ = write!(err, "\r{line:<width$}", width = WIDTH - 1);
    let _ = err.flush();
}

fn format_hop_line(hop: &ObservedHop) -> String {
    let first = hop.answers.first();
    let address = first.map_or("*", |answer| answer.address.as_str());
    let rtt = first.and_then(|answer| answer.rtts_ns.iter().min().copied());
    let rtt = rtt.map_or_else(String::new, |rtt| format!("{} ms", format_ms(rtt)));
    format!("{:>3}  {address:<40}{rtt:>12}", hop.ttl)
}

fn format_path_progress(progress: &PathProgress<'_>) -> String {
    let what = match progress.part {
        PathPart::Session => "looking for a longhaul server".to_owned(),
        PathPart::RoundTrips => format_round_trips(progress.echoes),
        PathPart::Route => match progress.route {
            Some(route) => format!("route: {} hops so far", route.hops.len()),
            None => "route".to_owned(),
        },
        PathPart::Mtu => "path MTU".to_owned(),
        PathPart::Options => "TCP options".to_owned(),
        PathPart::Reverse => "measurement from the server".to_owned(),
        PathPart::Load => match progress.load {
            Some(load) => format!("hops under load for {:.0} s", load.elapsed.as_secs_f64()),
            None => "idle hops".to_owned(),
        },
    };
    format!("{:>5.1} s  {what}", progress.elapsed.as_secs_f64())
}

fn format_round_trips(echoes: &[ProbeEcho]) -> String {
    let answered = echoes.iter().filter(|echo| echo.rtt_ns.is_some()).count();
    let last = echoes.iter().rev().find_map(|echo| echo.rtt_ns);
    let last = or_absent(last, |rtt| format!("{} ms", format_ms(rtt)));
    let last = if answered == 0 { ABSENT.to_owned() } else { last };
    format!("RTT: {answered} answered, last {last}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trips_are_counted_as_they_come() {
        let echo = |rtt_ns| ProbeEcho { at_us: 0, rtt_ns, ttl: None };
        let echoes = [echo(Some(1_500_000)), echo(None)];
        assert_eq!(format_round_trips(&echoes), "RTT: 1 answered, last 1.500 ms");
        assert_eq!(format_round_trips(&[]), "RTT: 0 answered, last -");
    }
}
