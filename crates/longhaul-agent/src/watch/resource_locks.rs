//! Locks of resources: hosts, interfaces and links.
//!
//! A heavy run locks its resources exclusively. Light runs share theirs and never start during a
//! heavy run, because they would measure its load. A heavy run waits for light runs in progress,
//! unless it has a turn in a mesh, which would end first.

use super::measure_jobs::MeasureJob;
use super::path_resources::PathResource;
use std::collections::{HashMap, HashSet};

#[derive(Debug, Clone, Default)]
pub struct ResourceLocks {
    exclusive: HashSet<PathResource>,
    /// The number of light runs that use a resource.
    shared: HashMap<PathResource, u32>,
    light: u32,
}

impl ResourceLocks {
    pub fn are_free(&self, job: &MeasureJob) -> bool {
        let held = |need: &PathResource| self.exclusive.contains(need);
        let shared = |need: &PathResource| job.window.is_none() && self.shared.contains_key(need);
        let needs = job.exclusive.iter();
        !job.shared.iter().any(held) && !needs.into_iter().any(|need| held(need) || shared(need))
    }

    /// Returns the number of running light runs.
    pub fn light_runs(&self) -> u32 {
        self.light
    }

    pub fn acquire(&mut self, job: &MeasureJob) {
        self.exclusive.extend(job.exclusive.iter().cloned());
        for need in &job.shared {
            *self.shared.entry(need.clone()).or_default() += 1;
        }
        self.light += u32::from(!job.heavy);
    }

    /// Reserves the resources of a waiting heavy run, so that younger runs do not take them.
    pub fn reserve(&mut self, job: &MeasureJob) {
        self.exclusive.extend(job.exclusive.iter().cloned());
    }

    pub fn release(&mut self, job: &MeasureJob) {
        for need in &job.exclusive {
            self.exclusive.remove(need);
        }
        for need in &job.shared {
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
