//! The open connections of the HTTP server, with shares for each source, and those of them that
//! listen to live updates.
//!
//! A new connection is never refused: beyond the limit, one of the source that has most is closed,
//! if possible one without a request.

use longhaul_probe::measurement_server::{SourcePrefix, SourceShares};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use tokio::sync::Notify;

/// The table of all connections.
#[derive(Debug, Default)]
pub struct ConnectionTable {
    connections: Mutex<OpenConnections>,
}

#[derive(Debug, Default)]
struct OpenConnections {
    last_number: u64,
    closers: HashMap<u64, (SourcePrefix, Arc<Notify>)>,
    all: SourceShares,
    /// Those without a request.
    idle: SourceShares,
}

/// An open connection; removed from the table when dropped.
#[derive(Debug)]
pub struct OpenConnection {
    table: Arc<ConnectionTable>,
    source: SourcePrefix,
    number: u64,
    /// Notified if this connection has to give way.
    pub closer: Arc<Notify>,
}

impl ConnectionTable {
    /// Adds a connection; beyond `most`, closes another one or this one.
    pub fn add(self: &Arc<Self>, peer: IpAddr, most: usize) -> Arc<OpenConnection> {
        let source = SourcePrefix::from(peer);
        let closer = Arc::new(Notify::new());
        let mut open = self.connections.lock();
        open.last_number += 1;
        let number = open.last_number;
        open.closers.insert(number, (source, Arc::clone(&closer)));
        open.all.insert(source, number);
        open.idle.insert(source, number);
        if open.all.total() > most {
            open.close_one();
        }
        Arc::new(OpenConnection { table: Arc::clone(self), source, number, closer })
    }

    /// Adds a connection as [`ConnectionTable::add`], unless it would be one more of the source that
    /// has most.
    pub fn add_within_share(
        self: &Arc<Self>,
        peer: IpAddr,
        most: usize,
    ) -> Option<Arc<OpenConnection>> {
        let is_largest = {
            let open = self.connections.lock();
            let oldest = open.all.oldest_of_largest().filter(|_| open.all.total() >= most);
            let largest = oldest.and_then(|number| open.closers.get(&number));
            largest.is_some_and(|(source, _)| *source == SourcePrefix::from(peer))
        };
        (!is_largest).then(|| self.add(peer, most))
    }

    /// Returns the number of open connections.
    pub fn total(&self) -> usize {
        self.connections.lock().all.total()
    }
}

impl OpenConnections {
    fn close_one(&mut self) {
        let Some(oldest) = self.all.oldest_of_largest() else { return };
        let Some((source, _)) = self.closers.get(&oldest) else { return };
        let number = self.idle.oldest_of(*source).unwrap_or(oldest);
        self.remove(number);
    }

    /// Removes a connection and tells its task to end.
    fn remove(&mut self, number: u64) {
        if let Some((source, closer)) = self.closers.remove(&number) {
            self.all.remove(source, number);
            self.idle.remove(source, number);
            closer.notify_one();
        }
    }
}

impl OpenConnection {
    /// Notes that a request begins or ends.
    pub fn set_busy(&self, busy: bool) {
        let mut open = self.table.connections.lock();
        if busy {
            open.idle.remove(self.source, self.number);
        } else if open.closers.contains_key(&self.number) {
            open.idle.insert(self.source, self.number);
        }
    }
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.table.connections.lock().remove(self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_source_gives_way_first_with_what_is_idle() {
        let table = Arc::new(ConnectionTable::default());
        let many: IpAddr = "192.0.2.1".parse().expect("an address");
        let one: IpAddr = "198.51.100.1".parse().expect("an address");
        let first = table.add(many, 3);
        first.set_busy(true);
        let _second = table.add(many, 3);
        let _third = table.add(many, 3);
        let honest = table.add(one, 3);
        let open = || table.connections.lock().closers.keys().copied().collect::<Vec<_>>();
        let mut left = open();
        left.sort_unstable();
        assert_eq!(left, [1, 3, 4], "the oldest without a request is closed");
        drop(honest);
        assert_eq!(table.total(), 2);
        first.set_busy(false);
        let fourth = table.add(many, 2);
        assert!(!open().contains(&first.number) && open().contains(&fourth.number));
    }
}
