//! Locks of resources: hosts, interfaces and links.
//!
//! A heavy run locks its resources exclusively. Light runs share theirs and never start during a
//! heavy run, because they would measure its load. A heavy run waits for light runs in progress,
//! unless it has a turn in a mesh, which would end first.

use super::jobs::Job;
use super::needs::Need;
use std::collections::{HashMap, HashSet};

#[derive(Debug, Clone, Default)]
pub struct Locks {
    held: HashSet<Need>,
    /// The number of light runs that use a resource.
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

    /// Returns the number of running light runs.
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

    /// Reserves the resources of a waiting heavy run, so that younger runs do not take them.
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
