//! Admission of connections that have proved nothing: which of them get a place with a thread, and
//! which are closed in favour of others. Pure state: no socket, no clock.
//!
//! A connection waits without a thread until its first bytes tell what it is. An honest client
//! sends them directly behind the handshake of TCP. Then it gets a place, which it keeps until its
//! session is admitted.
//!
//! Shares are by source: a network gives way to one that has fewer connections, and within it a host
//! to one that has fewer. So one source cannot shut out another, whatever it sends. A source whose
//! places are all taken waits until one of them has had the time that its round trip needs. Clients
//! with a ticket have places of their own.

pub(super) mod source_shares;

use super::source_prefix::SourcePrefix;
use crate::session::{GREETING_TIMEOUT, STEP_TIMEOUT};
use source_shares::SourceShares;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::net::IpAddr;
use std::time::Duration;

/// The bounds of the table.
#[derive(Debug, Clone, Copy)]
pub(super) struct AdmissionLimits {
    /// The maximum number of connections without a place, of clients with a ticket and of others.
    most_waiting: usize,
    /// The places of clients without a ticket.
    anonymous_places: usize,
    /// The places of clients with a ticket.
    ticket_places: usize,
    /// Sessions that clients without a ticket may begin at once: each costs a key exchange.
    burst: u32,
    /// The time between such sessions in the long run, of all sources and of one network.
    total_interval: Duration,
    network_interval: Duration,
}

impl AdmissionLimits {
    /// Returns the limits of a server for so many sessions: as many clients may come at once.
    pub fn for_sessions(most: u32) -> AdmissionLimits {
        AdmissionLimits {
            most_waiting: (most as usize).max(256),
            anonymous_places: 64,
            ticket_places: 64,
            burst: most.max(128),
            total_interval: Duration::from_millis(12),
            network_interval: Duration::from_millis(40),
        }
    }
}

/// A session is set up in two round trips after the first bytes; the rest is for lost packets.
const PLACE_ROUND_TRIPS: u32 = 4;
/// The time for what the hosts do during these round trips.
const PLACE_SLACK: Duration = Duration::from_millis(250);

/// The next step of the table's owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AdmissionStep {
    /// Begin the session of this connection; it has a place now.
    Begin(u64),
    /// Shut down this connection. Its place is free when its thread has ended.
    ShutDown(u64),
    /// Nothing before this time has passed, or another event.
    Wait(Option<Duration>),
}

/// The admission of all connections, by their numbers in order of arrival.
#[derive(Debug)]
pub(super) struct AdmissionTable {
    limits: AdmissionLimits,
    connections: HashMap<u64, TableEntry>,
    anonymous: PlacePool,
    ticket: PlacePool,
    starts: StartRates,
}

#[derive(Debug)]
struct TableEntry {
    source: SourcePrefix,
    has_ticket: bool,
    rtt: Duration,
    stage: AdmissionStage,
    /// Waiting: the time at which it is given up. With a place: the end of the time that is its own.
    until: Duration,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AdmissionStage {
    Undecided,
    Ready,
    Placed,
    ShutDown,
}

/// The connections of one class of clients.
#[derive(Debug, Default)]
struct PlacePool {
    /// Those without a place.
    waiting: SourceShares,
    /// Those of them whose first bytes are complete.
    ready: SourceShares,
    placed: SourceShares,
    /// Those with a place, by the end of the time that is their own.
    placed_until: BTreeSet<(Duration, u64)>,
    /// Those that were shut down and whose threads have not ended yet.
    shut_down: HashSet<u64>,
}

impl AdmissionTable {
    pub fn new(limits: AdmissionLimits) -> AdmissionTable {
        AdmissionTable {
            connections: HashMap::new(),
            anonymous: PlacePool::default(),
            ticket: PlacePool::default(),
            starts: StartRates::default(),
            limits,
        }
    }

    /// Adds a new connection. Returns one to close if there are too many.
    pub fn add_connection(
        &mut self,
        now: Duration,
        number: u64,
        source: SourcePrefix,
    ) -> Option<u64> {
        let entry = TableEntry {
            source,
            has_ticket: false,
            rtt: Duration::ZERO,
            stage: AdmissionStage::Undecided,
            until: now + GREETING_TIMEOUT,
        };
        self.connections.insert(number, entry);
        self.anonymous.waiting.insert(source, number);
        self.evict_waiting(false)
    }

    /// Notes that the first bytes of a connection are complete: it wants a place. Returns a
    /// connection to close if too many wait.
    pub fn set_ready(
        &mut self,
        now: Duration,
        number: u64,
        has_ticket: bool,
        rtt: Duration,
    ) -> Option<u64> {
        let entry = self.connections.get_mut(&number)?;
        entry.stage = AdmissionStage::Ready;
        entry.until = now + STEP_TIMEOUT;
        entry.rtt = rtt;
        entry.has_ticket = has_ticket;
        let source = entry.source;
        if has_ticket {
            self.anonymous.waiting.remove(source, number);
            self.ticket.waiting.insert(source, number);
        }
        self.pool(has_ticket).ready.insert(source, number);
        self.evict_waiting(has_ticket)
    }

    /// Removes a connection that was closed or handed over, or whose session is admitted or over.
    pub fn remove(&mut self, number: u64) {
        if let Some(entry) = self.connections.remove(&number) {
            let pool = self.pool(entry.has_ticket);
            for shares in [&mut pool.waiting, &mut pool.ready, &mut pool.placed] {
                shares.remove(entry.source, number);
            }
            pool.placed_until.remove(&(entry.until, number));
            pool.shut_down.remove(&number);
        }
    }

    /// Removes and returns the connections that have waited too long without a place.
    pub fn take_expired(&mut self, now: Duration) -> Vec<u64> {
        let waits = |stage| matches!(stage, AdmissionStage::Undecided | AdmissionStage::Ready);
        let expired = self.connections.iter().filter(|(_, it)| waits(it.stage) && it.until <= now);
        let expired: Vec<u64> = expired.map(|(number, _)| *number).collect();
        for number in &expired {
            self.remove(*number);
        }
        expired
    }

    /// Returns the next step; to be called until it is to wait.
    pub fn next_step(&mut self, now: Duration) -> AdmissionStep {
        let mut wait = None;
        for has_ticket in [true, false] {
            match self.next_step_of(has_ticket, now) {
                AdmissionStep::Wait(time) => wait = wait.into_iter().chain(time).min(),
                step => return step,
            }
        }
        AdmissionStep::Wait(wait)
    }

    fn pool(&mut self, has_ticket: bool) -> &mut PlacePool {
        if has_ticket { &mut self.ticket } else { &mut self.anonymous }
    }

    fn evict_waiting(&mut self, has_ticket: bool) -> Option<u64> {
        let most = self.limits.most_waiting;
        let waiting = &self.pool(has_ticket).waiting;
        let number = (waiting.total() > most).then(|| waiting.oldest_of_largest()).flatten()?;
        self.remove(number);
        Some(number)
    }

    fn next_step_of(&mut self, has_ticket: bool, now: Duration) -> AdmissionStep {
        let most =
            if has_ticket { self.limits.ticket_places } else { self.limits.anonymous_places };
        let limits = self.limits;
        let (pool, starts) =
            if has_ticket { (&self.ticket, None) } else { (&self.anonymous, Some(&self.starts)) };
        // Only for a connection that may begin does another one give way.
        let wait_for = |network: IpAddr| {
            starts.map_or(Duration::ZERO, |starts| starts.wait_for(network, now, &limits))
        };
        let Some(number) = pool.next_ready(|network| wait_for(network).is_zero()) else {
            return AdmissionStep::Wait(pool.ready.networks().map(wait_for).min());
        };
        let source = self.connections[&number].source;
        if pool.placed.total() + pool.shut_down.len() < most {
            self.begin(number, now);
            return AdmissionStep::Begin(number);
        }
        if pool.shut_down.len() >= pool.ready.total() {
            return AdmissionStep::Wait(None);
        }
        match pool.placed.oldest_above_share_of(source) {
            Some(victim) => self.shut_down(victim),
            None => self.shut_down_overdue(has_ticket, now),
        }
    }

    fn begin(&mut self, number: u64, now: Duration) {
        let Some(entry) = self.connections.get_mut(&number) else {
            return;
        };
        entry.stage = AdmissionStage::Placed;
        let own_time = (entry.rtt * PLACE_ROUND_TRIPS + PLACE_SLACK).min(GREETING_TIMEOUT);
        entry.until = now + own_time;
        let TableEntry { source, has_ticket, until, .. } = *entry;
        let pool = self.pool(has_ticket);
        pool.waiting.remove(source, number);
        pool.ready.remove(source, number);
        pool.placed.insert(source, number);
        pool.placed_until.insert((until, number));
        if !has_ticket {
            let limits = self.limits;
            self.starts.note_start(source.network, now, &limits);
        }
    }

    /// Shuts down the connection with a place that is longest over the time that is its own.
    fn shut_down_overdue(&mut self, has_ticket: bool, now: Duration) -> AdmissionStep {
        match self.pool(has_ticket).placed_until.first().copied() {
            Some((until, number)) if until <= now => self.shut_down(number),
            first => AdmissionStep::Wait(first.map(|(until, _)| until.saturating_sub(now))),
        }
    }

    fn shut_down(&mut self, number: u64) -> AdmissionStep {
        if let Some(entry) = self.connections.get_mut(&number) {
            entry.stage = AdmissionStage::ShutDown;
            let TableEntry { source, has_ticket, until, .. } = *entry;
            let pool = self.pool(has_ticket);
            pool.placed.remove(source, number);
            pool.placed_until.remove(&(until, number));
            pool.shut_down.insert(number);
        }
        AdmissionStep::ShutDown(number)
    }
}

impl PlacePool {
    /// Returns the oldest ready connection of the host with the fewest places, in the network with
    /// the fewest.
    fn next_ready(&self, may_begin: impl Fn(IpAddr) -> bool) -> Option<u64> {
        let networks = self.ready.networks().filter(|network| may_begin(*network));
        let ranked = networks.filter_map(|network| {
            let oldest = self.ready.oldest_of_network(network)?;
            Some((self.placed.count_of_network(network), oldest, network))
        });
        let (_, _, network) = ranked.min()?;
        let hosts = self.ready.hosts(network).filter_map(|host| {
            Some((self.placed.count_of_host(host), self.ready.oldest_of(host)?))
        });
        hosts.min().map(|(_, oldest)| oldest)
    }
}

/// The rates at which clients without a ticket begin sessions: for all sources and for each network,
/// the time at which its allowance is whole again (the generic cell rate algorithm).
#[derive(Debug, Default)]
struct StartRates {
    whole_at: Duration,
    networks: HashMap<IpAddr, Duration>,
}

impl StartRates {
    /// Returns the time until a session of this network may begin.
    fn wait_for(&self, network: IpAddr, now: Duration, limits: &AdmissionLimits) -> Duration {
        let wait = |whole_at: Duration, allowance| whole_at.saturating_sub(now + allowance);
        let total = wait(self.whole_at, limits.total_interval * limits.burst * 2);
        let own = self.networks.get(&network).copied().unwrap_or_default();
        total.max(wait(own, limits.network_interval * limits.burst))
    }

    fn note_start(&mut self, network: IpAddr, now: Duration, limits: &AdmissionLimits) {
        self.whole_at = self.whole_at.max(now) + limits.total_interval;
        self.networks.retain(|_, whole_at| *whole_at > now);
        let own = self.networks.entry(network).or_default();
        *own = (*own).max(now) + limits.network_interval;
    }
}

#[cfg(test)]
mod tests;
