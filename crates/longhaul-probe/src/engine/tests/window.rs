//! What an asked receive buffer does to the window, between longhauls and on iperf3's wire.

use super::*;
use crate::engine::CounterWidth;

const ASKED: u64 = 100_000;
/// Windows are told in units of the scale.
const LIMIT: u64 = ASKED + 10_000;

/// The widest window that the sender was told, where the receiver has asked for a buffer.
fn widest(heads: DatagramFormat, asked: u64) -> Option<u64> {
    let plan = ThroughputPlan {
        receive_buffer_bytes: Some(asked),
        ..plan(1, StopCondition::Bytes(500_000_000))
    };
    let (near, far) = tcp_pairs(&plan).remove(0);
    if heads == DatagramFormat::Longhaul {
        limit_window(&far, &plan).expect("bounded");
    }
    let start = |role, socket| {
        let spec = EndSpec { heads, ..spec(role, &plan) };
        EndRun::start(spec, role, vec![DataSocket::Tcp(socket)]).expect("an end")
    };
    let receiver = start(TransferRole::Receiver, far);
    let sender = start(TransferRole::Sender, near);
    receiver.go();
    sender.go();
    assert!(sender.wait(SOON) && receiver.wait(SOON));
    receiver.end();
    let samples = sender.end().streams.remove(0).samples;
    let windows = samples.iter().filter_map(|sample| sample.tcp.as_ref());
    windows.filter_map(|tcp| tcp.peer_window_bytes).max()
}

#[test]
fn an_accepted_socket_lets_its_window_grow_to_the_buffer_that_was_asked() {
    // A clamp left from the handshake would hold it at 64 KiB, half the default receive buffer.
    let widest = widest(DatagramFormat::Longhaul, 2_000_000);
    assert!(widest > Some(500_000), "{widest:?}");
}

#[test]
fn on_iperf3s_wire_an_asked_buffer_does_not_bound_the_window() {
    let open = widest(DatagramFormat::Numbered(CounterWidth::Bits64), ASKED);
    assert!(open > Some(LIMIT), "{open:?}: a buffer's room is not used");
}
