//! The server's report about itself and a session, as evidence that the client keeps.

use super::serve_event::ServeEvent;
use crate::program_sanitizer::{MAX_LINES, sanitize_program};
use longhaul_model::report::v1::observation::ProgramInfo;
use std::time::Instant;

/// The log lines of one session.
pub(super) struct SessionLog {
    epoch: Instant,
    lines: Vec<String>,
}

impl SessionLog {
    pub fn new(epoch: Instant) -> SessionLog {
        SessionLog { epoch, lines: Vec::new() }
    }

    pub fn record(&mut self, event: &ServeEvent) {
        if self.lines.len() < MAX_LINES {
            let since = self.epoch.elapsed().as_secs_f64();
            self.lines.push(format!("+{since:.3} s {event}"));
        }
    }

    /// Returns the version, the command line and the lines so far, within limits.
    pub fn program_report(&self, command: Option<&str>) -> ProgramInfo {
        sanitize_program(ProgramInfo {
            longhaul: env!("CARGO_PKG_VERSION").to_owned(),
            command: command.map(str::to_owned),
            log: self.lines.clone(),
        })
    }
}
