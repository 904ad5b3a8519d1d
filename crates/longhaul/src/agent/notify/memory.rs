//! The record of deliveries, so that a restart does not repeat a notice.
//!
//! An attempt is recorded before it is made. One that a kill interrupted may have arrived, so it is
//! not repeated. One that failed and waits for a retry is repeated.

use crate::agent::{folder, now};
use serde_json::{Map, Value, json};
use std::collections::{HashMap, VecDeque};
use std::path::PathBuf;

/// The maximum number of remembered notices.
const TOLD_MAX: usize = 10_000;
const FILE_BYTES_MAX: u64 = 4 << 20;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Told {
    Trying,
    Waiting,
    Done,
    GivenUp,
}

impl Told {
    const ALL: [Told; 4] = [Told::Trying, Told::Waiting, Told::Done, Told::GivenUp];

    const fn word(self) -> &'static str {
        match self {
            Told::Trying => "trying",
            Told::Waiting => "waiting",
            Told::Done => "done",
            Told::GivenUp => "given_up",
        }
    }
}

#[derive(Debug)]
pub struct Memory {
    path: PathBuf,
    told: HashMap<String, Told>,
    /// Oldest first.
    order: VecDeque<String>,
    /// Older events are not notified.
    pub since_us: i64,
    /// Notices that this process has delivered or queued.
    begun: std::collections::HashSet<String>,
}

impl Memory {
    pub fn read(path: PathBuf) -> Memory {
        let text = folder::read(&path, FILE_BYTES_MAX).ok().flatten();
        let value: Option<Value> = text.and_then(|text| serde_json::from_str(&text).ok());
        let mut memory = Memory {
            path,
            told: HashMap::new(),
            order: VecDeque::new(),
            since_us: now::wall_us(),
            begun: std::collections::HashSet::new(),
        };
        let Some(value) = value else {
            memory.write();
            return memory;
        };
        memory.since_us = value["since_us"].as_i64().unwrap_or(memory.since_us);
        for entry in value["told"].as_array().into_iter().flatten() {
            let word = entry[1].as_str().unwrap_or_default();
            let told = Told::ALL.into_iter().find(|it| it.word() == word);
            if let (Some(key), Some(told)) = (entry[0].as_str(), told) {
                memory.told.insert(key.to_owned(), told);
                memory.order.push_back(key.to_owned());
            }
        }
        memory
    }

    /// Returns whether the notice is pending, including after a failed attempt.
    pub fn may_tell(&self, key: &str) -> bool {
        let told = self.told.get(key);
        !self.begun.contains(key) && told.is_none_or(|told| *told == Told::Waiting)
    }

    /// Claims the notice. Returns false if it is not pending.
    pub fn begin(&mut self, key: &str) -> bool {
        let may = self.may_tell(key);
        if may {
            self.begun.insert(key.to_owned());
            self.set(key, Some(Told::Waiting));
        }
        may
    }

    /// Sets the state; `None` forgets the notice.
    pub fn set(&mut self, key: &str, told: Option<Told>) {
        let Some(told) = told else {
            self.begun.remove(key);
            self.told.remove(key);
            self.order.retain(|known| known != key);
            self.write();
            return;
        };
        if self.told.insert(key.to_owned(), told).is_none() {
            self.order.push_back(key.to_owned());
        }
        while self.order.len() > TOLD_MAX {
            if let Some(oldest) = self.order.pop_front() {
                self.told.remove(&oldest);
                self.begun.remove(&oldest);
            }
        }
        self.write();
    }

    fn write(&self) {
        let entry = |key: &String| Some(json!([key, self.told.get(key)?.word()]));
        let told: Vec<Value> = self.order.iter().filter_map(entry).collect();
        let mut all = Map::new();
        all.insert("since_us".to_owned(), json!(self.since_us));
        all.insert("told".to_owned(), Value::Array(told));
        // If the disk is full, this entry is lost, and a restart sends the notice again.
        let _ = folder::replace(&self.path, &Value::Object(all).to_string());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_restart_tells_what_waits_and_nothing_twice() {
        let path = std::env::temp_dir().join(format!("longhaul-told-{}.json", std::process::id()));
        let _ = std::fs::remove_file(&path);
        let mut first = Memory::read(path.clone());
        for (key, told) in [
            ("done", Told::Done),
            ("cut off", Told::Trying),
            ("failed", Told::Waiting),
            ("given up", Told::GivenUp),
        ] {
            assert!(first.begin(key) && !first.begin(key));
            first.set(key, Some(told));
        }
        let mut second = Memory::read(path.clone());
        assert_eq!(second.since_us, first.since_us);
        for (key, again) in [
            ("done", false),
            ("cut off", false),
            ("failed", true),
            ("given up", false),
            ("new", true),
        ] {
            assert_eq!(second.begin(key), again, "{key}");
        }
        std::fs::remove_file(&path).expect("it was written");
    }
}
