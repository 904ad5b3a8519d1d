//! The output of a watch: a terminal with keys, plain lines, or none.
//!
//! The terminal is restored however the watch ends: when the screen is dropped, and by a hook
//! before the message of a panic.

use super::watch_state::{WatchHopStats, WatchState};
use super::watch_table::{self, TableView};
use crate::cli::args::PathArgs;
use crate::cli::command_output;
use crate::cli::path_command::hop_origins::HopOrigins;
use crate::command_failure::{CommandFailure, HOST};
use jiff::Timestamp;
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use std::io::{self, IsTerminal};
use std::time::{Duration, Instant};

/// The time between two redraws.
const REDRAW_INTERVAL: Duration = Duration::from_millis(200);

/// The user's request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UserRequest {
    Continue,
    Quit,
}

pub enum WatchScreen {
    Table(Box<LiveTable>),
    Lines,
    Nothing,
}

pub struct LiveTable {
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

    /// Redraws when due, and handles keys.
    pub fn update(
        &mut self,
        state: &mut WatchState,
        origins: &HopOrigins,
    ) -> Result<UserRequest, CommandFailure> {
        let WatchScreen::Table(table) = self else {
            return Ok(UserRequest::Continue);
        };
        let mut changed = false;
        while event::poll(Duration::ZERO).map_err(|e| terminal_failure(&e))? {
            match event::read().map_err(|e| terminal_failure(&e))? {
                Event::Key(key) if key.kind != KeyEventKind::Release => {
                    if handle_key(key, state, &mut table.view) == UserRequest::Quit {
                        return Ok(UserRequest::Quit);
                    }
                    changed = true;
                }
                Event::Resize(..) => changed = true,
                _ => {}
            }
        }
        if changed || table.drawn.is_none_or(|at| at.elapsed() >= REDRAW_INTERVAL) {
            let who = |hop: &WatchHopStats, names: bool| hop_label(hop, names, origins);
            let view = &table.view;
            let picture = table
                .terminal
                .draw(|frame| watch_table::draw_watch_table(frame, state, view, &who));
            picture.map_err(|e| terminal_failure(&e))?;
            table.drawn = Some(Instant::now());
        }
        Ok(UserRequest::Continue)
    }

    /// Prints the lines of a finished round, if there is no table.
    pub fn print_round(
        &mut self,
        state: &WatchState,
        origins: &HopOrigins,
    ) -> Result<(), CommandFailure> {
        let WatchScreen::Lines = self else {
            return Ok(());
        };
        let now = Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ");
        let mut text = format!("{now} round {}: last, min, avg, max ms, loss\n", state.rounds);
        let shown = usize::from(state.last_ttl()).min(state.hops.len());
        for (place, hop) in state.hops[..shown].iter().enumerate() {
            text += watch_table::format_plain_hop(place + 1, hop, &hop_label(hop, false, origins))
                .trim_end();
            text.push('\n');
        }
        command_output::print_text(&text)
    }
}

/// Returns the name or address that answered last.
fn hop_label(hop: &WatchHopStats, names: bool, origins: &HopOrigins) -> String {
    let Some(address) = hop.addresses.last() else {
        return "*".to_owned();
    };
    let name = names.then(|| origins.names.get(*address)).flatten();
    name.unwrap_or_else(|| address.to_string())
}

fn terminal_failure(error: &io::Error) -> CommandFailure {
    let mut fail = CommandFailure::new(HOST, "cannot use the terminal");
    fail.causes.push(error.to_string());
    fail.hint(Some("print plain lines with `longhaul path HOST --watch | cat`"))
}

/// Handles a key.
fn handle_key(key: KeyEvent, state: &mut WatchState, view: &mut TableView) -> UserRequest {
    let last = state.hops.len().saturating_sub(1);
    let control = key.modifiers.contains(KeyModifiers::CONTROL);
    match key.code {
        code if is_quit_key(code, control) => return UserRequest::Quit,
        KeyCode::Char('p' | ' ') => state.paused = !state.paused,
        KeyCode::Char('r') => state.reset(),
        KeyCode::Char('n') => view.names = !view.names,
        KeyCode::Down => view.scroll = (view.scroll + 1).min(last),
        KeyCode::Up => view.scroll = view.scroll.saturating_sub(1),
        _ => {}
    }
    UserRequest::Continue
}

fn is_quit_key(code: KeyCode, control: bool) -> bool {
    matches!(code, KeyCode::Char('q') | KeyCode::Esc) || (control && code == KeyCode::Char('c'))
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
        assert_eq!(hit(KeyCode::Char('p'), none), (UserRequest::Continue, true));
        assert_eq!(hit(KeyCode::Char('p'), none), (UserRequest::Continue, false));
        assert_eq!(hit(KeyCode::Char('x'), none).0, UserRequest::Continue);
        assert_eq!(hit(KeyCode::Char('c'), none).0, UserRequest::Continue);
        let control = hit(KeyCode::Char('c'), KeyModifiers::CONTROL);
        assert_eq!(control.0, UserRequest::Quit);
        assert_eq!(hit(KeyCode::Esc, none).0, UserRequest::Quit);
    }
}
