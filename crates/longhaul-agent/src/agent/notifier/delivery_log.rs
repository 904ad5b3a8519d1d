//! The record of deliveries, so that a restart does not repeat a notice.
//!
//! An attempt is recorded before it is made. One that a kill interrupted may have arrived, so it is
//! not repeated. One that failed and waits for a retry is repeated.

use crate::agent::{agent_folder, clocks};
use serde::{Deserialize, Serialize};
use std::collections::{HashMap, VecDeque};
use std::path::PathBuf;

/// The maximum number of remembered notices.
const MAX_NOTICES: usize = 10_000;
const FILE_BYTES_MAX: u64 = 4 << 20;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DeliveryState {
    Trying,
    Waiting,
    Done,
    GivenUp,
}

/// The file of the log.
#[derive(Serialize, Deserialize)]
struct DeliveryLogFile {
    since_us: i64,
    /// The oldest first.
    told: Vec<(String, DeliveryState)>,
}

#[derive(Debug)]
pub struct DeliveryLog {
    path: PathBuf,
    states: HashMap<String, DeliveryState>,
    /// Oldest first.
    order: VecDeque<String>,
    /// Older events are not notified.
    pub since_us: i64,
    /// Notices that this process has delivered or queued.
    claimed: std::collections::HashSet<String>,
}

impl DeliveryLog {
    pub fn load(path: PathBuf) -> DeliveryLog {
        let file = agent_folder::load_json::<DeliveryLogFile>(&path, FILE_BYTES_MAX);
        let mut memory = DeliveryLog {
            path,
            states: HashMap::new(),
            order: VecDeque::new(),
            since_us: clocks::read_wall_us(),
            claimed: std::collections::HashSet::new(),
        };
        let Some(file) = file else {
            memory.save();
            return memory;
        };
        memory.since_us = file.since_us;
        for (key, told) in file.told {
            memory.order.push_back(key.clone());
            memory.states.insert(key, told);
        }
        memory
    }

    /// Returns whether the notice is pending, including after a failed attempt.
    pub fn is_pending(&self, key: &str) -> bool {
        let told = self.states.get(key);
        !self.claimed.contains(key) && told.is_none_or(|told| *told == DeliveryState::Waiting)
    }

    /// Claims the notice. Returns false if it is not pending.
    pub fn claim(&mut self, key: &str) -> bool {
        let may = self.is_pending(key);
        if may {
            self.claimed.insert(key.to_owned());
            self.set_state(key, Some(DeliveryState::Waiting));
        }
        may
    }

    /// Sets the state; `None` forgets the notice.
    pub fn set_state(&mut self, key: &str, told: Option<DeliveryState>) {
        let Some(told) = told else {
            self.claimed.remove(key);
            self.states.remove(key);
            self.order.retain(|known| known != key);
            self.save();
            return;
        };
        if self.states.insert(key.to_owned(), told).is_none() {
            self.order.push_back(key.to_owned());
        }
        while self.order.len() > MAX_NOTICES {
            if let Some(oldest) = self.order.pop_front() {
                self.states.remove(&oldest);
                self.claimed.remove(&oldest);
            }
        }
        self.save();
    }

    fn save(&self) {
        let entry = |key: &String| Some((key.clone(), *self.states.get(key)?));
        let file = DeliveryLogFile {
            since_us: self.since_us,
            told: self.order.iter().filter_map(entry).collect(),
        };
        agent_folder::save_json(&self.path, &file);
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
        for (key, told) in [
            ("done", DeliveryState::Done),
            ("cut off", DeliveryState::Trying),
            ("failed", DeliveryState::Waiting),
            ("given up", DeliveryState::GivenUp),
        ] {
            assert!(first.claim(key) && !first.claim(key));
            first.set_state(key, Some(told));
        }
        let mut second = DeliveryLog::load(path.clone());
        assert_eq!(second.since_us, first.since_us);
        for (key, again) in [
            ("done", false),
            ("cut off", false),
            ("failed", true),
            ("given up", false),
            ("new", true),
        ] {
            assert_eq!(second.claim(key), again, "{key}");
        }
        std::fs::remove_file(&path).expect("it was written");
    }
}
