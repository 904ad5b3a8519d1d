//! The output of a watch: a terminal with keys, plain lines, or none.
//!
//! The terminal is restored however the watch ends: when the screen is dropped, and by a hook
//! before the message of a panic.

use super::draw::{self, View};
use super::state::{Seen, State};
use crate::cli::args::PathArgs;
use crate::cli::output;
use crate::cli::path::origins::Origins;
use crate::fail::{Fail, HOST};
use jiff::Timestamp;
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use std::io::{self, IsTerminal};
use std::time::{Duration, Instant};

/// The time between two redraws.
const EVERY: Duration = Duration::from_millis(200);

/// The user's request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wish {
    Go,
    End,
}

pub enum Screen {
    Table(Box<Table>),
    Lines,
    Nothing,
}

pub struct Table {
    terminal: DefaultTerminal,
    view: View,
    drawn: Option<Instant>,
}

impl Drop for Table {
    fn drop(&mut self) {
        ratatui::restore();
    }
}

impl Screen {
    pub fn open(args: &PathArgs, title: String) -> Result<Screen, Fail> {
        let output = &args.output;
        if io::stdout().is_terminal() && io::stdin().is_terminal() {
            let terminal = ratatui::try_init().map_err(|e| {
                // Restores what was changed before the failure.
                ratatui::restore();
                unusable(&e)
            })?;
            return Ok(Screen::Table(Box::new(Table {
                terminal,
                view: View {
                    title,
                    names: !args.no_names,
                    ..View::default()
                },
                drawn: None,
            })));
        }
        Ok(if output.json || output.quiet {
            Screen::Nothing
        } else {
            Screen::Lines
        })
    }

    /// Redraws when due, and handles keys.
    pub fn look(&mut self, state: &mut State, origins: &Origins) -> Result<Wish, Fail> {
        let Screen::Table(table) = self else {
            return Ok(Wish::Go);
        };
        let mut changed = false;
        while event::poll(Duration::ZERO).map_err(|e| unusable(&e))? {
            match event::read().map_err(|e| unusable(&e))? {
                Event::Key(key) if key.kind != KeyEventKind::Release => {
                    if press(key, state, &mut table.view) == Wish::End {
                        return Ok(Wish::End);
                    }
                    changed = true;
                }
                Event::Resize(..) => changed = true,
                _ => {}
            }
        }
        if changed || table.drawn.is_none_or(|at| at.elapsed() >= EVERY) {
            let who = |hop: &Seen, names: bool| who(hop, names, origins);
            let view = &table.view;
            let picture = table
                .terminal
                .draw(|frame| draw::draw(frame, state, view, &who));
            picture.map_err(|e| unusable(&e))?;
            table.drawn = Some(Instant::now());
        }
        Ok(Wish::Go)
    }

    /// Prints the lines of a finished round, if there is no table.
    pub fn round_over(&mut self, state: &State, origins: &Origins) -> Result<(), Fail> {
        let Screen::Lines = self else {
            return Ok(());
        };
        let now = Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ");
        let mut text = format!(
            "{now} round {}: last, min, avg, max ms, loss\n",
            state.rounds
        );
        let shown = usize::from(state.limit()).min(state.hops.len());
        for (place, hop) in state.hops[..shown].iter().enumerate() {
            text += draw::plain(place + 1, hop, &who(hop, false, origins)).trim_end();
            text.push('\n');
        }
        output::text(&text)
    }
}

/// Returns the name or address that answered last.
fn who(hop: &Seen, names: bool, origins: &Origins) -> String {
    let Some(address) = hop.addresses.last() else {
        return "*".to_owned();
    };
    let name = names.then(|| origins.names.get(*address)).flatten();
    name.unwrap_or_else(|| address.to_string())
}

fn unusable(error: &io::Error) -> Fail {
    let mut fail = Fail::new(HOST, "the terminal cannot be used");
    fail.causes.push(error.to_string());
    fail.hint(Some(
        "`longhaul path HOST --watch | cat` writes plain lines",
    ))
}

/// Handles a key.
fn press(key: KeyEvent, state: &mut State, view: &mut View) -> Wish {
    let last = state.hops.len().saturating_sub(1);
    let control = key.modifiers.contains(KeyModifiers::CONTROL);
    match key.code {
        KeyCode::Esc if view.help => view.help = false,
        code if ends(code, control) => return Wish::End,
        KeyCode::Char('p' | ' ') => state.paused = !state.paused,
        KeyCode::Char('r') => state.reset(),
        KeyCode::Char('n') => view.names = !view.names,
        KeyCode::Char('h' | '?') => view.help = !view.help,
        KeyCode::Down => view.scroll = (view.scroll + 1).min(last),
        KeyCode::PageDown => view.scroll = (view.scroll + 10).min(last),
        KeyCode::Up => view.scroll = view.scroll.saturating_sub(1),
        KeyCode::PageUp => view.scroll = view.scroll.saturating_sub(10),
        _ => {}
    }
    Wish::Go
}

fn ends(code: KeyCode, control: bool) -> bool {
    matches!(code, KeyCode::Char('q') | KeyCode::Esc) || (control && code == KeyCode::Char('c'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_end_pause_reset_and_help() {
        let mut state = State::new(64, Duration::from_secs(1));
        let mut view = View::default();
        let mut hit = |code, modifiers| {
            let wish = press(KeyEvent::new(code, modifiers), &mut state, &mut view);
            (wish, state.paused, view.help)
        };
        let none = KeyModifiers::NONE;
        assert_eq!(hit(KeyCode::Char('p'), none), (Wish::Go, true, false));
        assert_eq!(hit(KeyCode::Char('p'), none), (Wish::Go, false, false));
        assert_eq!(hit(KeyCode::Char('h'), none), (Wish::Go, false, true));
        assert_eq!(hit(KeyCode::Esc, none), (Wish::Go, false, false));
        assert_eq!(hit(KeyCode::Char('x'), none).0, Wish::Go);
        assert_eq!(hit(KeyCode::Char('c'), none).0, Wish::Go);
        assert_eq!(hit(KeyCode::Char('c'), KeyModifiers::CONTROL).0, Wish::End);
        assert_eq!(hit(KeyCode::Char('q'), none).0, Wish::End);
    }
}
