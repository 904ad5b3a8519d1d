//! What an asked receive buffer does to the window, between longhauls and on iperf3's wire.

use super::*;
use crate::iperf3::wire::Counters;

const ASKED: u64 = 100_000;
/// Windows are told in units of the scale.
const LIMIT: u64 = ASKED + 10_000;

/// The windows that the sender was told, rising, where the receiver has asked for a buffer.
fn windows(heads: Heads, asked: u64) -> Vec<u64> {
    let plan = Plan {
        receive_buffer_bytes: Some(asked),
        ..plan(1, Stop::Bytes(500_000_000))
    };
    let (near, far) = tcp_pairs(&plan).remove(0);
    if heads == Heads::Longhaul {
        bound_window(&far, &plan).expect("bounded");
    }
    let start = |role, socket| {
        let spec = EndSpec {
            heads,
            ..spec(role, &plan, false)
        };
        EndRun::start(spec, vec![DataSocket::Tcp(socket)]).expect("an end")
    };
    let receiver = start(Role::Receiver, far);
    let sender = start(Role::Sender, near);
    receiver.go();
    sender.go();
    assert!(sender.wait(SOON) && receiver.wait(SOON));
    receiver.end();
    let samples = sender.end().streams.remove(0).samples;
    let windows = samples.iter().filter_map(|sample| sample.tcp.as_ref());
    let windows = windows.filter_map(|tcp| tcp.peer_window_bytes);
    let mut windows: Vec<u64> = windows.collect();
    windows.sort_unstable();
    windows
}

#[test]
fn an_accepted_socket_lets_its_window_grow_to_the_buffer_that_was_asked() {
    // A clamp left from the handshake would hold it at 64 KiB, half the default receive buffer.
    let widest = windows(Heads::Longhaul, 2_000_000).pop();
    assert!(widest > Some(500_000), "{widest:?}");
}

#[test]
fn an_asked_buffer_bounds_the_window_between_longhauls_only() {
    let usual = |heads| {
        let windows = windows(heads, ASKED);
        windows[windows.len() / 2]
    };
    // The kernel opens it for moments, until it is bounded again.
    let bounded = usual(Heads::Longhaul);
    assert!(bounded <= LIMIT, "{bounded}");
    let open = usual(Heads::Iperf3(Counters::Bits64));
    assert!(open > LIMIT, "{open}: half of a buffer's room is not used");
}
