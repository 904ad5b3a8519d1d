//! Reverse DNS lookups by this host's resolver, in background threads.
//!
//! The resolver's call blocks for many seconds if no server answers, and it cannot be cancelled. It
//! therefore runs in separate threads; a measurement requests names and collects them later.

use std::collections::{HashMap, HashSet};
use std::net::IpAddr;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The number of lookup threads; a slow answer blocks one of them.
const THREADS: usize = 8;
/// The maximum number of addresses per run; a route with all alternatives has fewer.
const MAX_ADDRESSES: usize = 1024;
/// The maximum length of a DNS name.
const MAX_NAME_LENGTH: usize = 253;

type LookupResults = Arc<(Mutex<HashMap<IpAddr, Option<String>>>, Condvar)>;
/// Resolves an address to a name: the system's resolver, or a substitute in tests.
pub type ReverseResolver = fn(IpAddr) -> Option<String>;

/// The reverse lookups of one run.
pub struct ReverseLookups {
    queue: Option<SyncSender<IpAddr>>,
    requested: HashSet<IpAddr>,
    results: LookupResults,
}

impl ReverseLookups {
    /// Starts the threads. No name is looked up if `wanted` is false.
    pub fn new(wanted: bool) -> ReverseLookups {
        ReverseLookups::with_resolver(resolve_by_system, wanted)
    }

    fn with_resolver(resolver: ReverseResolver, wanted: bool) -> ReverseLookups {
        let found = LookupResults::default();
        let (queue, waiting) = sync_channel(MAX_ADDRESSES);
        let waiting = Arc::new(Mutex::new(waiting));
        let mut running = 0;
        for _ in 0..if wanted { THREADS } else { 0 } {
            let (waiting, found) = (Arc::clone(&waiting), Arc::clone(&found));
            let thread = std::thread::Builder::new().name("names".to_owned());
            let started = thread.spawn(move || resolve_queued(&waiting, &found, resolver));
            running += usize::from(started.is_ok());
        }
        ReverseLookups {
            queue: (running > 0).then_some(queue),
            requested: HashSet::new(),
            results: found,
        }
    }

    /// Requests the name once, without waiting.
    pub fn request(&mut self, address: IpAddr) {
        let Some(queue) = &self.queue else {
            return;
        };
        if self.requested.len() < MAX_ADDRESSES && self.requested.insert(address) {
            match queue.try_send(address) {
                Ok(()) => {}
                Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => {
                    self.requested.remove(&address);
                }
            }
        }
    }

    /// Returns the name if it is known by now.
    pub fn get(&self, address: IpAddr) -> Option<String> {
        let found = self.results.0.lock().unwrap_or_else(PoisonError::into_inner);
        found.get(&address).cloned().flatten()
    }

    /// Waits up to `patience` for all requested names. Returns the number of missing answers.
    pub fn wait(&self, patience: Duration) -> usize {
        let deadline = Instant::now() + patience;
        let mut found = self.results.0.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let open = self.requested.len() - found.len();
            let left = deadline.saturating_duration_since(Instant::now());
            if open == 0 || left.is_zero() {
                return open;
            }
            found = match self.results.1.wait_timeout(found, left) {
                Ok((found, _)) => found,
                Err(poisoned) => poisoned.into_inner().0,
            };
        }
    }
}

/// Runs one thread, which resolves addresses until the run is over.
fn resolve_queued(
    waiting: &Mutex<Receiver<IpAddr>>,
    found: &LookupResults,
    resolver: ReverseResolver,
) {
    loop {
        let next = waiting.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(address) = next else {
            return;
        };
        let name = resolver(address).filter(|name| is_plausible_name(name));
        let mut names = found.0.lock().unwrap_or_else(PoisonError::into_inner);
        names.insert(address, name);
        found.1.notify_all();
    }
}

fn resolve_by_system(address: IpAddr) -> Option<String> {
    dns_lookup::lookup_addr(&address).ok()
}

/// Returns true for valid host names: the owner of an address controls the content of its name.
fn is_plausible_name(name: &str) -> bool {
    let fine = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    !name.is_empty()
        && name.len() <= MAX_NAME_LENGTH
        && name.chars().all(fine)
        && name.parse::<IpAddr>().is_err()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made_up(address: IpAddr) -> Option<String> {
        match address.to_string().as_str() {
            "192.0.2.1" => Some("one.example.net".to_owned()),
            "192.0.2.2" => Some("two\u{1b}[2J".to_owned()),
            "192.0.2.3" => {
                // This resolver never answers, and the test does not wait for it.
                std::thread::park_timeout(Duration::from_secs(3600));
                None
            }
            other => Some(other.to_owned()),
        }
    }

    fn address(last: u8) -> IpAddr {
        IpAddr::from([192, 0, 2, last])
    }

    #[test]
    fn names_come_in_their_own_time_and_only_good_ones() {
        let mut names = ReverseLookups::with_resolver(made_up, true);
        for last in [1, 2, 4] {
            names.request(address(last));
        }
        assert_eq!(names.wait(Duration::from_secs(60)), 0);
        assert_eq!(names.get(address(1)).as_deref(), Some("one.example.net"));
        assert_eq!(names.get(address(2)), None, "escapes are no name");
        assert_eq!(names.get(address(4)), None, "an address is no name");
        assert_eq!(names.get(address(9)), None, "never asked");
    }

    #[test]
    fn a_resolver_that_hangs_costs_its_own_name_only() {
        let mut names = ReverseLookups::with_resolver(made_up, true);
        names.request(address(3));
        names.request(address(1));
        assert!(names.wait(Duration::from_millis(300)) >= 1);
        assert_eq!(names.get(address(1)).as_deref(), Some("one.example.net"));
    }

    #[test]
    fn unwanted_names_are_not_asked() {
        let mut names = ReverseLookups::with_resolver(made_up, false);
        names.request(address(1));
        assert_eq!(names.wait(Duration::from_secs(60)), 0);
        assert_eq!(names.get(address(1)), None);
    }
}
