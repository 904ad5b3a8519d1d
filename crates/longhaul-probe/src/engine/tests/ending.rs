//! What stands at the end of a stream on iperf3's wire: whole blocks and whole datagrams.

use super::*;
use crate::engine::CounterWidth;
use std::io::ErrorKind;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

const BLOCK_BYTES: u64 = 100_000;

fn open_ended(plan: &ThroughputPlan, sockets: Vec<DataSocket>) -> EndRun {
    let spec = EndSpec {
        heads: DatagramFormat::Numbered(CounterWidth::Bits64),
        ending: StreamEnding::Open { block_bytes: BLOCK_BYTES },
        ..spec(TransferRole::Sender, plan)
    };
    EndRun::start(spec, TransferRole::Sender, sockets).expect("an end")
}

/// Bytes read until all is `sent` and nothing more comes, of a stream that must not end.
fn read_open(mut far: TcpStream, sent: &AtomicBool) -> u64 {
    let quiet = Duration::from_millis(300);
    far.set_read_timeout(Some(quiet)).expect("a timeout");
    let (mut bytes, mut buffer) = (0, vec![0; 1 << 16]);
    loop {
        let all = sent.load(SeqCst);
        match far.read(&mut buffer) {
            Ok(0) => panic!("the stream ended behind {bytes} bytes"),
            Ok(count) => bytes += count as u64,
            Err(error) if error.kind() == ErrorKind::WouldBlock && all => return bytes,
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => panic!("{error}"),
        }
    }
}

#[test]
fn a_stream_that_is_left_open_holds_whole_blocks_and_does_not_end() {
    let stops = [StopCondition::TimeUs(200_000), StopCondition::Bytes(1_234_567)];
    for (stop, zero_copy) in stops.map(|stop| [(stop, false), (stop, true)]).concat() {
        let plan = ThroughputPlan { zero_copy, ..plan(1, stop) };
        let (near, far) = tcp_pairs(&plan).remove(0);
        let all = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&all);
        let reader = std::thread::spawn(move || read_open(far, &told));
        let sender = open_ended(&plan, vec![DataSocket::Tcp(near)]);
        sender.go();
        assert!(sender.wait(SOON), "the sender ends by its own rule");
        all.store(true, SeqCst);
        let read = reader.join().expect("an open stream");
        let sent = sender.end().end.bytes;
        assert_eq!((read, read % BLOCK_BYTES), (sent, 0), "{plan:?}");
        if let StopCondition::Bytes(asked) = stop {
            assert_eq!(sent, asked.next_multiple_of(BLOCK_BYTES));
        }
    }
}

#[test]
fn a_block_for_which_there_is_no_room_is_given_up() {
    let plan = plan(1, StopCondition::TimeUs(200_000));
    let (near, far) = tcp_pairs(&plan).remove(0);
    let sender = open_ended(&plan, vec![DataSocket::Tcp(near)]);
    sender.go();
    assert!(sender.wait(SOON), "nobody reads, and it ends");
    let stream = sender.end().streams.remove(0);
    assert_eq!(stream.error, None);
    drop(far);
}

#[test]
fn datagrams_are_whole_though_the_bytes_end_within_one() {
    let plan = ThroughputPlan {
        transport: RunTransport::Udp { rate_bps: 50_000_000 },
        write_bytes: Some(1000),
        ..plan(1, StopCondition::Bytes(5500))
    };
    let (near, _far) = udp_pairs(1);
    let sender = open_ended(&plan, near);
    sender.go();
    assert!(sender.wait(SOON), "the sender ends by its own rule");
    let sent = sender.end().streams.remove(0);
    assert_eq!((sent.calls, sent.bytes), (Some(6), 6000));
}
