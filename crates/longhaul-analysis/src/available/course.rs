//! Which trains are sent next?

use longhaul_model::report::v1::available::{Plan, Train, TrainPlan};

/// What is known of one direction before the first probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Facts {
    pub idle_rtt_us: Option<u64>,
    /// Speed of the sender's interface.
    pub interface_bps: Option<u64>,
    /// Largest IP packet of the path, where it is known.
    pub path_mtu_bytes: Option<u32>,
}

/// The phases of one direction: plain data, asked for trains and told what came of them.
#[derive(Debug, Clone, PartialEq)]
pub struct Course {
    plan: Plan,
    facts: Facts,
}

impl Course {
    pub fn new(plan: &Plan, facts: Facts) -> Course {
        Course {
            plan: plan.clone(),
            facts,
        }
    }

    /// The next trains, to be sent in this order; `None`: enough was seen.
    pub fn next(&mut self) -> Option<Vec<TrainPlan>> {
        let _ = (&self.plan, self.facts);
        None
    }

    /// What came of the trains asked for last.
    pub fn record(&mut self, trains: &[Train]) {
        let _ = trains;
    }
}
