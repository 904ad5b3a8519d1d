//! A user's password: from the environment, or typed without being shown.

use ratatui::crossterm::event::{self, Event, KeyCode, KeyModifiers};
use ratatui::crossterm::terminal::{disable_raw_mode, enable_raw_mode};
use std::io::{self, IsTerminal, Write};

/// As iperf3 names it.
const VARIABLE: &str = "IPERF3_PASSWORD";
const MOST_LETTERS: usize = 256;

/// The password of whoever measures; an error says why there is none.
pub fn ask() -> Result<String, String> {
    if let Ok(password) = std::env::var(VARIABLE) {
        return Ok(password);
    }
    if !io::stdin().is_terminal() {
        return Err(format!(
            "no password: {VARIABLE} is not set, and standard input is no terminal"
        ));
    }
    typed().map_err(|error| format!("no password could be read from the terminal: {error}"))
}

fn typed() -> io::Result<String> {
    let mut err = io::stderr();
    write!(err, "Password: ")?;
    err.flush()?;
    enable_raw_mode()?;
    let password = letters();
    disable_raw_mode()?;
    writeln!(err)?;
    password
}

fn letters() -> io::Result<String> {
    let mut password = String::new();
    loop {
        let Event::Key(key) = event::read()? else {
            continue;
        };
        match key.code {
            KeyCode::Enter => return Ok(password),
            KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => {
                return Err(io::ErrorKind::Interrupted.into());
            }
            KeyCode::Char(letter) if password.len() < MOST_LETTERS => password.push(letter),
            KeyCode::Backspace => {
                password.pop();
            }
            _ => {}
        }
    }
}
