//! Stores the bytes sent today, because a daily budget must survive a restart.

use super::folder;
use crate::watch::budget::Spent;
use serde_json::{Map, Value, json};
use std::path::PathBuf;

const FILE_BYTES_MAX: u64 = 4 << 20;

#[derive(Debug)]
pub struct Keeper {
    path: PathBuf,
    kept: Spent,
}

impl Keeper {
    /// Loads the file; an unreadable one counts as empty.
    pub fn read(path: PathBuf) -> Keeper {
        let text = folder::read(&path, FILE_BYTES_MAX).ok().flatten();
        let value: Value = text
            .and_then(|text| serde_json::from_str(&text).ok())
            .unwrap_or_default();
        let own = value["measures"].as_object().into_iter().flatten();
        let kept = Spent {
            day: value["day"].as_i64().unwrap_or(0),
            all: value["bytes"].as_u64().unwrap_or(0),
            measures: own
                .filter_map(|(name, bytes)| Some((name.clone(), bytes.as_u64()?)))
                .collect(),
        };
        Keeper { path, kept }
    }

    pub fn spent(&self) -> &Spent {
        &self.kept
    }

    /// Saves the value if it has changed.
    pub fn keep(&mut self, spent: Spent) {
        if self.kept == spent {
            return;
        }
        let own = spent.measures.iter();
        let own: Map<String, Value> = own.map(|(k, v)| (k.clone(), json!(v))).collect();
        let text = json!({ "day": spent.day, "bytes": spent.all, "measures": own }).to_string();
        // If the disk is full, the count is lost at the next restart.
        let _ = folder::replace(&self.path, &text);
        self.kept = spent;
    }
}
