//! What the service manager is told: ready, reloading, stopping, alive. Without one, nothing.

use sd_notify::NotifyState;
use std::time::{Duration, Instant};

#[derive(Debug)]
pub struct Service {
    /// How often it wants to hear that the agent is alive.
    watchdog: Option<Duration>,
    told: Instant,
}

impl Service {
    pub fn new() -> Service {
        Service {
            // Half of the time that it allows, as its manual has it.
            watchdog: sd_notify::watchdog_enabled().map(|most| most / 2),
            told: Instant::now(),
        }
    }

    pub fn ready(status: &str) {
        say(&[NotifyState::Ready, NotifyState::Status(status)]);
    }

    pub fn reloading() {
        // It is the manager's clock that this is compared with.
        if let Ok(moment) = NotifyState::monotonic_usec_now() {
            say(&[NotifyState::Reloading, moment]);
        }
    }

    pub fn stopping(status: &str) {
        say(&[NotifyState::Stopping, NotifyState::Status(status)]);
    }

    /// Called at each turn of the loop.
    pub fn alive(&mut self) {
        if self
            .watchdog
            .is_some_and(|most| self.told.elapsed() >= most / 2)
        {
            self.told = Instant::now();
            say(&[NotifyState::Watchdog]);
        }
    }

    /// The loop may sleep so long.
    pub fn pause(&self) -> Duration {
        self.watchdog.map_or(Duration::MAX, |most| most / 2)
    }
}

fn say(state: &[NotifyState<'_>]) {
    // Whoever runs without a service manager misses nothing.
    let _ = sd_notify::notify(state);
}
