//! The server's report about itself and a session, as evidence that the client keeps.

use super::event::ServeEvent;
use crate::told::{MOST_LINES, tamed};
use longhaul_model::report::v1::observation::Program;
use std::time::Instant;

/// The log lines of one session.
pub(super) struct Journal {
    epoch: Instant,
    lines: Vec<String>,
}

impl Journal {
    pub fn new(epoch: Instant) -> Journal {
        Journal {
            epoch,
            lines: Vec::new(),
        }
    }

    pub fn note(&mut self, event: &ServeEvent) {
        if self.lines.len() < MOST_LINES {
            let since = self.epoch.elapsed().as_secs_f64();
            self.lines.push(format!("+{since:.3} s {event}"));
        }
    }

    /// Returns the version, the command line and the lines so far, within limits.
    pub fn told(&self, command: Option<&str>) -> Program {
        tamed(Program {
            longhaul: env!("CARGO_PKG_VERSION").to_owned(),
            command: command.map(str::to_owned),
            log: self.lines.clone(),
        })
    }
}
