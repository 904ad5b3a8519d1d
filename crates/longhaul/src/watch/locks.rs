//! Which parts are in use: hosts, interfaces and links by heavy runs, places by light ones.

use super::needs::Need;
use std::collections::HashSet;

#[derive(Debug, Clone, Default)]
pub struct Locks {
    held: HashSet<Need>,
    light: u32,
}

impl Locks {
    pub fn are_free(&self, needs: &[Need]) -> bool {
        needs.iter().all(|need| !self.held.contains(need))
    }

    /// Light runs at this moment.
    pub fn light(&self) -> u32 {
        self.light
    }

    pub fn take(&mut self, needs: &[Need], heavy: bool) {
        self.held.extend(needs.iter().cloned());
        self.light += u32::from(!heavy);
    }

    pub fn give_back(&mut self, needs: &[Need], heavy: bool) {
        for need in needs {
            self.held.remove(need);
        }
        self.light -= u32::from(!heavy);
    }
}
