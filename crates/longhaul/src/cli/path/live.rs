//! Progress of a path measurement on stderr: hops as they answer, and a status line.

use crate::cli::args::PathArgs;
use crate::render::figures::{ABSENT, or_absent};
use crate::render::page::WIDTH;
use crate::render::path::ms;
use crate::render::style::{FAINT, paint};
use longhaul_model::report::v1::path::{Echo, Hop, Route};
use longhaul_probe::path::{Part, Progress};
use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

/// The time between two updates of the status line.
const EVERY: Duration = Duration::from_millis(100);
/// A silent hop is shown once a hop this far beyond it has answered.
const AHEAD: u8 = 3;

/// Prints the progress of one path measurement, if it is enabled.
pub struct Live {
    enabled: bool,
    /// The number of hops printed.
    shown: usize,
    drawn: Option<Instant>,
}

impl Live {
    pub fn new(args: &PathArgs) -> Live {
        let output = &args.output;
        Live {
            enabled: !output.quiet && !output.json && std::io::stderr().is_terminal(),
            shown: 0,
            drawn: None,
        }
    }

    pub fn show(&mut self, progress: &Progress<'_>) {
        if !self.enabled {
            return;
        }
        let done = progress.observation.route.as_ref();
        if let Some(route) = done.or(progress.route) {
            self.hops(route, done.is_some());
        }
        let due = self.drawn.is_none_or(|at| at.elapsed() >= EVERY);
        if due {
            self.drawn = Some(Instant::now());
            draw(&line(progress));
        }
    }

    /// Prints the hops whose result is final, in order.
    fn hops(&mut self, route: &Route, done: bool) {
        let last = route.hops.iter().rev().find(|hop| !hop.answers.is_empty());
        let last = last.map_or(0, |hop| hop.ttl);
        while let Some(hop) = route.hops.get(self.shown) {
            let passed = last >= hop.ttl.saturating_add(AHEAD);
            if !done && hop.answers.is_empty() && !passed {
                break;
            }
            draw("");
            // If stderr is closed, the lines are lost and the measurement continues.
            let _ = writeln!(anstream::stderr(), "\r{}", paint(FAINT, hop_line(hop)));
            self.shown += 1;
        }
    }

    /// Clears the status line.
    pub fn finish(&self) {
        if self.drawn.is_some() {
            draw("");
            let _ = write!(anstream::stderr(), "\r");
        }
        if self.shown > 0 {
            let _ = writeln!(anstream::stderr());
        }
    }
}

/// Overwrites the line. Spaces instead of an escape sequence: dumb terminals have none.
fn draw(line: &str) {
    let line: String = line.chars().take(WIDTH - 1).collect();
    let mut err = anstream::stderr();
    let _ = write!(err, "\r{line:<width$}", width = WIDTH - 1);
    let _ = err.flush();
}

fn hop_line(hop: &Hop) -> String {
    let first = hop.answers.first();
    let address = first.map_or("*", |answer| answer.address.as_str());
    let rtt = first.and_then(|answer| answer.rtts_ns.iter().min().copied());
    let rtt = rtt.map_or_else(String::new, |rtt| format!("{} ms", ms(rtt)));
    format!("{:>3}  {address:<40}{rtt:>12}", hop.ttl)
}

fn line(progress: &Progress<'_>) -> String {
    let what = match progress.part {
        Part::Session => "asking whether a longhaul is there".to_owned(),
        Part::RoundTrips => round_trips(progress.echoes),
        Part::Route => match progress.route {
            Some(route) => format!("route: {} hops so far", route.hops.len()),
            None => "route".to_owned(),
        },
        Part::Mtu => "path MTU".to_owned(),
        Part::Options => "TCP options".to_owned(),
        Part::Reverse => "the view of the far end".to_owned(),
        Part::Load => match progress.load {
            Some(load) => format!("hops under load for {:.0} s", load.elapsed.as_secs_f64()),
            None => "hops without load".to_owned(),
        },
    };
    format!("{:>5.1} s  {what}", progress.elapsed.as_secs_f64())
}

fn round_trips(echoes: &[Echo]) -> String {
    let answered = echoes.iter().filter(|echo| echo.rtt_ns.is_some()).count();
    let last = echoes.iter().rev().find_map(|echo| echo.rtt_ns);
    let last = or_absent(last, |rtt| format!("{} ms", ms(rtt)));
    let last = if answered == 0 {
        ABSENT.to_owned()
    } else {
        last
    };
    format!("round trips: {answered} answered, the last in {last}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trips_are_counted_as_they_come() {
        let echo = |rtt_ns| Echo {
            at_us: 0,
            rtt_ns,
            ttl: None,
        };
        let echoes = [echo(Some(1_500_000)), echo(None)];
        assert_eq!(
            round_trips(&echoes),
            "round trips: 1 answered, the last in 1.500 ms"
        );
        assert_eq!(round_trips(&[]), "round trips: 0 answered, the last in -");
    }
}
