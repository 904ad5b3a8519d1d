//! Opens the data streams of a test one after the other: the server assigns numbers and directions
//! in order of arrival.

use super::super::iperf3_messages::{TestCookie, UdpGreeting};
use longhaul_model::report::v1::plan::{RunDirection, RunTransport, ThroughputPlan};
use longhaul_probe::engine::{self, DataSocket, EngineError, TransferRole};
use longhaul_probe::session_driver::SessionSockets;
use longhaul_probe::throughput::TargetHost;
use std::io::{self, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

/// The interval at which an unanswered hello is repeated. The server counts a duplicate as data, so
/// it is not much shorter.
const HELLO_INTERVAL: Duration = Duration::from_secs(1);
/// The buffer for the answer, which has 4 bytes; longer datagrams may already be data.
const ANSWER_ROOM_BYTES: usize = 64;

/// Opens every stream of the plan; those on which this end sends come first.
pub(super) fn open_streams(
    target: &TargetHost,
    plan: &ThroughputPlan,
    to: SocketAddr,
    cookie: TestCookie,
) -> Result<SessionSockets, EngineError> {
    let all = |role, wanted: bool| -> Result<Vec<DataSocket>, EngineError> {
        let count = if wanted { plan.streams } else { 0 };
        (0..count)
            .map(|index| match plan.transport {
                RunTransport::Tcp => connect_stream(target, plan, role, to, cookie, index),
                RunTransport::Udp { .. } => open_udp_stream(target, plan, to, index),
            })
            .collect()
    };
    Ok(SessionSockets {
        forward: all(TransferRole::Sender, plan.direction != RunDirection::Reverse)?,
        reverse: all(TransferRole::Receiver, plan.direction != RunDirection::Forward)?,
    })
}

fn connect_stream(
    target: &TargetHost,
    plan: &ThroughputPlan,
    role: TransferRole,
    to: SocketAddr,
    cookie: TestCookie,
    index: u32,
) -> Result<DataSocket, EngineError> {
    let socket = engine::open_tcp_socket(plan, role, to, &target.bind)?;
    let opened = || -> io::Result<TcpStream> {
        let mut stream = socket.connect(target.connect_timeout)?;
        stream.set_write_timeout(Some(target.connect_timeout))?;
        stream.write_all(&cookie.0)?;
        stream.set_write_timeout(None)?;
        Ok(stream)
    };
    let stream =
        opened().map_err(|e| EngineError::new(format!("open data stream {index} to {to}"), e))?;
    Ok(DataSocket::Tcp(stream))
}

fn open_udp_stream(
    target: &TargetHost,
    plan: &ThroughputPlan,
    to: SocketAddr,
    index: u32,
) -> Result<DataSocket, EngineError> {
    let socket = engine::open_udp_socket(plan, to, &target.bind)?;
    greet_server(&socket, target.connect_timeout)
        .map_err(|error| EngineError::new(format!("open UDP stream {index} to {to}"), error))?;
    Ok(DataSocket::Udp(socket))
}

fn greet_server(socket: &UdpSocket, within: Duration) -> io::Result<()> {
    let deadline = Instant::now() + within;
    let mut bytes = [0; ANSWER_ROOM_BYTES];
    while Instant::now() < deadline {
        // The next round repairs a full queue or an early "port unreachable".
        let _ = socket.send(&UdpGreeting::Text.hello());
        let again = deadline.min(Instant::now() + HELLO_INTERVAL);
        loop {
            let left = again.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            socket.set_read_timeout(Some(left.max(Duration::from_millis(1))))?;
            match socket.recv(&mut bytes) {
                Ok(count) if UdpGreeting::is_answer(&bytes[..count]) => {
                    return socket.set_read_timeout(None);
                }
                Ok(_) => {}
                Err(_) => std::thread::sleep(left.min(Duration::from_millis(20))),
            }
        }
    }
    let why = "no answer to its hello: UDP may be blocked on the path";
    Err(io::Error::new(io::ErrorKind::TimedOut, why))
}
