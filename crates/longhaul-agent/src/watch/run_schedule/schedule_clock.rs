//! Two clocks: the wall clock for planning, and a steady clock that detects steps of the wall
//! clock.

use crate::watch::SECOND_US;

/// The minimum difference between both clocks that counts as a step.
const MIN_STEP_US: i64 = 2 * SECOND_US;
/// A run that starts later than this after its due time is late.
pub const LATE_US: i64 = 5 * SECOND_US;
/// The maximum time value, which prevents overflow with hostile clocks.
const MAX_TIME_US: i64 = 1 << 60;

/// A time on both clocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClockTimes {
    /// Since 1970, UTC; may step.
    pub wall_us: i64,
    /// Since an arbitrary moment; never steps, and includes suspend.
    pub steady_us: i64,
}

impl ClockTimes {
    pub(super) fn clamped(self) -> Self {
        ClockTimes {
            wall_us: self.wall_us.clamp(0, MAX_TIME_US),
            steady_us: self.steady_us.clamp(0, MAX_TIME_US),
        }
    }

    /// Returns the wall-clock time that corresponds to a steady time.
    pub(super) fn wall_at_steady(self, steady_us: i64) -> i64 {
        self.wall_us.saturating_add(steady_us.saturating_sub(self.steady_us))
    }

    pub(super) fn step_since(self, last: ClockTimes) -> ClockStep {
        let steady = (self.steady_us - last.steady_us).max(0);
        match self.wall_us - last.wall_us - steady {
            ahead if ahead > MIN_STEP_US => ClockStep::Forward,
            ahead if ahead < -MIN_STEP_US => ClockStep::Back,
            _ => ClockStep::None,
        }
    }
}

/// A step of the wall clock between two calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ClockStep {
    None,
    Forward,
    Back,
}
