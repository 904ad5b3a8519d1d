//! Reads a user's password from the environment, or from the terminal without showing it.

use ratatui::crossterm::event::{self, Event, KeyCode, KeyModifiers};
use ratatui::crossterm::terminal::{disable_raw_mode, enable_raw_mode};
use std::io::{self, IsTerminal, Write};

/// The variable has the same name as in iperf3.
const VARIABLE: &str = "IPERF3_PASSWORD";
const MAX_PASSWORD_BYTES: usize = 256;

/// Returns the password of the user; the error says why there is none.
pub fn read_password() -> Result<String, String> {
    if let Ok(password) = std::env::var(VARIABLE) {
        return Ok(password);
    }
    if !io::stdin().is_terminal() {
        return Err(format!(
            "no password: {VARIABLE} is not set, and standard input is not a terminal"
        ));
    }
    prompt_password().map_err(|error| format!("cannot read a password from the terminal: {error}"))
}

fn prompt_password() -> io::Result<String> {
    let mut err = io::stderr();
    write!(err, "Password: ")?;
    err.flush()?;
    enable_raw_mode()?;
    let password = read_letters();
    disable_raw_mode()?;
    writeln!(err)?;
    password
}

fn read_letters() -> io::Result<String> {
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
            KeyCode::Char(letter) if password.len() < MAX_PASSWORD_BYTES => password.push(letter),
            KeyCode::Backspace => {
                password.pop();
            }
            _ => {}
        }
    }
}
