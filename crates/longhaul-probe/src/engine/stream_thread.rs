//! The thread of one stream: it is pinned, waits for `go`, runs, and stores its outcome.

use super::TransferRole;
use super::end_run::EngineShared;
use super::sample_request;
use super::sockets::DataSocket;
use super::stream_counters::CounterWriter;
use super::stream_memory::StreamMemory;
use super::tcp_receiver::TcpReceiver;
use super::tcp_sender::{PayloadMover, TcpSender};
use super::udp_stream::{self, DatagramReceiver, DatagramSender};
use longhaul_model::report::v1::ReportCaveat;
use longhaul_model::report::v1::observation::UdpCounts;
use longhaul_model::report::v1::plan::RunTransport;
use longhaul_model::units::Rate;
use longhaul_sys::memory_region::{MemoryRegion, ReceiveSink};
use longhaul_sys::sched;
use std::io;
use std::net::{TcpStream, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

/// The outcome that only the stream's thread knows.
#[derive(Debug, Default)]
pub(super) struct StreamOutcome {
    pub core: Option<u32>,
    pub udp: Option<UdpCounts>,
    pub error: Option<String>,
    pub caveats: Vec<ReportCaveat>,
}

/// Runs stream `index` from start to end.
pub(super) fn run(shared: &EngineShared, index: usize, tools: StreamMemory) {
    let stream = &shared.streams[index];
    stream.counters.thread_started();
    let mut outcome = StreamOutcome::default();
    pin_thread(shared, index, &mut outcome);
    if let Err(error) = run_stream(shared, index, tools, &mut outcome) {
        outcome.error = Some(error.to_string());
    }
    stream.counters.thread_ended();
    shared.finish_stream(index, outcome);
}

fn pin_thread(shared: &EngineShared, index: usize, outcome: &mut StreamOutcome) {
    let choice = &shared.defaults;
    if let Some(core) = choice.core_for(index) {
        match sched::pin_to_core(core) {
            Ok(()) => outcome.core = Some(core as u32),
            Err(error) => outcome.caveats.push(ReportCaveat::new(
                "not_pinned",
                format!("cannot pin stream {index} to core {core}: {error}"),
            )),
        }
    }
    let timed = shared.spec.plan.transport != RunTransport::Tcp;
    if timed || choice.write_rate.is_some() || choice.read_rate.is_some() {
        // Late timers only make a paced stream less even.
        let _ = sched::set_timer_slack(Duration::from_nanos(1));
    }
}

fn run_stream(
    shared: &EngineShared,
    index: usize,
    tools: StreamMemory,
    outcome: &mut StreamOutcome,
) -> io::Result<()> {
    match (&shared.streams[index].socket, tools) {
        (DataSocket::Tcp(socket), StreamMemory::Send(payload)) => {
            send_tcp(shared, index, socket, &payload, outcome)
        }
        (DataSocket::Tcp(socket), StreamMemory::Receive(sink)) => {
            receive_tcp(shared, index, socket, sink)
        }
        (DataSocket::Udp(socket), _) if shared.spec.role == TransferRole::Sender => {
            send_udp(shared, index, socket)
        }
        (DataSocket::Udp(socket), _) => receive_udp(shared, index, socket, outcome),
        (DataSocket::Tcp(_), StreamMemory::None) => {
            Err(io::Error::new(io::ErrorKind::InvalidInput, "a TCP connection in a UDP plan"))
        }
    }
}

fn send_tcp(
    shared: &EngineShared,
    index: usize,
    socket: &TcpStream,
    payload: &Arc<MemoryRegion>,
    outcome: &mut StreamOutcome,
) -> io::Result<()> {
    let (mover, caveat) = PayloadMover::new(payload, shared.spec.plan.zero_copy, &shared.defaults);
    outcome.caveats.extend(caveat);
    if !shared.wait_go() {
        return Ok(());
    }
    let stream = &shared.streams[index];
    TcpSender {
        socket,
        mover,
        meter: CounterWriter::new(&stream.counters, shared.clock()),
        clock: shared.clock(),
        stop: &shared.stop,
        choice: &shared.defaults,
        ending: shared.spec.ending,
        sample_if_due: &|now_ns| sample_request::sample_if_due(shared, stream, now_ns),
    }
    .run()
}

fn receive_tcp(
    shared: &EngineShared,
    index: usize,
    socket: &TcpStream,
    sink: ReceiveSink,
) -> io::Result<()> {
    if !shared.wait_go() {
        return Ok(());
    }
    let stream = &shared.streams[index];
    TcpReceiver {
        socket,
        mode: shared.spec.plan.mode,
        sink,
        meter: CounterWriter::new(&stream.counters, shared.clock()),
        clock: shared.clock(),
        stop: &shared.stop,
        choice: &shared.defaults,
        sample_if_due: &|now_ns| sample_request::sample_if_due(shared, stream, now_ns),
    }
    .run()
}

fn send_udp(shared: &EngineShared, index: usize, socket: &UdpSocket) -> io::Result<()> {
    let RunTransport::Udp { rate_bps } = shared.spec.plan.transport else {
        let text = "a UDP socket in a TCP plan";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
    };
    let rate = Rate::bits_per_second(rate_bps / shared.streams.len().max(1) as u64);
    let asked = shared.spec.plan.write_bytes;
    let bytes =
        asked.map_or_else(|| udp_stream::default_datagram_bytes(socket), |bytes| bytes as usize);
    let meter = CounterWriter::new(&shared.streams[index].counters, shared.clock());
    let sender = DatagramSender::new(
        socket,
        index,
        rate,
        bytes,
        shared.spec.heads,
        meter,
        shared.clock(),
        &shared.stop,
    );
    if !shared.wait_go() {
        return Ok(());
    }
    sender.run()
}

fn receive_udp(
    shared: &EngineShared,
    index: usize,
    socket: &UdpSocket,
    outcome: &mut StreamOutcome,
) -> io::Result<()> {
    let plan = &shared.spec.plan;
    let meter = CounterWriter::new(&shared.streams[index].counters, shared.clock());
    let receiver = DatagramReceiver::new(
        socket,
        plan.mode,
        shared.spec.heads,
        plan.write_bytes,
        meter,
        shared.clock(),
        &shared.stop,
    )?;
    if !shared.wait_go() {
        return Ok(());
    }
    let (udp, result) = receiver.run();
    outcome.udp = Some(udp);
    result
}
