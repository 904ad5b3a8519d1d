//! Both ends of a run over loopback, in one process.

mod ending;
mod window;

use super::*;
use longhaul_model::report::v1::plan::{CoreAffinity, ReceiveMode, RunTransport, StopCondition};
use std::io::Read;
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};

/// Ends a test that hangs.
const SOON: Duration = Duration::from_secs(120);

/// Connected pairs: (sender's side, receiver's side).
fn tcp_pairs(plan: &ThroughputPlan) -> Vec<(TcpStream, TcpStream)> {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let to = listener.local_addr().expect("its address");
    (0..plan.streams)
        .map(|_| {
            let socket = open_tcp_socket(plan, TransferRole::Sender, to, &LocalBind::default());
            let near = socket.expect("a socket").connect(SOON).expect("connect");
            let (far, _) = listener.accept().expect("accept");
            prepare_accepted(&far, plan, TransferRole::Receiver).expect("accepted");
            (near, far)
        })
        .collect()
}

fn spec(role: TransferRole, plan: &ThroughputPlan) -> EndSpec {
    EndSpec {
        plan: plan.clone(),
        initiator: role == TransferRole::Sender,
        idle_rtt: Some(Duration::from_micros(50)),
        origin: Instant::now(),
        heads: DatagramFormat::Longhaul,
        ending: StreamEnding::HalfClosed,
    }
}

fn start(role: TransferRole, plan: &ThroughputPlan, sockets: Vec<DataSocket>) -> EndRun {
    EndRun::start(spec(role, plan), role, sockets).expect("an end")
}

/// Runs a plan over TCP to its end: (sender, receiver).
fn run(plan: &ThroughputPlan) -> (EngineResult, EngineResult) {
    let (near, far): (Vec<_>, Vec<_>) = tcp_pairs(plan)
        .into_iter()
        .map(|(near, far)| (DataSocket::Tcp(near), DataSocket::Tcp(far)))
        .unzip();
    run_sockets(plan, near, far)
}

fn run_sockets(
    plan: &ThroughputPlan,
    near: Vec<DataSocket>,
    far: Vec<DataSocket>,
) -> (EngineResult, EngineResult) {
    let receiver = start(TransferRole::Receiver, plan, far);
    let sender = start(TransferRole::Sender, plan, near);
    receiver.go();
    sender.go();
    assert!(sender.wait(SOON), "the sender ends by its own rule");
    if matches!(plan.stop, StopCondition::TimeUs(_)) && plan.transport == RunTransport::Tcp {
        receiver.stop();
    }
    // One of datagrams that stood still may have missed every end mark.
    let udp = plan.transport != RunTransport::Tcp;
    if udp && !receiver.wait(Duration::from_secs(5)) {
        receiver.stop();
    }
    assert!(receiver.wait(SOON), "the receiver sees the end");
    let (sender, mut receiver) = (sender.end(), receiver.end());
    // As at the end of every run: a receiver that was late may have missed every end mark.
    for (sent, received) in sender.streams.iter().zip(&mut receiver.streams) {
        reconcile_loss(sent, received);
    }
    (sender, receiver)
}

fn plan(streams: u32, stop: StopCondition) -> ThroughputPlan {
    ThroughputPlan { streams, stop, interval_us: 20_000, ..ThroughputPlan::default() }
}

#[test]
fn every_mode_delivers_exactly_the_bytes_asked_and_says_so_at_both_ends() {
    const BYTES: u64 = 30_000_001;
    for mode in [ReceiveMode::Delivered, ReceiveMode::Wire] {
        for zero_copy in [false, true] {
            for affinity in [CoreAffinity::Auto, CoreAffinity::Off] {
                let plan = ThroughputPlan {
                    mode,
                    zero_copy,
                    affinity,
                    ..plan(3, StopCondition::Bytes(BYTES))
                };
                let (sender, receiver) = run(&plan);
                assert_eq!(sender.end.bytes, BYTES, "{mode:?} zero copy {zero_copy}");
                assert_eq!(receiver.end.bytes, BYTES, "{mode:?} zero copy {zero_copy}");
                for (sent, received) in sender.streams.iter().zip(&receiver.streams) {
                    assert_eq!(sent.bytes, received.bytes);
                    assert_eq!(sent.local, received.peer);
                    assert_eq!((&sent.error, &received.error), (&None, &None));
                }
            }
        }
    }
}

#[test]
fn blocks_are_counted_exactly_over_all_streams() {
    let plan = ThroughputPlan { write_bytes: Some(10_007), ..plan(4, StopCondition::Blocks(1001)) };
    let (sender, receiver) = run(&plan);
    assert_eq!(receiver.end.bytes, 1001 * 10_007);
    let calls: Option<u64> = sender.streams.iter().map(|stream| stream.calls).sum();
    assert_eq!(calls, Some(1001));
}

#[test]
fn the_bytes_that_arrive_are_the_payload_in_order() {
    const BYTES: u64 = 5_000_003;
    for zero_copy in [false, true] {
        let plan = ThroughputPlan { zero_copy, ..plan(1, StopCondition::Bytes(BYTES)) };
        let (near, mut far) = tcp_pairs(&plan).remove(0);
        let near = vec![DataSocket::Tcp(near)];
        let sender = EndRun::start(spec(TransferRole::Sender, &plan), TransferRole::Sender, near);
        let sender = sender.expect("an end");
        sender.go();
        let mut bytes = Vec::new();
        far.read_to_end(&mut bytes).expect("the whole stream");
        sender.end();
        assert_eq!(bytes.len() as u64, BYTES);
        let repeats = [16 << 10, 64 << 10, 2 << 20].iter().any(|&length: &u64| {
            let expect = |index| payload_byte(index as u64 % length);
            bytes.iter().enumerate().all(|(index, &byte)| byte == expect(index))
        });
        assert!(repeats, "zero copy {zero_copy}");
    }
}

#[test]
fn a_run_by_time_ends_though_nobody_reads() {
    let plan = plan(2, StopCondition::TimeUs(300_000));
    let pairs = tcp_pairs(&plan);
    let (near, _unread): (Vec<_>, Vec<_>) =
        pairs.into_iter().map(|(near, far)| (DataSocket::Tcp(near), far)).unzip();
    let sender = start(TransferRole::Sender, &plan, near);
    sender.go();
    assert!(sender.wait(SOON), "it does not wait for a reader");
    let result = sender.end();
    for stream in &result.streams {
        assert!(stream.blocked_us.is_some());
        let last = stream.samples.last().expect("samples");
        assert!(last.queue_bytes.is_some());
        assert_eq!(stream.error, None);
    }
}

#[test]
fn a_stop_ends_both_ends_though_nothing_moves() {
    let plan = plan(2, StopCondition::Bytes(u64::MAX));
    let (near, far): (Vec<_>, Vec<_>) = tcp_pairs(&plan).into_iter().unzip();
    let silent = far.into_iter().map(DataSocket::Tcp).collect();
    let receiver = start(TransferRole::Receiver, &plan, silent);
    receiver.go();
    assert!(!receiver.wait(Duration::from_millis(20)));
    receiver.stop();
    assert!(receiver.wait(SOON));
    assert_eq!(receiver.end().end.bytes, 0);
    drop(near);
}

#[test]
fn a_run_that_never_went_ends_too() {
    let plan = plan(2, StopCondition::Bytes(1));
    let (near, _far): (Vec<_>, Vec<_>) = tcp_pairs(&plan).into_iter().unzip();
    let sender =
        start(TransferRole::Sender, &plan, near.into_iter().map(DataSocket::Tcp).collect());
    let result = sender.end();
    assert_eq!((result.end.bytes, result.streams.len()), (0, 2));
}

#[test]
fn slow_readers_and_slow_writers_keep_to_their_rate() {
    let slow = Some(20_000_000);
    let bytes = plan(1, StopCondition::Bytes(1_000_000));
    for plan in [
        ThroughputPlan { read_rate_bps: slow, ..bytes.clone() },
        ThroughputPlan { write_rate_bps: slow, ..bytes },
    ] {
        let began = Instant::now();
        let (_, receiver) = run(&plan);
        assert_eq!(receiver.end.bytes, 1_000_000);
        // 400 ms, but for the last call and what a late thread may catch up.
        assert!(began.elapsed() > Duration::from_millis(300), "{plan:?}");
    }
}

#[test]
fn a_stream_that_is_reset_says_so_and_the_others_go_on() {
    const BYTES: u64 = 200_000_000;
    let plan = plan(2, StopCondition::Bytes(BYTES));
    let mut pairs = tcp_pairs(&plan);
    let (dying_near, dying_far) = pairs.remove(0);
    let (near, far) = pairs.remove(0);
    let sender = start(
        TransferRole::Sender,
        &plan,
        vec![DataSocket::Tcp(dying_near), DataSocket::Tcp(near)],
    );
    let receiver = start(TransferRole::Receiver, &plan, vec![DataSocket::Tcp(far)]);
    // Data arrives at a socket that is closed: the kernel answers with a reset.
    drop(dying_far);
    receiver.go();
    sender.go();
    assert!(sender.wait(SOON) && receiver.wait(SOON));
    let result = sender.end();
    assert!(result.streams[0].error.is_some());
    assert_eq!(result.streams[1].error, None);
    assert_eq!(receiver.end().end.bytes, result.streams[1].bytes);
}

#[test]
fn a_sender_that_leaves_when_its_time_is_up_is_no_error_to_the_receiver() {
    let plan = plan(1, StopCondition::TimeUs(200_000));
    let (near, far) = tcp_pairs(&plan).remove(0);
    let sender = start(TransferRole::Sender, &plan, vec![DataSocket::Tcp(near)]);
    let receiver = start(TransferRole::Receiver, &plan, vec![DataSocket::Tcp(far)]);
    receiver.go();
    sender.go();
    assert!(sender.wait(SOON));
    // The receiver's time counts from when it began, which a busy machine may put off.
    let began = Instant::now();
    while receiver.progress().bytes == 0 {
        assert!(began.elapsed() < SOON, "the receiver begins");
        std::thread::yield_now();
    }
    std::thread::sleep(Duration::from_millis(200));
    sender.end();
    assert!(receiver.wait(SOON));
    let result = receiver.end();
    assert_eq!(result.streams[0].error, None);
    assert!(result.streams[0].peer.is_some());
}

#[test]
fn samples_tell_the_beginning_and_the_end_with_tcp_info_and_clocks() {
    let paced = ThroughputPlan {
        write_rate_bps: Some(40_000_000),
        ..plan(2, StopCondition::Bytes(2_000_000))
    };
    let (sender, receiver) = run(&paced);
    for (result, moved) in [(&sender, sender.end.bytes), (&receiver, receiver.end.bytes)] {
        let last: u64 =
            result.streams.iter().map(|stream| stream.samples.last().expect("samples").bytes).sum();
        assert_eq!(last, moved);
        for stream in &result.streams {
            assert!(stream.samples.len() >= 2);
            assert!(stream.samples.is_sorted_by_key(|sample| (sample.at_us, sample.bytes)));
            let last = stream.samples.last().expect("samples");
            assert!(last.cpu_us > Some(0) && last.core_wait_us.is_some());
            let tcp = last.tcp.as_ref().expect("TCP_INFO");
            assert!(tcp.cwnd_bytes > 0 && tcp.mss_bytes > 0);
            assert!(stream.cpu_us > Some(0));
        }
        assert!(result.end.protocol.contains_key("Tcp.OutSegs"));
        assert!(!result.end.interface.is_empty() && !result.end.cores.is_empty());
        assert!(result.end.host.tcp_rmem_bytes.is_some());
    }
}

#[test]
fn a_buffer_beyond_the_kernels_maximum_is_told_with_what_was_granted() {
    let asked = 1 << 30;
    let plan = ThroughputPlan {
        send_buffer_bytes: Some(asked),
        receive_buffer_bytes: Some(asked),
        ..plan(1, StopCondition::Bytes(1000))
    };
    let (sender, receiver) = run(&plan);
    for result in [&sender, &receiver] {
        let stream = &result.streams[0];
        for buffer in [stream.send_buffer, stream.receive_buffer] {
            let buffer = buffer.expect("read back");
            assert_eq!(buffer.asked_bytes, Some(asked));
            assert_eq!(buffer.granted_bytes, buffer.stored_bytes / 2);
            assert!(buffer.granted_bytes < asked);
        }
    }
}

#[test]
fn an_unknown_congestion_control_is_refused_with_those_that_exist() {
    let plan = ThroughputPlan {
        congestion_control: Some("no-such".to_owned()),
        ..ThroughputPlan::default()
    };
    let to = SocketAddr::from(([127, 0, 0, 1], 9));
    let refused = open_tcp_socket(&plan, TransferRole::Sender, to, &LocalBind::default());
    let text = refused.expect_err("no such algorithm").to_string();
    assert!(text.contains("no-such") && text.contains("reno"), "{text}");
}

fn udp_pairs(streams: u32) -> (Vec<DataSocket>, Vec<DataSocket>) {
    let pair = |_| {
        let near = UdpSocket::bind("127.0.0.1:0").expect("a port");
        let far = UdpSocket::bind("127.0.0.1:0").expect("a port");
        near.connect(far.local_addr().expect("address")).expect("connect");
        far.connect(near.local_addr().expect("address")).expect("connect");
        (DataSocket::Udp(near), DataSocket::Udp(far))
    };
    (0..streams).map(pair).unzip()
}

#[test]
fn datagrams_keep_to_their_rate_and_are_accounted_for() {
    for (rate_bps, mode) in [(8_000_000, ReceiveMode::Delivered), (200_000_000, ReceiveMode::Wire)]
    {
        let plan = ThroughputPlan {
            transport: RunTransport::Udp { rate_bps },
            mode,
            ..plan(2, StopCondition::TimeUs(300_000))
        };
        let (near, far) = udp_pairs(2);
        let (sender, receiver) = run_sockets(&plan, near, far);
        let rate = sender.end.bytes * 8 * 10 / 3;
        assert!(rate < rate_bps * 11 / 10, "{rate} of {rate_bps} bit/s");
        for (sent, received) in sender.streams.iter().zip(&receiver.streams) {
            let udp = received.udp.expect("an account");
            assert_eq!(Some(udp.datagrams + udp.lost), sent.calls);
            assert_eq!(received.calls, Some(udp.datagrams));
            assert!(received.bytes <= sent.bytes);
            assert_eq!(sent.udp, None);
        }
    }
}

#[test]
fn datagrams_by_bytes_and_blocks_are_exact() {
    for (stop, datagrams, bytes) in
        [(StopCondition::Blocks(77), 77, 77 * 1000), (StopCondition::Bytes(5500), 6, 5500)]
    {
        let plan = ThroughputPlan {
            transport: RunTransport::Udp { rate_bps: 50_000_000 },
            write_bytes: Some(1000),
            ..plan(1, stop)
        };
        let (near, far) = udp_pairs(1);
        let (sender, _) = run_sockets(&plan, near, far);
        assert_eq!((sender.streams[0].calls, sender.end.bytes), (Some(datagrams), bytes));
    }
}

#[test]
fn loss_is_known_though_every_end_mark_is_lost() {
    let sender = StreamEnd { calls: Some(100), ..StreamEnd::default() };
    let mut receiver = StreamEnd {
        udp: Some(longhaul_model::report::v1::observation::UdpCounts {
            datagrams: 90,
            lost: 4,
            ..Default::default()
        }),
        ..StreamEnd::default()
    };
    reconcile_loss(&sender, &mut receiver);
    assert_eq!(receiver.udp.map(|udp| udp.lost), Some(10));
}
