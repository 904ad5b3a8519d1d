//! `longhaul path HOST --watch`: probes all hops in rounds until it is stopped, then reports.
//!
//! [`watch_state`] has the results per hop, [`watch_table`] the live table. The terminal is
//! restored however the watch ends: when the screen is dropped, and by a hook before the message of
//! a panic.

mod watch_state;
mod watch_table;

use crate::cli::args::PathArgs;
use crate::cli::command_output;
use crate::cli::path_command::MIN_ROUND_US;
use crate::cli::path_command::hop_origins::HopOrigins;
use crate::cli::path_command::{archive_path_report, show_path_report};
use crate::command_failure::{CommandFailure, HOST};
use jiff::Timestamp;
use longhaul_model::report::v1::ReportCaveat;
use longhaul_model::report::v1::path::{
    ObservedRoute, PathPlan, ProbeProtocol, RoundTripSeries, TracePlan,
};
use longhaul_probe::path::route_trace::{HopProber, TraceRequest};
use longhaul_probe::path::{self, PathError, PathOutcome, ProbeTarget};
use longhaul_probe::throughput::TargetHost;
use longhaul_report::path_text::protocol_name;
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use std::io::{self, IsTerminal};
use std::net::IpAddr;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use watch_state::{WatchHopStats, WatchState};
use watch_table::{TableView, draw_watch_table, format_plain_hop};

/// The maximum delay of keys and Ctrl-C while no answer arrives.
const POLL_INTERVAL: Duration = Duration::from_millis(30);
/// The time between probes of the first round, which finds the route.
const DISCOVERY_GAP: Duration = Duration::from_millis(10);
/// The number of round trips of the initial measurement.
const INITIAL_ROUND_TRIPS: u32 = 1;
/// The maximum lifetime of a prober; a watch has no limit.
const MAX_PROBER_TIME: Duration = Duration::from_secs(30 * 24 * 3600);
/// The packet size in the report; the prober chooses its own.
const PROBE_BYTES: u32 = 64;

pub fn run(
    args: &PathArgs,
    mut plan: PathPlan,
    target: &TargetHost,
    stop: &AtomicBool,
) -> Result<ExitCode, CommandFailure> {
    plan.round_trips.interval_us = args.interval.unwrap_or(MIN_ROUND_US);
    plan.round_trips.probes = INITIAL_ROUND_TRIPS;
    (plan.reverse, plan.mtu) = (false, false);
    let trace = plan.trace.take();
    let mut outcome = path::run(target, &plan, stop, &mut |_| {})?;
    plan.trace = trace;
    let begin = Instant::now();
    let (prober, protocol) = open_hop_prober(&plan, target, &mut outcome)?;
    let mut watch = PathWatch {
        prober,
        state: WatchState::new(args.max_hops, args.timeout),
        origins: HopOrigins::new(&args.output.archive, !args.no_names),
        begin,
        round_interval: Duration::from_micros(plan.round_trips.interval_us),
        most_rounds: args.count,
    };
    let title = format!(
        "{} ({}) by {}",
        args.peer.host,
        outcome.observation.address,
        protocol_name(protocol)
    );
    let mut screen = WatchScreen::open(args, title)?;
    let ended = watch.run_rounds(&mut screen, stop);
    drop(screen);
    ended?;
    plan.round_trips.probes = watch.state.rounds;
    let interrupted = stop.load(Ordering::Relaxed);
    watch.write_observation(&mut outcome, protocol);
    plan.protocol = protocol;
    let origins = watch.origins;
    let report = archive_path_report(args, plan, outcome, origins);
    show_path_report(args, &report, interrupted)
}

/// Opens a prober for the requested protocol, or for UDP if a privilege is missing.
fn open_hop_prober(
    plan: &PathPlan,
    target: &TargetHost,
    outcome: &mut PathOutcome,
) -> Result<(HopProber, ProbeProtocol), CommandFailure> {
    let address = &outcome.observation.address;
    let destination: IpAddr = address.parse().map_err(|_| {
        CommandFailure::new(crate::command_failure::BUG, format!("{address} is not an address"))
    })?;
    let mut asked = TraceRequest {
        target: ProbeTarget {
            destination,
            source: target.bind.address,
            device: target.bind.device.clone(),
            protocol: plan.protocol,
            port: plan.port,
        },
        trace: plan.trace.clone().unwrap_or(TracePlan {
            most_hops: u8::MAX,
            probes: 1,
            timeout_us: plan.round_trips.timeout_us,
            confidence_ratio: None,
        }),
        max_time: MAX_PROBER_TIME,
    };
    match HopProber::new(&asked) {
        Ok(prober) => Ok((prober, plan.protocol)),
        Err(why @ PathError::Privilege { .. }) if plan.protocol != ProbeProtocol::Udp => {
            let text = format!("{why}; hops are probed by UDP instead");
            outcome.caveats.push(ReportCaveat::new("protocol_replaced", text));
            asked.target.protocol = ProbeProtocol::Udp;
            asked.target.port = None;
            let prober = HopProber::new(&asked).map_err(|e| path_failure(&e))?;
            Ok((prober, ProbeProtocol::Udp))
        }
        Err(e) => Err(path_failure(&e)),
    }
}

fn path_failure(error: &PathError) -> CommandFailure {
    CommandFailure::from_error(error.exit_code(), error).hint(error.hint())
}

/// A watch in progress.
struct PathWatch {
    prober: HopProber,
    state: WatchState,
    origins: HopOrigins,
    begin: Instant,
    round_interval: Duration,
    most_rounds: Option<u32>,
}

impl PathWatch {
    /// Runs rounds until the user, a signal or the maximum number of rounds ends the watch.
    fn run_rounds(
        &mut self,
        screen: &mut WatchScreen,
        stop: &AtomicBool,
    ) -> Result<(), CommandFailure> {
        let mut round_at = Duration::ZERO;
        let mut probe_at = Duration::ZERO;
        self.state.begin_round();
        while !stop.load(Ordering::Relaxed) {
            let now = self.begin.elapsed();
            self.state.expire(now);
            if self.is_last_round() && self.state.has_no_outstanding() {
                break;
            }
            if now >= round_at + self.round_interval && !self.is_last_round() && !self.state.paused
            {
                screen.print_round(&self.state, &mut self.origins)?;
                self.state.begin_round();
                (round_at, probe_at) = (now, now);
            }
            if now >= probe_at && self.send_probe()? {
                probe_at = now + self.probe_gap();
            }
            self.receive_answers(probe_at.max(now))?;
            let quit = screen.update(&mut self.state, &mut self.origins);
            if quit.map_err(|e| terminal_failure(&e))? {
                break;
            }
        }
        screen.print_round(&self.state, &mut self.origins)
    }

    fn is_last_round(&self) -> bool {
        self.most_rounds.is_some_and(|most| self.state.rounds >= most)
    }

    /// Returns the time between probes: spread over the round, except while finding the route.
    fn probe_gap(&self) -> Duration {
        if self.state.rounds < 2 || self.state.reached.is_none() {
            return DISCOVERY_GAP;
        }
        self.round_interval / (u32::from(self.state.last_ttl()) + 1)
    }

    fn send_probe(&mut self) -> Result<bool, CommandFailure> {
        let Some(ttl) = self.state.next_ttl() else {
            return Ok(false);
        };
        let number = self.prober.send(ttl).map_err(|e| path_failure(&e))?;
        self.state.record_sent(ttl, number, self.begin.elapsed());
        Ok(true)
    }

    /// Receives answers until the next probe or the next check for keys is due.
    fn receive_answers(&mut self, probe_at: Duration) -> Result<(), CommandFailure> {
        let look = Instant::now() + POLL_INTERVAL;
        let until =
            if self.state.next_ttl().is_some() { look.min(self.begin + probe_at) } else { look };
        while let Some(echo) = self.prober.poll(until).map_err(|e| path_failure(&e))? {
            self.origins.names.request(echo.address);
            let reached = echo.address == self.prober.flow().destination;
            self.state.record_answer(&echo, reached);
            if Instant::now() >= until {
                break;
            }
        }
        Ok(())
    }

    /// Writes the results of the watch into the observation.
    fn write_observation(&self, outcome: &mut PathOutcome, protocol: ProbeProtocol) {
        outcome.duration = outcome.started_at.elapsed().unwrap_or(outcome.duration);
        let state = &self.state;
        let flow = self.prober.flow();
        let hops = (1..).zip(state.shown_hops());
        let hops = hops.map(|(ttl, seen)| seen.to_observed_hop(ttl)).collect();
        let reached = state.reached.is_some();
        let observation = &mut outcome.observation;
        observation.route = Some(ObservedRoute {
            from: flow.source.to_string(),
            to: flow.destination.to_string(),
            protocol,
            flow: flow.describe(),
            at_us: 0,
            duration_us: self.begin.elapsed().as_micros() as u64,
            hops,
            reached,
            ended_by: if reached { "reached" } else { "silent" }.to_owned(),
            links: Vec::new(),
            confidence_ratio: None,
            probes_sent: self.prober.sent(),
            discarded: self.prober.discarded(),
        });
        if reached {
            observation.round_trips = Some(RoundTripSeries {
                protocol,
                clock: "kernel_receive".to_owned(),
                packet_bytes: PROBE_BYTES,
                sent: state.echoes.len() as u32,
                echoes: state.echoes.clone(),
                duplicates: 0,
                reordered: 0,
                discarded: self.prober.discarded(),
            });
        }
    }
}

/// The time between two redraws.
const REDRAW_INTERVAL: Duration = Duration::from_millis(200);

/// The output of a watch: a terminal with keys, plain lines, or none.
enum WatchScreen {
    Table(Box<LiveTable>),
    Lines,
    Nothing,
}

struct LiveTable {
    terminal: DefaultTerminal,
    view: TableView,
    drawn: Option<Instant>,
}

impl Drop for LiveTable {
    fn drop(&mut self) {
        ratatui::restore();
    }
}

impl WatchScreen {
    pub fn open(args: &PathArgs, title: String) -> Result<WatchScreen, CommandFailure> {
        let output = &args.output;
        if io::stdout().is_terminal() && io::stdin().is_terminal() {
            let terminal = ratatui::try_init().map_err(|e| {
                // Restores what was changed before the failure.
                ratatui::restore();
                terminal_failure(&e)
            })?;
            return Ok(WatchScreen::Table(Box::new(LiveTable {
                terminal,
                view: TableView { title, names: !args.no_names, ..TableView::default() },
                drawn: None,
            })));
        }
        Ok(if output.form.json || output.quiet { WatchScreen::Nothing } else { WatchScreen::Lines })
    }

    /// Redraws when due, and handles keys. Returns true to end the watch.
    pub fn update(&mut self, state: &mut WatchState, origins: &mut HopOrigins) -> io::Result<bool> {
        let WatchScreen::Table(table) = self else {
            return Ok(false);
        };
        let mut changed = false;
        while event::poll(Duration::ZERO)? {
            changed = true;
            if let Event::Key(key) = event::read()?
                && key.kind != KeyEventKind::Release
                && handle_key(key, state, &mut table.view)
            {
                return Ok(true);
            }
        }
        if changed || table.drawn.is_none_or(|at| at.elapsed() >= REDRAW_INTERVAL) {
            let hops = state.shown_hops().iter();
            let labels: Vec<String> =
                hops.map(|hop| hop_label(hop, table.view.names, origins)).collect();
            let view = &table.view;
            table.terminal.draw(|frame| draw_watch_table(frame, state, view, &labels))?;
            table.drawn = Some(Instant::now());
        }
        Ok(false)
    }

    /// Prints the lines of a finished round, if there is no table.
    pub fn print_round(
        &mut self,
        state: &WatchState,
        origins: &mut HopOrigins,
    ) -> Result<(), CommandFailure> {
        let WatchScreen::Lines = self else {
            return Ok(());
        };
        let now = Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ");
        let mut text = format!("{now} round {}: last, min, avg, max ms, loss\n", state.rounds);
        for (place, hop) in state.shown_hops().iter().enumerate() {
            let label = hop_label(hop, false, origins);
            text += format_plain_hop(place + 1, hop, &label).trim_end();
            text.push('\n');
        }
        command_output::print_text(&text)
    }
}

/// Returns the name or address that answered last.
fn hop_label(hop: &WatchHopStats, names: bool, origins: &mut HopOrigins) -> String {
    let Some(answer) = hop.answers.last() else {
        return "*".to_owned();
    };
    let name = || origins.names.get(answer.address.parse().ok()?);
    names.then(name).flatten().unwrap_or_else(|| answer.address.clone())
}

fn terminal_failure(error: &io::Error) -> CommandFailure {
    CommandFailure::new(HOST, "cannot use the terminal")
        .cause(error)
        .hint(Some("print plain lines with `longhaul path HOST --watch | cat`"))
}

/// Handles a key. Returns true to end the watch.
fn handle_key(key: KeyEvent, state: &mut WatchState, view: &mut TableView) -> bool {
    let last = state.hops.len().saturating_sub(1);
    let control = key.modifiers.contains(KeyModifiers::CONTROL);
    match key.code {
        KeyCode::Char('q') | KeyCode::Esc => return true,
        KeyCode::Char('c') => return control,
        KeyCode::Char('p' | ' ') => state.paused = !state.paused,
        KeyCode::Down => view.scroll = (view.scroll + 1).min(last),
        KeyCode::Up => view.scroll = view.scroll.saturating_sub(1),
        _ => {}
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_pause_and_end_the_watch() {
        let mut state = WatchState::new(64, Duration::from_secs(1));
        let mut view = TableView::default();
        let mut hit = |code, modifiers| {
            let request = handle_key(KeyEvent::new(code, modifiers), &mut state, &mut view);
            (request, state.paused)
        };
        let none = KeyModifiers::NONE;
        assert_eq!(hit(KeyCode::Char('p'), none), (false, true));
        assert_eq!(hit(KeyCode::Char('p'), none), (false, false));
        assert!(!hit(KeyCode::Char('x'), none).0);
        assert!(!hit(KeyCode::Char('c'), none).0);
        let control = hit(KeyCode::Char('c'), KeyModifiers::CONTROL);
        assert!(control.0);
        assert!(hit(KeyCode::Esc, none).0);
    }
}
