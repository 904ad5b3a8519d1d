//! Opens the data streams of a test one after the other: the server assigns numbers and directions
//! in order of arrival.

use super::super::wire::{Cookie, Greeting};
use crate::drive::Sockets;
use crate::engine::{self, DataSocket, EngineError, Role};
use crate::throughput::Target;
use longhaul_model::report::v1::plan::{Direction, Plan, Transport};
use std::io::{self, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

/// The interval at which an unanswered hello is repeated. The server counts a duplicate as data, so
/// it is not much shorter.
const HELLO_AGAIN: Duration = Duration::from_secs(1);
/// The buffer for the answer, which has 4 bytes; longer datagrams may already be data.
const ANSWER_ROOM_BYTES: usize = 64;

/// Opens every stream of the plan; those on which this end sends come first.
pub(super) fn open(
    target: &Target,
    plan: &Plan,
    to: SocketAddr,
    cookie: Cookie,
) -> Result<Sockets, EngineError> {
    let all = |role, wanted: bool| -> Result<Vec<DataSocket>, EngineError> {
        let count = if wanted { plan.streams } else { 0 };
        (0..count)
            .map(|index| match plan.transport {
                Transport::Tcp => connect(target, (plan, role), to, (cookie, index)),
                Transport::Udp { .. } => flow(target, plan, to, index),
            })
            .collect()
    };
    Ok(Sockets {
        forward: all(Role::Sender, plan.direction != Direction::Reverse)?,
        reverse: all(Role::Receiver, plan.direction != Direction::Forward)?,
    })
}

fn failed(tried: String, source: io::Error) -> EngineError {
    EngineError {
        tried,
        hint: None,
        source,
    }
}

fn connect(
    target: &Target,
    (plan, role): (&Plan, Role),
    to: SocketAddr,
    (cookie, index): (Cookie, u32),
) -> Result<DataSocket, EngineError> {
    let socket = engine::connecting_socket(plan, role, to, &target.bind)?;
    let opened = || -> io::Result<TcpStream> {
        let mut stream = socket.connect(target.connect_timeout)?;
        stream.set_write_timeout(Some(target.connect_timeout))?;
        stream.write_all(&cookie.0)?;
        stream.set_write_timeout(None)?;
        Ok(stream)
    };
    let stream = opened().map_err(|e| failed(format!("open data stream {index} to {to}"), e))?;
    Ok(DataSocket::Tcp(stream))
}

fn flow(
    target: &Target,
    plan: &Plan,
    to: SocketAddr,
    index: u32,
) -> Result<DataSocket, EngineError> {
    let socket = engine::datagram_socket(plan, to, &target.bind)?;
    greet(&socket, target.connect_timeout)
        .map_err(|error| failed(format!("open UDP stream {index} to {to}"), error))?;
    Ok(DataSocket::Udp(socket))
}

fn greet(socket: &UdpSocket, within: Duration) -> io::Result<()> {
    let deadline = Instant::now() + within;
    let mut bytes = [0; ANSWER_ROOM_BYTES];
    while Instant::now() < deadline {
        // The next round repairs a full queue or an early "port unreachable".
        let _ = socket.send(&Greeting::Text.hello());
        let again = deadline.min(Instant::now() + HELLO_AGAIN);
        loop {
            let left = again.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            socket.set_read_timeout(Some(left.max(Duration::from_millis(1))))?;
            match socket.recv(&mut bytes) {
                Ok(count) if Greeting::is_answer(&bytes[..count]) => {
                    return socket.set_read_timeout(None);
                }
                Ok(_) => {}
                Err(_) => std::thread::sleep(left.min(Duration::from_millis(20))),
            }
        }
    }
    let why = "no answer to its hello: is UDP blocked on the path?";
    Err(io::Error::new(io::ErrorKind::TimedOut, why))
}
