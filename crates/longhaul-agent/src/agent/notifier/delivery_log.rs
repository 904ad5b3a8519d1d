//! The record of deliveries, so that a restart does not repeat a notice.
//!
//! An attempt is recorded before it is made. One that a kill interrupted may have arrived, so it is
//! not repeated. One that failed and waits for a retry is repeated.

use crate::agent::{agent_folder, clocks};
use serde::{Deserialize, Serialize};
use std::collections::HashSet;
use std::path::PathBuf;

/// The maximum number of remembered notices.
const MAX_NOTICES: usize = 10_000;
const FILE_BYTES_MAX: u64 = 4 << 20;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DeliveryState {
    Waiting,
    /// Delivered, given up, or being delivered when the agent was killed.
    #[serde(alias = "trying", alias = "given_up")]
    Done,
}

/// The file of the log.
#[derive(Debug, Serialize, Deserialize)]
struct DeliveryLogFile {
    /// Older events are not notified.
    since_us: i64,
    /// Notices, the oldest first.
    told: Vec<(String, DeliveryState)>,
}

#[derive(Debug)]
pub struct DeliveryLog {
    path: PathBuf,
    file: DeliveryLogFile,
    /// Notices that this process has delivered or queued.
    claimed: HashSet<String>,
}

impl DeliveryLog {
    pub fn load(path: PathBuf) -> DeliveryLog {
        let stored = agent_folder::load_json(&path, FILE_BYTES_MAX);
        let is_new = stored.is_none();
        let new = || DeliveryLogFile { since_us: clocks::read_wall_us(), told: Vec::new() };
        let file = stored.unwrap_or_else(new);
        let log = DeliveryLog { path, file, claimed: HashSet::new() };
        if is_new {
            log.save();
        }
        log
    }

    /// Returns whether an event that was announced at this time is notified.
    pub fn covers(&self, announced_at_us: i64) -> bool {
        announced_at_us >= self.file.since_us
    }

    /// Returns whether the notice is pending, including after a failed attempt.
    pub fn is_pending(&self, key: &str) -> bool {
        let told = self.file.told.iter().find(|(known, _)| known == key);
        !self.claimed.contains(key) && told.is_none_or(|(_, told)| *told == DeliveryState::Waiting)
    }

    /// Claims the notice. Returns false if it is not pending.
    pub fn claim(&mut self, key: &str) -> bool {
        let may = self.is_pending(key);
        if may {
            self.claimed.insert(key.to_owned());
            self.set_state(key, DeliveryState::Waiting);
        }
        may
    }

    pub fn set_state(&mut self, key: &str, told: DeliveryState) {
        match self.file.told.iter_mut().find(|(known, _)| known == key) {
            Some((_, state)) => *state = told,
            None => self.file.told.push((key.to_owned(), told)),
        }
        let excess = self.file.told.len().saturating_sub(MAX_NOTICES);
        for (oldest, _) in self.file.told.drain(..excess) {
            self.claimed.remove(&oldest);
        }
        self.save();
    }

    fn save(&self) {
        agent_folder::save_json(&self.path, &self.file);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_restart_tells_what_waits_and_nothing_twice() {
        let path = std::env::temp_dir().join(format!("longhaul-told-{}.json", std::process::id()));
        let _ = std::fs::remove_file(&path);
        let mut first = DeliveryLog::load(path.clone());
        for (key, told) in [("done", DeliveryState::Done), ("failed", DeliveryState::Waiting)] {
            assert!(first.claim(key) && !first.claim(key));
            first.set_state(key, told);
        }
        let mut second = DeliveryLog::load(path.clone());
        assert_eq!(second.file.since_us, first.file.since_us);
        for (key, again) in [("done", false), ("failed", true), ("new", true)] {
            assert_eq!(second.claim(key), again, "{key}");
        }
        std::fs::remove_file(&path).expect("it was written");
    }
}
