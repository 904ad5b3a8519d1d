//! Notifies the service manager (systemd): ready, reloading, stopping, alive. Does nothing without
//! one.

use sd_notify::NotifyState;
use std::time::{Duration, Instant};

#[derive(Debug)]
pub struct Service {
    /// The interval of the watchdog pings.
    watchdog: Option<Duration>,
    told: Instant,
}

impl Service {
    pub fn new() -> Service {
        Service {
            // Half of the watchdog timeout, as sd_watchdog_enabled(3) recommends.
            watchdog: sd_notify::watchdog_enabled().map(|most| most / 2),
            told: Instant::now(),
        }
    }

    pub fn ready(status: &str) {
        say(&[NotifyState::Ready, NotifyState::Status(status)]);
    }

    pub fn reloading() {
        // The service manager compares this with its own monotonic clock.
        if let Ok(moment) = NotifyState::monotonic_usec_now() {
            say(&[NotifyState::Reloading, moment]);
        }
    }

    pub fn stopping(status: &str) {
        say(&[NotifyState::Stopping, NotifyState::Status(status)]);
    }

    /// Pings the watchdog if it is due. Called on each iteration of the loop.
    pub fn alive(&mut self) {
        if self
            .watchdog
            .is_some_and(|most| self.told.elapsed() >= most / 2)
        {
            self.told = Instant::now();
            say(&[NotifyState::Watchdog]);
        }
    }

    /// Returns the maximum sleep of the loop.
    pub fn pause(&self) -> Duration {
        self.watchdog.map_or(Duration::MAX, |most| most / 2)
    }
}

fn say(state: &[NotifyState<'_>]) {
    // Fails without a service manager, which is fine.
    let _ = sd_notify::notify(state);
}
