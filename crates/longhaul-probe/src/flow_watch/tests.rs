//! Watches of this process's own connections.

use super::*;
use crate::supervise::StopFlag;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// A connection over loopback on which one thread writes and another reads, until it is dropped.
struct BusyConnection {
    port: u16,
    stop: Arc<AtomicBool>,
    threads: Vec<thread::JoinHandle<()>>,
}

impl BusyConnection {
    fn open() -> BusyConnection {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("address").port();
        let mut near = TcpStream::connect(("127.0.0.1", port)).expect("connect");
        let (mut far, _) = listener.accept().expect("accept");
        let stop = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&stop);
        let writer = thread::spawn(move || {
            while !told.load(Ordering::Relaxed) && near.write_all(&[7; 16 * 1024]).is_ok() {}
        });
        let reader = thread::spawn(move || {
            let mut buffer = vec![0; 64 * 1024];
            while far.read(&mut buffer).is_ok_and(|count| count > 0) {}
        });
        BusyConnection { port, stop, threads: vec![writer, reader] }
    }
}

impl Drop for BusyConnection {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// Watches until both ends of the connection were seen to move data.
fn watch_until_seen(selector: &FlowSelector) -> FlowsObservation {
    let plan = FlowsPlan {
        duration_us: 300_000,
        interval_us: 20_000,
        flows_max: 64,
        ..FlowsPlan::default()
    };
    for _ in 0..100 {
        let stop = StopFlag::default();
        let seen = watch_flows(&plan, selector, &stop).expect("sock_diag");
        if seen.transfers.len() >= 2 {
            return seen;
        }
    }
    panic!("the connection moved no data");
}

#[test]
fn both_ends_of_a_connection_are_transfers_of_their_process() {
    let connection = BusyConnection::open();
    let seen = watch_until_seen(&FlowSelector::Port(connection.port));
    let ways: Vec<bool> = seen.transfers.iter().map(|it| it.sends).collect();
    assert!(ways.contains(&true) && ways.contains(&false));
    for transfer in &seen.transfers {
        assert_eq!(transfer.process.as_ref().map(|it| it.pid), Some(std::process::id()));
        assert_eq!(transfer.peer, "127.0.0.1");
        let stream = &transfer.run.streams[0];
        let (near, far) = if transfer.sends {
            (&stream.sender, &stream.receiver)
        } else {
            (&stream.receiver, &stream.sender)
        };
        assert!(near.samples.len() > 1 && far.samples.is_empty());
        assert_eq!(near.blocked_us, None, "the threads of the program were not observed");
    }
}

#[test]
fn counters_start_at_the_first_look() {
    let connection = BusyConnection::open();
    let seen = watch_until_seen(&FlowSelector::Port(connection.port));
    let sent = seen.transfers.iter().find(|it| it.sends).expect("the sender");
    let samples = &sent.run.streams[0].sender.samples;
    let acked = |index: usize| samples[index].tcp.as_ref().and_then(|it| it.bytes_acked);
    assert!(acked(0) < acked(samples.len() - 1));
    assert_eq!(acked(samples.len() - 1), Some(sent.run.ends.receiver.bytes));
}

#[test]
fn the_flows_of_a_process_are_found_and_those_of_others_are_not() {
    let _connection = BusyConnection::open();
    let own = watch_until_seen(&FlowSelector::Process(std::process::id()));
    assert!(own.matching_flows >= 2);
    let plan = FlowsPlan { duration_us: 1, interval_us: 1, flows_max: 8, ..FlowsPlan::default() };
    let nobody = FlowSelector::Program("no-such-program".to_owned());
    let none = watch_flows(&plan, &nobody, &StopFlag::default());
    assert_eq!(none.expect("sock_diag").matching_flows, 0);
}
