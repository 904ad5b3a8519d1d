//! The screen of `longhaul explain --watch`: one thread watches flows, this one draws and reads keys.

use super::live_table::{KeyOutcome, LiveTable};
use super::{ExplainArgs, observe_flows};
use crate::cli::command_output::print_note;
use crate::cli::interrupt;
use crate::command_failure::{CommandFailure, HOST};
use longhaul_model::report::v1::flows::{FlowsObservation, FlowsPlan};
use longhaul_model::units::format_duration;
use longhaul_probe::flow_watch::FlowSelector;
use longhaul_probe::supervise::StopFlag;
use longhaul_report::number_format::count_of;
use parking_lot::Mutex;
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, KeyCode, KeyEvent};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::io::{self, IsTerminal};
use std::mem::ManuallyDrop;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::Duration;

/// The time after which the screen is drawn again without a key.
const REDRAW_INTERVAL: Duration = Duration::from_millis(200);
/// The maximum number of keys that wait for a slow terminal.
const MAX_KEYS: usize = 64;

/// Returns true if stdout is a terminal that can move its cursor.
pub fn is_screen() -> bool {
    io::stdout().is_terminal() && std::env::var_os("TERM").is_none_or(|name| name != "dumb")
}

/// The state of the watch, for the screen.
#[derive(Default)]
struct WatchProgress {
    elapsed: Duration,
    flows: usize,
    /// The last whole window, until the screen takes it.
    window: Option<FlowsObservation>,
}

/// Shows window after window until the user quits. Returns the last whole window, or what was seen of
/// the first one.
pub fn watch_on_screen(
    args: &ExplainArgs,
    plan: &FlowsPlan,
    selector: &FlowSelector,
) -> Result<FlowsObservation, CommandFailure> {
    let stop = interrupt::register_signals(&[SIGHUP, SIGINT, SIGTERM])?;
    let progress = Mutex::new(WatchProgress::default());
    let mut last = None;
    let (shown, watched) = thread::scope(|scope| {
        let watcher = scope.spawn(|| watch_windows(args, plan, selector, &stop, &progress));
        let shown = run_screen(plan, &stop, &progress, &mut last, &|| watcher.is_finished());
        stop.store(true, Ordering::Relaxed);
        (shown, watcher.join())
    });
    let partial = watched.unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
    if let Err(error) = shown {
        let failure = CommandFailure::new(HOST, "cannot use the terminal").cause(&error);
        let Some(_) = &last else { return Err(failure) };
        // A terminal that went away takes no result along.
        print_note(&failure.chain());
    }
    Ok(progress.into_inner().window.or(last).unwrap_or(partial))
}

/// Watches window after window; returns the part of the one in which it was stopped.
fn watch_windows(
    args: &ExplainArgs,
    plan: &FlowsPlan,
    selector: &FlowSelector,
    stop: &StopFlag,
    progress: &Mutex<WatchProgress>,
) -> Result<FlowsObservation, CommandFailure> {
    loop {
        let window = observe_flows(args, plan, selector, stop, &mut |elapsed, flows| {
            let mut now = progress.lock();
            (now.elapsed, now.flows) = (elapsed, flows);
        })?;
        if stop.load(Ordering::Relaxed) {
            return Ok(window);
        }
        progress.lock().window = Some(window);
    }
}

/// The screen. It is left whatever happens, and the watch ends with it.
struct WatchScreen<'a> {
    stop: &'a StopFlag,
    /// Its own destructor panics if the terminal of stderr is gone.
    terminal: ManuallyDrop<DefaultTerminal>,
}

impl Drop for WatchScreen<'_> {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        // A terminal that is gone needs no restoration.
        let _ = self.terminal.show_cursor();
        // After a panic, the hook of ratatui has left the screen before the message.
        if !thread::panicking() {
            let _ = ratatui::try_restore();
        }
    }
}

/// Reads keys in a thread that lives as long as the program: crossterm never returns from a terminal
/// that is gone. A changed size is a key that does nothing.
fn read_keys() -> Receiver<KeyEvent> {
    let (sender, keys) = mpsc::sync_channel(MAX_KEYS);
    thread::spawn(move || {
        while let Ok(event) = event::read() {
            let key = event.as_key_press_event().unwrap_or(KeyCode::Null.into());
            if sender.send(key).is_err() {
                return;
            }
        }
    });
    keys
}

/// Draws the table and handles keys until the user quits, a signal comes or the watch fails. `last` is
/// the last window that was shown.
fn run_screen(
    plan: &FlowsPlan,
    stop: &StopFlag,
    progress: &Mutex<WatchProgress>,
    last: &mut Option<FlowsObservation>,
    is_over: &dyn Fn() -> bool,
) -> io::Result<()> {
    let terminal = ManuallyDrop::new(ratatui::try_init()?);
    let mut screen = WatchScreen { stop, terminal };
    let keys = read_keys();
    let mut table = LiveTable::new(&plan.selector);
    let whole = format_duration(Duration::from_micros(plan.duration_us));
    while !stop.load(Ordering::Relaxed) && !is_over() {
        let mut now = progress.lock();
        let flows = count_of(now.flows as u64, "flow");
        table.progress = format!("{flows}, {:.1} s of {whole}", now.elapsed.as_secs_f64());
        let window = now.window.take();
        drop(now);
        if let Some(window) = window {
            table.update(&window);
            *last = Some(window);
        }
        screen.terminal.draw(|frame| table.draw(frame))?;
        match keys.recv_timeout(REDRAW_INTERVAL) {
            Ok(key) if table.handle_key(key) == KeyOutcome::Quit => return Ok(()),
            Err(RecvTimeoutError::Disconnected) => return Err(io::Error::other("no more keys")),
            Ok(_) | Err(RecvTimeoutError::Timeout) => {}
        }
    }
    Ok(())
}
