//! Which parts are in use: hosts, interfaces and links.
//!
//! A heavy run has its parts to itself. Light ones share theirs with each other and never begin
//! beside a heavy one: they would measure its load. A heavy run waits for light ones that are under
//! way, but for one that has a turn in a mesh, which would be over before.

use super::jobs::Job;
use super::needs::Need;
use std::collections::{HashMap, HashSet};

#[derive(Debug, Clone, Default)]
pub struct Locks {
    held: HashSet<Need>,
    /// By how many light runs.
    shared: HashMap<Need, u32>,
    light: u32,
}

impl Locks {
    pub fn are_free(&self, job: &Job) -> bool {
        let held = |need: &Need| self.held.contains(need);
        let shared = |need: &Need| job.gate.is_none() && self.shared.contains_key(need);
        let needs = job.needs.iter();
        !job.beside.iter().any(held) && !needs.into_iter().any(|need| held(need) || shared(need))
    }

    /// Light runs at this moment.
    pub fn light(&self) -> u32 {
        self.light
    }

    pub fn take(&mut self, job: &Job) {
        self.held.extend(job.needs.iter().cloned());
        for need in &job.beside {
            *self.shared.entry(need.clone()).or_default() += 1;
        }
        self.light += u32::from(!job.heavy);
    }

    /// What a heavy run waits for is left to it by younger runs.
    pub fn keep(&mut self, job: &Job) {
        self.held.extend(job.needs.iter().cloned());
    }

    pub fn give_back(&mut self, job: &Job) {
        for need in &job.needs {
            self.held.remove(need);
        }
        for need in &job.beside {
            if let Some(number) = self.shared.get_mut(need) {
                *number -= 1;
                if *number == 0 {
                    self.shared.remove(need);
                }
            }
        }
        self.light -= u32::from(!job.heavy);
    }
}
