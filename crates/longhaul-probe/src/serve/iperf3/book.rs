//! The registry of iperf3 tests that expect data streams, by cookie or address.
//!
//! TCP streams name their test by its cookie. A UDP stream names nothing, so only its address
//! identifies it: for each address, one test at a time may open UDP streams, and others wait.

use super::limits::Meter;
use crate::iperf3::wire::{Cookie, Greeting};
use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A TCP connection and its number in order of arrival. Clients open them one after the other, but
/// the threads that read the cookies may finish in another order.
pub(super) type Joined = (u64, TcpStream);
/// The client's address of a UDP stream, and its greeting.
pub(super) type Flow = (SocketAddr, Greeting);

/// The reason why a connection was not delivered.
pub(super) enum Unclaimed {
    /// The cookie is new.
    Unknown(TcpStream),
    Refused(TcpStream, &'static str),
}

#[derive(Debug)]
struct Test {
    joined: SyncSender<Joined>,
    /// The number of streams that may still join.
    left: usize,
}

#[derive(Debug, Default)]
struct Held {
    tests: HashMap<Cookie, Test>,
    flows: HashMap<IpAddr, SyncSender<Flow>>,
}

#[derive(Debug, Default)]
pub(in crate::serve) struct Book {
    arrivals: AtomicU64,
    held: Mutex<Held>,
    /// The total rate of all tests.
    pub(super) meter: Meter,
}

/// A test's registration; removed when dropped.
#[derive(Debug)]
pub(super) struct Entry<'a> {
    book: &'a Book,
    cookie: Cookie,
    pub joined: Receiver<Joined>,
}

/// A test's turn to open UDP streams; released when dropped.
#[derive(Debug)]
pub(super) struct Turn<'a> {
    book: &'a Book,
    address: IpAddr,
    pub flows: Receiver<Flow>,
}

impl Book {
    /// Returns the number of the next connection.
    pub fn number(&self) -> u64 {
        self.arrivals.fetch_add(1, Ordering::Relaxed)
    }

    /// Registers a test that expects up to `most` streams; `None` if its cookie is in use.
    pub(super) fn enter(&self, cookie: Cookie, most: usize) -> Option<Entry<'_>> {
        let mut held = self.lock();
        if held.tests.contains_key(&cookie) {
            return None;
        }
        let (sender, joined) = sync_channel(most);
        let test = Test {
            joined: sender,
            left: most,
        };
        held.tests.insert(cookie, test);
        Some(Entry {
            book: self,
            cookie,
            joined,
        })
    }

    /// Delivers a data connection to its test.
    pub(super) fn claim(
        &self,
        cookie: &Cookie,
        number: u64,
        stream: TcpStream,
    ) -> Result<(), Unclaimed> {
        let mut held = self.lock();
        let Some(test) = held.tests.get_mut(cookie) else {
            return Err(Unclaimed::Unknown(stream));
        };
        let why = "its test has all its streams";
        if test.left == 0 {
            return Err(Unclaimed::Refused(stream, why));
        }
        test.left -= 1;
        test.joined.try_send((number, stream)).map_err(|error| {
            let (TrySendError::Full((_, stream)) | TrySendError::Disconnected((_, stream))) = error;
            Unclaimed::Refused(stream, why)
        })
    }

    /// Reserves the turn to open up to `most` UDP streams from `address`; `None` if it is taken.
    pub(super) fn turn(&self, address: IpAddr, most: usize) -> Option<Turn<'_>> {
        let address = address.to_canonical();
        let mut held = self.lock();
        if held.flows.contains_key(&address) {
            return None;
        }
        let (sender, flows) = sync_channel(most);
        held.flows.insert(address, sender);
        Some(Turn {
            book: self,
            address,
            flows,
        })
    }

    /// Delivers a greeting to the test whose turn it is; false if there is none.
    pub fn greet(&self, from: SocketAddr, greeting: Greeting) -> bool {
        let held = self.lock();
        let test = held.flows.get(&from.ip().to_canonical());
        test.is_some_and(|test| test.try_send((from, greeting)).is_ok())
    }

    fn lock(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Entry<'_> {
    fn drop(&mut self) {
        self.book.lock().tests.remove(&self.cookie);
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.book.lock().flows.remove(&self.address);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_one_address_one_test_at_a_time_opens_udp_streams() {
        let book = Book::default();
        let address: SocketAddr = "[::ffff:192.0.2.1]:4000".parse().expect("an address");
        let plain: IpAddr = "192.0.2.1".parse().expect("an address");
        assert!(!book.greet(address, Greeting::Text), "nobody expects it");
        let turn = book.turn(plain, 1).expect("free");
        assert!(book.turn(address.ip(), 1).is_none(), "taken");
        assert!(book.greet(address, Greeting::Text));
        assert!(!book.greet(address, Greeting::Text), "it has all it wants");
        assert_eq!(turn.flows.try_recv(), Ok((address, Greeting::Text)));
        drop(turn);
        assert!(book.turn(plain, 1).is_some(), "the next one's turn");
    }

    #[test]
    fn a_cookie_names_one_test_at_a_time() {
        let book = Book::default();
        let cookie = Cookie([7; 37]);
        let entry = book.enter(cookie, 1).expect("new");
        assert!(book.enter(cookie, 1).is_none());
        drop(entry);
        assert!(book.enter(cookie, 1).is_some());
    }
}
