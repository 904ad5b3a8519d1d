//! Stores the bytes sent today, because a daily budget must survive a restart.

use super::agent_folder;
use crate::watch::daily_budget::BudgetUsage;
use serde_json::{Map, Value, json};
use std::path::PathBuf;

const FILE_BYTES_MAX: u64 = 4 << 20;

#[derive(Debug)]
pub struct BudgetStore {
    path: PathBuf,
    saved: BudgetUsage,
}

impl BudgetStore {
    /// Loads the file; an unreadable one counts as empty.
    pub fn load(path: PathBuf) -> BudgetStore {
        let text = agent_folder::read_small_file(&path, FILE_BYTES_MAX)
            .ok()
            .flatten();
        let value: Value = text
            .and_then(|text| serde_json::from_str(&text).ok())
            .unwrap_or_default();
        let own = value["measures"].as_object().into_iter().flatten();
        let kept = BudgetUsage {
            day: value["day"].as_i64().unwrap_or(0),
            all: value["bytes"].as_u64().unwrap_or(0),
            measures: own
                .filter_map(|(name, bytes)| Some((name.clone(), bytes.as_u64()?)))
                .collect(),
        };
        BudgetStore { path, saved: kept }
    }

    pub fn usage(&self) -> &BudgetUsage {
        &self.saved
    }

    /// Saves the value if it has changed.
    pub fn save(&mut self, spent: BudgetUsage) {
        if self.saved == spent {
            return;
        }
        let own = spent.measures.iter();
        let own: Map<String, Value> = own.map(|(k, v)| (k.clone(), json!(v))).collect();
        let text = json!({ "day": spent.day, "bytes": spent.all, "measures": own }).to_string();
        // If the disk is full, the count is lost at the next restart.
        let _ = agent_folder::replace_file(&self.path, &text);
        self.saved = spent;
    }
}
