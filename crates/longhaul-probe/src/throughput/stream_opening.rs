//! Opens all data streams in parallel: N streams take as long as one.

use super::TargetHost;
use crate::engine::{self, DataSocket, EngineError, TransferRole as Flow};
use crate::session::{SessionRole, sends_payload};
use crate::session_driver::SessionSockets;
use crate::wire::{
    DATA_STREAM, DATAGRAM_ACKNOWLEDGED, DATAGRAM_HELLO, PREAMBLE_BYTES, SessionNonce,
    StreamPreamble,
};
use longhaul_model::report::v1::plan::{RunTransport, ThroughputPlan};
use std::io::{self, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::thread;
use std::time::{Duration, Instant};

/// Retransmission interval of the datagram that opens a flow.
const HELLO_RETRY_INTERVAL: Duration = Duration::from_millis(200);
/// Maximum duration of one wait for an answer.
const ANSWER_POLL_TIMEOUT: Duration = Duration::from_millis(5);

/// Opens all streams of the plan, numbered from `first` on.
pub fn open_data_streams(
    target: &TargetHost,
    plan: &ThroughputPlan,
    to: SocketAddr,
    nonce: SessionNonce,
    first: u16,
) -> Result<SessionSockets, EngineError> {
    let wanted = build_preambles(plan, nonce, first);
    let sockets: Vec<DataSocket> = match plan.transport {
        RunTransport::Tcp => connect_all(target, plan, to, &wanted)?,
        RunTransport::Udp { .. } => {
            open_flows(target, plan, to, &wanted)?.into_iter().map(DataSocket::Udp).collect()
        }
    };
    Ok(SessionSockets::by_direction(wanted.into_iter().zip(sockets)))
}

fn build_preambles(plan: &ThroughputPlan, nonce: SessionNonce, first: u16) -> Vec<StreamPreamble> {
    let directions = [(true, SessionRole::Client), (false, SessionRole::Server)];
    let used = directions.into_iter().filter(|(_, role)| sends_payload(*role, plan));
    used.flat_map(|(forward, _)| {
        let preamble = move |index| StreamPreamble { nonce, index: first + index as u16, forward };
        (0..plan.streams).map(preamble)
    })
    .collect()
}

fn stream_direction(preamble: &StreamPreamble) -> Flow {
    if preamble.forward { Flow::Sender } else { Flow::Receiver }
}

fn connect_all(
    target: &TargetHost,
    plan: &ThroughputPlan,
    to: SocketAddr,
    wanted: &[StreamPreamble],
) -> Result<Vec<DataSocket>, EngineError> {
    thread::scope(|scope| {
        let connecting: Vec<_> = wanted
            .iter()
            .map(|preamble| {
                let connect = move || connect_data_stream(target, plan, to, preamble);
                thread::Builder::new()
                    .name("connect".to_owned())
                    .stack_size(128 << 10)
                    .spawn_scoped(scope, connect)
                    .map_err(|source| EngineError::new("start a stream thread", source))
            })
            .collect::<Result<_, _>>()?;
        let done = connecting.into_iter().map(|thread| {
            let lost =
                || EngineError::new("open a stream", io::Error::other("its thread panicked"));
            thread.join().unwrap_or_else(|_| Err(lost())).map(DataSocket::Tcp)
        });
        done.collect()
    })
}

fn connect_data_stream(
    target: &TargetHost,
    plan: &ThroughputPlan,
    to: SocketAddr,
    preamble: &StreamPreamble,
) -> Result<TcpStream, EngineError> {
    let open =
        |source| EngineError::new(format!("open data stream {} to {to}", preamble.index), source);
    let local = target.stream_bind(plan, preamble.forward, preamble.index);
    let socket = engine::open_tcp_socket(plan, stream_direction(preamble), to, &local)?;
    engine::limit_window(&socket, plan)?;
    let mut stream = socket.connect(target.connect_timeout).map_err(open)?;
    stream.set_write_timeout(Some(target.connect_timeout)).map_err(open)?;
    stream.write_all(&preamble.encode(DATA_STREAM)).map_err(open)?;
    stream.set_write_timeout(None).map_err(open)?;
    Ok(stream)
}

/// Opens the single UDP flow of a probe session.
pub(crate) fn open_flow(
    target: &TargetHost,
    plan: &ThroughputPlan,
    to: SocketAddr,
    preamble: StreamPreamble,
) -> Result<UdpSocket, EngineError> {
    open_flows(target, plan, to, &[preamble])?.pop().ok_or_else(|| {
        EngineError::new("open a UDP flow", io::Error::other("no socket was created"))
    })
}

/// Proves the address of each flow to the server before sending anything else, and creates the
/// state in middleboxes.
fn open_flows(
    target: &TargetHost,
    plan: &ThroughputPlan,
    to: SocketAddr,
    wanted: &[StreamPreamble],
) -> Result<Vec<UdpSocket>, EngineError> {
    let deadline = Instant::now() + target.connect_timeout;
    let sockets: Vec<UdpSocket> = wanted
        .iter()
        .map(|preamble| {
            let local = target.stream_bind(plan, preamble.forward, preamble.index);
            engine::open_udp_socket(plan, to, &local)
        })
        .collect::<Result<_, _>>()?;
    let mut silent: Vec<usize> = (0..wanted.len()).collect();
    while !silent.is_empty() {
        if Instant::now() >= deadline {
            let why = "no answer to its hello: UDP may be blocked on the path";
            let error = io::Error::new(io::ErrorKind::TimedOut, why);
            return Err(EngineError::new(format!("open UDP flow {} to {to}", silent[0]), error));
        }
        for &number in &silent {
            // The next round repairs a full queue or an early "port unreachable".
            let _ = sockets[number].send(&wanted[number].encode(DATAGRAM_HELLO));
        }
        let again = Instant::now() + HELLO_RETRY_INTERVAL;
        while !silent.is_empty() && Instant::now() < again {
            silent.retain(|&number| !receive_acknowledgement(&sockets[number], &wanted[number]));
        }
    }
    // The engine expects the blocking mode.
    let restore = |socket: &UdpSocket| socket.set_read_timeout(None);
    let restored = sockets.iter().try_for_each(restore);
    restored.map_err(|source| EngineError::new("configure a UDP flow", source))?;
    Ok(sockets)
}

fn receive_acknowledgement(socket: &UdpSocket, preamble: &StreamPreamble) -> bool {
    let mut bytes = [0; PREAMBLE_BYTES + 1];
    let came =
        socket.set_read_timeout(Some(ANSWER_POLL_TIMEOUT)).and_then(|()| socket.recv(&mut bytes));
    let heard = |count: usize| StreamPreamble::decode(&bytes[..count], DATAGRAM_ACKNOWLEDGED);
    came.ok().and_then(heard) == Some(*preamble)
}
