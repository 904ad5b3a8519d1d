//! TCP round trips without privileges: each probe is a connection that is closed at once.
//!
//! If the port is open, the kernel has measured the handshake (TCP_INFO); if not, this program
//! times the reset. A probe whose SYN was retransmitted counts as lost.

use super::echo_socket::EchoEvent;
use crate::path::ProbeTarget;
use longhaul_sys::sockopt;
use longhaul_sys::tcp_info::{TcpInfo, read_tcp_info};
use longhaul_sys::tcp_transfer::UnconnectedTcp;
use std::io;
use std::net::SocketAddr;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::{Duration, Instant};

/// The maximum number of simultaneous connects; further probes are not sent.
const MAX_CONCURRENT: usize = 64;
/// Longest valid connect: a SYN is retransmitted after one second.
const MAX_CONNECT_TIME: Duration = Duration::from_millis(990);

/// Connects in progress.
#[derive(Debug)]
pub(super) struct ConnectProber {
    target: ProbeTarget,
    to: SocketAddr,
    timeout: Duration,
    result_sender: Sender<Option<EchoEvent>>,
    results: Receiver<Option<EchoEvent>>,
    in_progress: usize,
    events: Vec<EchoEvent>,
}

impl ConnectProber {
    pub(super) fn new(target: ProbeTarget, timeout: Duration) -> ConnectProber {
        let (tell, told) = mpsc::channel();
        ConnectProber {
            to: SocketAddr::new(target.destination, target.destination_port()),
            target,
            timeout: timeout.min(MAX_CONNECT_TIME),
            result_sender: tell,
            results: told,
            in_progress: 0,
            events: Vec::new(),
        }
    }

    /// Returns the size of a SYN with Linux's options.
    pub(super) fn packet_bytes(&self) -> u32 {
        if self.to.is_ipv4() { 60 } else { 80 }
    }

    pub(super) fn send(&mut self, number: u32) -> io::Result<()> {
        if self.in_progress >= MAX_CONCURRENT {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let (target, to, timeout, tell) =
            (self.target.clone(), self.to, self.timeout, self.result_sender.clone());
        let connect = move || {
            // The receiver is gone if the series is over.
            let _ = tell.send(connect_once(&target, to, timeout, number));
        };
        thread::Builder::new().name("connect".to_owned()).stack_size(128 << 10).spawn(connect)?;
        self.in_progress += 1;
        Ok(())
    }

    pub(super) fn wait(&mut self, time: Duration) {
        if let Ok(told) = self.results.recv_timeout(time) {
            self.record_result(told);
        }
    }

    pub(super) fn receive(&mut self) -> Vec<EchoEvent> {
        while let Ok(told) = self.results.try_recv() {
            self.record_result(told);
        }
        std::mem::take(&mut self.events)
    }

    fn record_result(&mut self, told: Option<EchoEvent>) {
        self.in_progress = self.in_progress.saturating_sub(1);
        self.events.extend(told);
    }
}

/// Measures one round trip; returns `None` on failure.
fn connect_once(
    target: &ProbeTarget,
    to: SocketAddr,
    timeout: Duration,
    number: u32,
) -> Option<EchoEvent> {
    let socket = UnconnectedTcp::new(to).ok()?;
    if let Some(device) = &target.device {
        sockopt::bind_device(&socket, device).ok()?;
    }
    if let Some(source) = target.source {
        socket.bind(source).ok()?;
    }
    let before = Instant::now();
    let connected = socket.connect(timeout);
    let took = before.elapsed();
    match connected {
        Ok(stream) => {
            let info = read_tcp_info(&stream).ok();
            // An abort spares the server the state of an empty connection.
            let _ = sockopt::set_abort_on_close(&stream);
            let known = info.filter(|info| info.rtt() > Duration::ZERO && info.rtt() <= took);
            if known.as_ref().is_some_and(|info| info.reading.retransmitted_segments > 0) {
                return None;
            }
            Some(EchoEvent::Measured {
                number,
                rtt: known.as_ref().map_or(took, TcpInfo::rtt),
                by_kernel: known.is_some(),
            })
        }
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            Some(EchoEvent::Measured { number, rtt: took, by_kernel: false })
        }
        Err(_) => None,
    }
}
