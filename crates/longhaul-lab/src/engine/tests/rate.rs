//! Rate, delay and queue.

use super::bench::*;
use crate::engine::{Engine, Host};

#[test]
fn a_packet_takes_exactly_its_delay() {
    let hops = vec![
        hop("r1", delay(10), delay(7)),
        hop("r2", delay(20), delay(3)),
        hop("far", delay(30), delay(1)),
    ];
    let mut engine = Engine::new(&path(hops), 0);
    send(&mut engine, Host::Near, &udp(), &[7; 100], 5);
    assert_eq!(engine.next_due(), Some(60 * MS + 5));
    let arrivals = collect(&mut engine, SECOND);
    assert_eq!(arrivals.len(), 1);
    assert_eq!(arrivals[0].due, 60 * MS + 5);
    assert_eq!(arrivals[0].host, Host::Far);
    assert_eq!(engine.next_due(), None);
    assert_eq!(engine.live_packets(), 0);
}
