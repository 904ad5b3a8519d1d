//! TCP round trips without privileges: each probe is a connection that is closed at once.
//!
//! If the port is open, the kernel has measured the handshake (TCP_INFO); if not, this program
//! times the reset. A probe whose SYN was retransmitted counts as lost.

use super::EchoTransport;
use super::echo_socket::EchoEvent;
use crate::path::{ProbeTarget, tcp_options};
use longhaul_sys::sockopt;
use longhaul_sys::tcp_info::{TcpInfo, read_tcp_info};
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

    fn record_result(&mut self, told: Option<EchoEvent>) {
        self.in_progress = self.in_progress.saturating_sub(1);
        self.events.extend(told);
    }
}

impl EchoTransport for ConnectProber {
    /// Returns the size of a SYN with Linux's options: the kernel builds it.
    fn packet_bytes(&self, _asked: u32) -> u32 {
        if self.to.is_ipv4() { 60 } else { 80 }
    }

    fn send(&mut self, number: u32, _packet_bytes: u32) -> io::Result<()> {
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

    fn wait(&mut self, time: Duration) -> io::Result<()> {
        if let Ok(told) = self.results.recv_timeout(time) {
            self.record_result(told);
        }
        Ok(())
    }

    fn receive(&mut self) -> io::Result<Vec<EchoEvent>> {
        while let Ok(told) = self.results.try_recv() {
            self.record_result(told);
        }
        Ok(std::mem::take(&mut self.events))
    }
}

/// Measures one round trip; returns `None` on failure.
fn connect_once(
    target: &ProbeTarget,
    to: SocketAddr,
    timeout: Duration,
    number: u32,
) -> Option<EchoEvent> {
    let socket = tcp_options::open_tcp(to, target.source, target.device.as_deref()).ok()?;
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
