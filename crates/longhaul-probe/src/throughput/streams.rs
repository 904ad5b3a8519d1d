//! Opens all data streams in parallel: N streams take as long as one.

use super::Target;
use crate::drive::Sockets;
use crate::engine::{self, DataSocket, EngineError, Role as Flow};
use crate::session::{Role, sends};
use crate::wire::{
    DATA_STREAM, DATAGRAM_ACKNOWLEDGED, DATAGRAM_HELLO, Nonce, PREAMBLE_BYTES, Preamble,
};
use longhaul_model::report::v1::plan::{Plan, Transport};
use std::io::{self, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::thread;
use std::time::{Duration, Instant};

/// Retransmission interval of the datagram that opens a flow.
const HELLO_AGAIN: Duration = Duration::from_millis(200);
/// Maximum duration of one wait for an answer.
const LOOK: Duration = Duration::from_millis(5);

/// Opens all streams of the plan.
pub(crate) fn open(
    target: &Target,
    plan: &Plan,
    to: SocketAddr,
    nonce: Nonce,
) -> Result<Sockets, EngineError> {
    let wanted = preambles(plan, nonce);
    let sockets = match plan.transport {
        Transport::Tcp => connect_all(target, plan, to, &wanted)?,
        Transport::Udp { .. } => open_flows(target, plan, to, &wanted)?,
    };
    let mut both = Sockets::default();
    for (preamble, socket) in wanted.iter().zip(sockets) {
        if preamble.forward {
            both.forward.push(socket);
        } else {
            both.reverse.push(socket);
        }
    }
    Ok(both)
}

fn preambles(plan: &Plan, nonce: Nonce) -> Vec<Preamble> {
    let directions = [(true, Role::Initiator), (false, Role::Responder)];
    let used = directions
        .into_iter()
        .filter(|(_, role)| sends(*role, plan));
    used.flat_map(|(forward, _)| {
        (0..plan.streams).map(move |index| Preamble {
            nonce,
            index: index as u16,
            forward,
        })
    })
    .collect()
}

fn flow(preamble: &Preamble) -> Flow {
    if preamble.forward {
        Flow::Sender
    } else {
        Flow::Receiver
    }
}

fn connect_all(
    target: &Target,
    plan: &Plan,
    to: SocketAddr,
    wanted: &[Preamble],
) -> Result<Vec<DataSocket>, EngineError> {
    thread::scope(|scope| {
        let connecting: Vec<_> = wanted
            .iter()
            .map(|preamble| {
                let connect = move || connect_one(target, plan, to, preamble);
                thread::Builder::new()
                    .name("connect".to_owned())
                    .stack_size(128 << 10)
                    .spawn_scoped(scope, connect)
                    .map_err(|source| failed("start a thread for a stream", source))
            })
            .collect::<Result<_, _>>()?;
        let done = connecting.into_iter().map(|thread| {
            let lost = || failed("open a stream", io::Error::other("its thread failed"));
            thread
                .join()
                .unwrap_or_else(|_| Err(lost()))
                .map(DataSocket::Tcp)
        });
        done.collect()
    })
}

fn failed(tried: impl Into<String>, source: io::Error) -> EngineError {
    EngineError {
        tried: tried.into(),
        hint: None,
        source,
    }
}

fn connect_one(
    target: &Target,
    plan: &Plan,
    to: SocketAddr,
    preamble: &Preamble,
) -> Result<TcpStream, EngineError> {
    let open = |source| {
        failed(
            format!("open data stream {} to {to}", preamble.index),
            source,
        )
    };
    let socket = engine::connecting_socket(plan, flow(preamble), to, &target.bind)?;
    socket.bound_window(plan)?;
    let mut stream = socket.connect(target.connect_timeout).map_err(open)?;
    stream
        .set_write_timeout(Some(target.connect_timeout))
        .map_err(open)?;
    stream
        .write_all(&preamble.encode(DATA_STREAM))
        .map_err(open)?;
    stream.set_write_timeout(None).map_err(open)?;
    Ok(stream)
}

/// Opens the single UDP flow of a probe session.
pub(crate) fn open_flow(
    target: &Target,
    plan: &Plan,
    to: SocketAddr,
    preamble: Preamble,
) -> Result<UdpSocket, EngineError> {
    let sockets = open_flows(target, plan, to, &[preamble])?;
    let flow = sockets.into_iter().find_map(|socket| match socket {
        DataSocket::Udp(socket) => Some(socket),
        DataSocket::Tcp(_) => None,
    });
    flow.ok_or_else(|| failed("open a UDP flow", io::Error::other("no socket came of it")))
}

/// Proves the address of each flow to the server before sending anything else, and creates the
/// state in middleboxes.
fn open_flows(
    target: &Target,
    plan: &Plan,
    to: SocketAddr,
    wanted: &[Preamble],
) -> Result<Vec<DataSocket>, EngineError> {
    let deadline = Instant::now() + target.connect_timeout;
    let sockets: Vec<UdpSocket> = wanted
        .iter()
        .map(|_| engine::datagram_socket(plan, to, &target.bind))
        .collect::<Result<_, _>>()?;
    let mut silent: Vec<usize> = (0..wanted.len()).collect();
    while !silent.is_empty() {
        if Instant::now() >= deadline {
            let why = "no answer to its hello: is UDP blocked on the path?";
            let error = io::Error::new(io::ErrorKind::TimedOut, why);
            return Err(failed(
                format!("open UDP flow {} to {to}", silent[0]),
                error,
            ));
        }
        for &number in &silent {
            // The next round repairs a full queue or an early "port unreachable".
            let _ = sockets[number].send(&wanted[number].encode(DATAGRAM_HELLO));
        }
        let again = Instant::now() + HELLO_AGAIN;
        while !silent.is_empty() && Instant::now() < again {
            silent.retain(|&number| !answered(&sockets[number], &wanted[number]));
        }
    }
    sockets.into_iter().map(settled).collect()
}

fn answered(socket: &UdpSocket, preamble: &Preamble) -> bool {
    let mut bytes = [0; PREAMBLE_BYTES + 1];
    let came = socket
        .set_read_timeout(Some(LOOK))
        .and_then(|()| socket.recv(&mut bytes));
    let heard = |count: usize| Preamble::decode(&bytes[..count], DATAGRAM_ACKNOWLEDGED);
    came.ok().and_then(heard) == Some(*preamble)
}

/// Restores the blocking mode that the engine expects.
fn settled(socket: UdpSocket) -> Result<DataSocket, EngineError> {
    let settle = |source| failed("settle a UDP flow", source);
    socket.set_read_timeout(None).map_err(settle)?;
    Ok(DataSocket::Udp(socket))
}
