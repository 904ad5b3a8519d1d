//! Two clocks: the wall clock that plans, and a steady one that tells what the wall clock did.

use crate::watch::SECOND_US;

/// The clocks may drift apart by this between two looks; more is a step.
const STEP_US: i64 = 2 * SECOND_US;
/// A run that is noticed later than this is late.
pub const LATE_US: i64 = 5 * SECOND_US;
/// Beyond any calendar; keeps the arithmetic of hostile clocks whole.
const FARTHEST_US: i64 = 1 << 60;

/// A moment on both clocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Now {
    /// Since 1970, UTC; may be set.
    pub wall_us: i64,
    /// Since some moment; never set, and goes on while the host sleeps.
    pub steady_us: i64,
}

impl Now {
    pub(super) fn bounded(self) -> Self {
        Now {
            wall_us: self.wall_us.clamp(0, FARTHEST_US),
            steady_us: self.steady_us.clamp(0, FARTHEST_US),
        }
    }

    /// What the wall clock will show at a moment of the steady one.
    pub(super) fn at_steady(self, steady_us: i64) -> i64 {
        self.wall_us
            .saturating_add(steady_us.saturating_sub(self.steady_us))
    }
}

/// What happened to time since the last look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Gap {
    None,
    SetForward,
    SetBack,
}

#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Clock {
    last: Option<Now>,
}

impl Clock {
    pub fn is_new(&self) -> bool {
        self.last.is_none()
    }

    pub fn last(&self) -> Option<Now> {
        self.last
    }

    pub fn see(&mut self, now: Now) -> Gap {
        let Some(last) = self.last.replace(now) else {
            return Gap::None;
        };
        let steady = (now.steady_us - last.steady_us).max(0);
        match now.wall_us - last.wall_us - steady {
            ahead if ahead > STEP_US => Gap::SetForward,
            ahead if ahead < -STEP_US => Gap::SetBack,
            _ => Gap::None,
        }
    }
}
