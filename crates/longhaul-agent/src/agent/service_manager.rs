//! Notifies the service manager (systemd): ready, reloading, stopping, alive. Does nothing without
//! one.

use sd_notify::NotifyState;
use std::time::{Duration, Instant};

#[derive(Debug)]
pub struct ServiceManager {
    /// The interval of the watchdog pings.
    watchdog: Option<Duration>,
    pinged_at: Instant,
}

impl ServiceManager {
    pub fn new() -> ServiceManager {
        ServiceManager {
            // Half of the watchdog timeout, as sd_watchdog_enabled(3) recommends.
            watchdog: sd_notify::watchdog_enabled().map(|most| most / 2),
            pinged_at: Instant::now(),
        }
    }

    pub fn ready(status: &str) {
        send_state(&[NotifyState::Ready, NotifyState::Status(status)]);
    }

    pub fn reloading() {
        // The service manager compares this with its own monotonic clock.
        if let Ok(moment) = NotifyState::monotonic_usec_now() {
            send_state(&[NotifyState::Reloading, moment]);
        }
    }

    pub fn stopping(status: &str) {
        send_state(&[NotifyState::Stopping, NotifyState::Status(status)]);
    }

    /// Pings the watchdog if it is due. Called on each iteration of the loop.
    pub fn ping_watchdog(&mut self) {
        if self.watchdog.is_some_and(|most| self.pinged_at.elapsed() >= most / 2) {
            self.pinged_at = Instant::now();
            send_state(&[NotifyState::Watchdog]);
        }
    }

    /// Returns the maximum sleep of the loop.
    pub fn max_sleep(&self) -> Duration {
        self.watchdog.map_or(Duration::MAX, |most| most / 2)
    }
}

fn send_state(state: &[NotifyState<'_>]) {
    // Fails without a service manager, which is fine.
    let _ = sd_notify::notify(state);
}
