//! The thread of one stream: it is pinned, waits for `go`, runs, and stores its outcome.

use super::Role;
use super::asked;
use super::counters::Meter;
use super::follow::Follower;
use super::memory::Tools;
use super::receive::TcpReceiver;
use super::run::Shared;
use super::send::{Mover, TcpSender};
use super::sockets::DataSocket;
use super::udp::{self, DatagramReceiver, DatagramSender};
use longhaul_model::report::v1::Caveat;
use longhaul_model::report::v1::observation::Udp;
use longhaul_model::report::v1::plan::Transport;
use longhaul_model::units::Rate;
use longhaul_sys::region::{Region, Sink};
use longhaul_sys::sched;
use std::io;
use std::net::{TcpStream, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

/// The outcome that only the stream's thread knows.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    pub core: Option<u32>,
    pub udp: Option<Udp>,
    pub error: Option<String>,
    pub caveats: Vec<Caveat>,
}

/// Runs stream `index` from start to end.
pub(super) fn run(shared: &Shared, index: usize, tools: Tools) {
    let stream = &shared.streams[index];
    stream.counters.thread_begins();
    let mut outcome = Outcome::default();
    place(shared, index, &mut outcome);
    if let Err(error) = run_stream(shared, index, tools, &mut outcome) {
        outcome.error = Some(error.to_string());
    }
    stream.counters.thread_ends();
    shared.stream_is_over(index, outcome);
}

fn place(shared: &Shared, index: usize, outcome: &mut Outcome) {
    let choice = &shared.choice;
    if let Some(core) = choice.core(index) {
        match sched::pin_to_core(core) {
            Ok(()) => outcome.core = Some(core as u32),
            Err(error) => outcome.caveats.push(Caveat::new(
                "not_pinned",
                format!("stream {index} could not be pinned to core {core}: {error}"),
            )),
        }
    }
    let timed = shared.spec.plan.transport != Transport::Tcp;
    if timed || choice.write_rate.is_some() || choice.read_rate.is_some() {
        // Late timers only make a paced stream less even.
        let _ = sched::set_timer_slack(Duration::from_nanos(1));
    }
}

fn run_stream(
    shared: &Shared,
    index: usize,
    tools: Tools,
    outcome: &mut Outcome,
) -> io::Result<()> {
    match (&shared.streams[index].socket, tools) {
        (DataSocket::Tcp(socket), Tools::Send(payload)) => {
            send_tcp(shared, index, (socket, &payload), outcome)
        }
        (DataSocket::Tcp(socket), Tools::Receive(sink)) => receive_tcp(shared, index, socket, sink),
        (DataSocket::Udp(socket), _) if shared.spec.role == Role::Sender => {
            send_udp(shared, index, socket)
        }
        (DataSocket::Udp(socket), _) => receive_udp(shared, index, socket, outcome),
        (DataSocket::Tcp(_), Tools::None) => Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "a TCP connection in a UDP plan",
        )),
    }
}

fn send_tcp(
    shared: &Shared,
    index: usize,
    (socket, payload): (&TcpStream, &Arc<Region>),
    outcome: &mut Outcome,
) -> io::Result<()> {
    let (mover, caveat) = Mover::new(payload, shared.spec.plan.zero_copy, &shared.choice);
    outcome.caveats.extend(caveat);
    if !shared.wait_go() {
        return Ok(());
    }
    let stream = &shared.streams[index];
    TcpSender {
        socket,
        mover,
        meter: Meter::new(&stream.counters, shared.clock()),
        clock: shared.clock(),
        stop: &shared.stop,
        choice: &shared.choice,
        ending: shared.spec.ending,
        asked: &|now_ns| asked::answer(shared, stream, now_ns),
    }
    .run()
}

fn receive_tcp(shared: &Shared, index: usize, socket: &TcpStream, sink: Sink) -> io::Result<()> {
    if !shared.wait_go() {
        return Ok(());
    }
    let stream = &shared.streams[index];
    let follows = shared.choice.follows;
    let follower = follows.then(|| Follower::new(&shared.entrances, index, socket));
    TcpReceiver {
        socket,
        mode: shared.spec.plan.mode,
        sink,
        meter: Meter::new(&stream.counters, shared.clock()),
        clock: shared.clock(),
        stop: &shared.stop,
        choice: &shared.choice,
        follower: follower.flatten(),
        asked: &|now_ns| asked::answer(shared, stream, now_ns),
    }
    .run()
}

fn send_udp(shared: &Shared, index: usize, socket: &UdpSocket) -> io::Result<()> {
    let Transport::Udp { rate_bps } = shared.spec.plan.transport else {
        let text = "a UDP socket in a TCP plan";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
    };
    let rate = Rate::bits_per_second(rate_bps / shared.streams.len().max(1) as u64);
    let asked = shared.spec.plan.write_bytes;
    let bytes = asked.map_or_else(|| udp::default_bytes(socket), |bytes| bytes as usize);
    let meter = Meter::new(&shared.streams[index].counters, shared.clock());
    let parts = (meter, shared.clock());
    let sender = DatagramSender::new(
        socket,
        index,
        (rate, bytes, shared.spec.heads),
        parts,
        &shared.stop,
    );
    if !shared.wait_go() {
        return Ok(());
    }
    sender.run()
}

fn receive_udp(
    shared: &Shared,
    index: usize,
    socket: &UdpSocket,
    outcome: &mut Outcome,
) -> io::Result<()> {
    let plan = &shared.spec.plan;
    let meter = Meter::new(&shared.streams[index].counters, shared.clock());
    let parts = (meter, shared.clock());
    let receiver = DatagramReceiver::new(
        socket,
        (plan.mode, shared.spec.heads, plan.write_bytes),
        parts,
        &shared.stop,
    )?;
    if !shared.wait_go() {
        return Ok(());
    }
    let (udp, result) = receiver.run();
    outcome.udp = Some(udp);
    result
}
