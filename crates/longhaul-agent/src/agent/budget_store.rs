//! Stores the bytes sent today, because a daily budget must survive a restart.

use super::agent_folder;
use crate::watch::daily_budget::BudgetUsage;
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
        let kept = agent_folder::load_json(&path, FILE_BYTES_MAX).unwrap_or_default();
        BudgetStore { path, saved: kept }
    }

    pub fn usage(&self) -> &BudgetUsage {
        &self.saved
    }

    /// Saves the value if it has changed.
    pub fn save(&mut self, spent: &BudgetUsage) {
        if self.saved != *spent {
            agent_folder::save_json(&self.path, spent);
            self.saved = spent.clone();
        }
    }
}
