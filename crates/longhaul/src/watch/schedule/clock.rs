//! Two clocks: the wall clock for planning, and a steady clock that detects steps of the wall
//! clock.

use crate::watch::SECOND_US;

/// The minimum difference between both clocks that counts as a step.
const STEP_US: i64 = 2 * SECOND_US;
/// A run that starts later than this after its due time is late.
pub const LATE_US: i64 = 5 * SECOND_US;
/// The maximum time value, which prevents overflow with hostile clocks.
const FARTHEST_US: i64 = 1 << 60;

/// A time on both clocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Now {
    /// Since 1970, UTC; may step.
    pub wall_us: i64,
    /// Since an arbitrary moment; never steps, and includes suspend.
    pub steady_us: i64,
}

impl Now {
    pub(super) fn bounded(self) -> Self {
        Now {
            wall_us: self.wall_us.clamp(0, FARTHEST_US),
            steady_us: self.steady_us.clamp(0, FARTHEST_US),
        }
    }

    /// Returns the wall-clock time that corresponds to a steady time.
    pub(super) fn at_steady(self, steady_us: i64) -> i64 {
        self.wall_us
            .saturating_add(steady_us.saturating_sub(self.steady_us))
    }
}

/// A step of the wall clock since the last call.
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
