//! The control connection: TLS over a blocking TCP socket, with a deadline for every call.
//!
//! The socket's timeouts limit each read and write, so that one thread can keep the session's
//! deadlines even if a peer neither reads nor writes.

use super::{ExporterKey, SERVER_NAME, TlsIdentity};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, Connection, ServerConnection};
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The maximum time that a write may block before reading continues.
const WRITE_TIMEOUT: Duration = Duration::from_millis(50);
/// The minimum read timeout: zero would mean no timeout.
const MIN_WAIT: Duration = Duration::from_millis(1);
/// The maximum plaintext to take from the connection at once.
const READ_BYTES: usize = 16 << 10;
const EXPORTER_LABEL: &[u8] = b"EXPORTER-longhaul-control";

/// The error of a control connection.
#[derive(Debug, thiserror::Error)]
pub enum ChannelError {
    #[error("TLS: {0}")]
    Tls(#[from] rustls::Error),
    #[error(transparent)]
    Socket(#[from] io::Error),
    #[error("the handshake timed out")]
    TimedOut,
    #[error("the connection was closed during the handshake")]
    Closed,
    /// The first byte is not TLS, but what an iperf3 server sends to a new client.
    #[error("an iperf3 server answered instead of TLS")]
    Iperf3,
}

/// One end of the control connection after the handshake.
#[derive(Debug)]
pub struct ControlChannel {
    socket: Arc<TcpStream>,
    tls: Connection,
    exporter: ExporterKey,
    incoming: Box<[u8; READ_BYTES]>,
}

/// The role and configuration of a handshake.
#[derive(Debug)]
pub enum TlsHandshake<'a> {
    Client(Arc<ClientConfig>),
    Server(&'a TlsIdentity),
}

/// The result of [`ControlChannel::poll`].
#[derive(Debug)]
pub enum ChannelEvent<'a> {
    Nothing,
    Bytes(&'a [u8]),
    /// The peer ended the connection, cleanly or not, with the reason.
    Cut(String),
}

impl ControlChannel {
    /// Performs the handshake until `deadline`.
    pub fn open(
        socket: impl Into<Arc<TcpStream>>,
        handshake: TlsHandshake<'_>,
        deadline: Instant,
    ) -> Result<ControlChannel, ChannelError> {
        let socket = socket.into();
        let mut tls = match handshake {
            TlsHandshake::Client(config) => {
                let name = ServerName::try_from(SERVER_NAME)
                    .map_err(|error| rustls::Error::General(error.to_string()))?;
                Connection::from(ClientConnection::new(config, name)?)
            }
            TlsHandshake::Server(identity) => {
                Connection::from(ServerConnection::new(identity.0.clone())?)
            }
        };
        run_handshake(&socket, &mut tls, deadline)?;
        // This end's own messages limit what is waiting to be sent.
        tls.set_buffer_limit(None);
        let exporter = tls.export_keying_material([0; 32], EXPORTER_LABEL, None)?;
        Ok(ControlChannel { socket, tls, exporter, incoming: Box::new([0; READ_BYTES]) })
    }

    pub fn exporter(&self) -> &ExporterKey {
        &self.exporter
    }

    /// Queues bytes; [`ControlChannel::poll`] sends them.
    pub fn queue(&mut self, bytes: &[u8]) {
        // Cannot fail: the buffer has no limit.
        let _ = self.tls.writer().write_all(bytes);
    }

    /// Sends queued bytes and waits for input until `until`.
    pub fn poll(&mut self, until: Instant) -> ChannelEvent<'_> {
        if let Err(error) = self.send() {
            return ChannelEvent::Cut(error.to_string());
        }
        let heard = match self.read_plaintext() {
            Ok(0) => match self.receive(until) {
                Ok(true) => self.read_plaintext(),
                Ok(false) => Ok(0),
                Err(why) => Err(why),
            },
            known => known,
        };
        match heard {
            Ok(0) => ChannelEvent::Nothing,
            Ok(count) => ChannelEvent::Bytes(&self.incoming[..count]),
            Err(why) => ChannelEvent::Cut(why),
        }
    }

    /// Sends as much as possible until `deadline`, and closes the TLS session.
    pub fn close(mut self, deadline: Instant) {
        self.tls.send_close_notify();
        while self.send().is_ok() && self.tls.wants_write() && Instant::now() < deadline {}
    }

    fn send(&mut self) -> io::Result<()> {
        self.socket.set_write_timeout(Some(WRITE_TIMEOUT))?;
        while self.tls.wants_write() {
            match self.tls.write_tls(&mut &*self.socket) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(_) => {}
                Err(error) if is_timeout(&error) => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Moves available plaintext into `incoming`.
    fn read_plaintext(&mut self) -> Result<usize, String> {
        match self.tls.reader().read(self.incoming.as_mut_slice()) {
            Ok(0) => Err("the peer closed the connection".to_owned()),
            Ok(count) => Ok(count),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(0),
            Err(error) => Err(error.to_string()),
        }
    }

    /// Reads from the socket once; false if nothing arrived.
    fn receive(&mut self, until: Instant) -> Result<bool, String> {
        let mut wait = until.saturating_duration_since(Instant::now());
        if self.tls.wants_write() {
            // There is more to send: reading only checks for input.
            wait = MIN_WAIT;
        }
        read_once(&self.socket, &mut self.tls, wait).map_err(|error| match error {
            ChannelError::Closed => "the peer closed the connection".to_owned(),
            other => other.to_string(),
        })
    }
}

fn read_once(
    mut socket: &TcpStream,
    tls: &mut Connection,
    wait: Duration,
) -> Result<bool, ChannelError> {
    socket.set_read_timeout(Some(wait.max(MIN_WAIT)))?;
    match tls.read_tls(&mut socket) {
        Ok(0) => return Err(ChannelError::Closed),
        Ok(_) => {}
        Err(error) if is_timeout(&error) => return Ok(false),
        Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(false),
        Err(error) => return Err(error.into()),
    }
    if let Err(error) = tls.process_new_packets() {
        // The alert tells the peer the reason; it may be lost.
        let _ = tls.write_tls(&mut socket);
        return Err(error.into());
    }
    Ok(true)
}

/// The first byte of an iperf3 server: it waits for parameters, or is busy.
const IPERF3_FIRST: [u8; 2] = [9, 0xff];

/// Waits up to `wait` for the peer's first byte, and leaves it in the socket.
fn check_first_byte(socket: &TcpStream, wait: Duration) -> Result<(), ChannelError> {
    socket.set_read_timeout(Some(wait.max(MIN_WAIT)))?;
    let mut first = [0];
    match socket.peek(&mut first) {
        Ok(1) if IPERF3_FIRST.contains(&first[0]) => Err(ChannelError::Iperf3),
        Err(error) if is_timeout(&error) => Err(ChannelError::TimedOut),
        // The following read reports any other error.
        _ => Ok(()),
    }
}

fn run_handshake(
    mut socket: &TcpStream,
    tls: &mut Connection,
    deadline: Instant,
) -> Result<(), ChannelError> {
    let mut checked = false;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(ChannelError::TimedOut);
        }
        if tls.wants_write() {
            socket.set_write_timeout(Some(left))?;
            match tls.write_tls(&mut socket) {
                Ok(_) => {}
                Err(error) if is_timeout(&error) => return Err(ChannelError::TimedOut),
                Err(error) => return Err(error.into()),
            }
        } else if tls.is_handshaking() {
            if !checked {
                check_first_byte(socket, left)?;
                checked = true;
            }
            read_once(socket, tls, left)?;
        } else {
            return Ok(());
        }
    }
}

/// Socket timeouts are reported as either of these kinds.
fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}
