//! TCP round trips without privileges: each probe is a connection that is closed at once.
//!
//! If the port is open, the kernel has measured the handshake (TCP_INFO); if not, this program
//! times the reset. A probe whose SYN was retransmitted counts as lost.

use super::courier::Way;
use super::heard::Heard;
use longhaul_sys::tcp::Unconnected;
use longhaul_sys::{sockopt, tcp_info};
use std::io;
use std::net::SocketAddr;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::{Duration, Instant};

/// The maximum number of simultaneous connects; further probes are not sent.
const MOST_AT_ONCE: usize = 64;
/// Longest valid connect: a SYN is retransmitted after one second.
const MOST_WAIT: Duration = Duration::from_millis(990);

/// Connects in progress.
#[derive(Debug)]
pub(super) struct Connects {
    way: Way,
    to: SocketAddr,
    timeout: Duration,
    tell: Sender<Option<Heard>>,
    told: Receiver<Option<Heard>>,
    under_way: usize,
    heard: Vec<Heard>,
}

impl Connects {
    pub(super) fn new(way: Way, timeout: Duration) -> Connects {
        let (tell, told) = mpsc::channel();
        let port = way.port.unwrap_or(crate::DEFAULT_PORT);
        Connects {
            to: SocketAddr::new(way.destination, port),
            way,
            timeout: timeout.min(MOST_WAIT),
            tell,
            told,
            under_way: 0,
            heard: Vec::new(),
        }
    }

    /// Returns the size of a SYN with Linux's options.
    pub(super) fn packet_bytes(&self) -> u32 {
        if self.to.is_ipv4() { 60 } else { 80 }
    }

    pub(super) fn send(&mut self, number: u32) -> io::Result<()> {
        if self.under_way >= MOST_AT_ONCE {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let (way, to, timeout, tell) = (self.way.clone(), self.to, self.timeout, self.tell.clone());
        let connect = move || {
            // The receiver is gone if the series is over.
            let _ = tell.send(connect(&way, to, timeout, number));
        };
        thread::Builder::new()
            .name("connect".to_owned())
            .stack_size(128 << 10)
            .spawn(connect)?;
        self.under_way += 1;
        Ok(())
    }

    pub(super) fn wait(&mut self, time: Duration) {
        if let Ok(told) = self.told.recv_timeout(time) {
            self.take(told);
        }
    }

    pub(super) fn hear(&mut self) -> Vec<Heard> {
        while let Ok(told) = self.told.try_recv() {
            self.take(told);
        }
        std::mem::take(&mut self.heard)
    }

    fn take(&mut self, told: Option<Heard>) {
        self.under_way = self.under_way.saturating_sub(1);
        self.heard.extend(told);
    }
}

/// Measures one round trip; returns `None` on failure.
fn connect(way: &Way, to: SocketAddr, timeout: Duration, number: u32) -> Option<Heard> {
    let socket = Unconnected::new(to).ok()?;
    if let Some(device) = &way.device {
        sockopt::bind_device(&socket, device).ok()?;
    }
    if let Some(source) = way.source {
        socket.bind(source).ok()?;
    }
    let before = Instant::now();
    let connected = socket.connect(to, timeout);
    let took = before.elapsed();
    match connected {
        Ok(stream) => {
            let info = tcp_info::read(&stream).ok();
            // An abort spares the server the state of an empty connection.
            let _ = sockopt::set_abort_on_close(&stream);
            let known = info.filter(|info| info.rtt > Duration::ZERO && info.rtt <= took);
            if known.is_some_and(|info| info.retransmitted_segments > 0) {
                return None;
            }
            Some(Heard::Measured {
                number,
                rtt: known.map_or(took, |info| info.rtt),
                by_kernel: known.is_some(),
            })
        }
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => Some(Heard::Measured {
            number,
            rtt: took,
            by_kernel: false,
        }),
        Err(_) => None,
    }
}
