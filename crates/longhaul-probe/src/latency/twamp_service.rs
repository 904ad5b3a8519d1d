//! A TWAMP server on its TCP port: a thread for each control connection. Its sessions are answered by
//! a [`SessionReflector`].
//!
//! Connections are shared by source, as those of the measurement server are: if there are too many, a
//! source gives way to one that has fewer.

use super::control_cipher::TwampKey;
use super::control_server::{ControlServerOptions, TwampControlServer, refuse_connection};
use super::control_session::read_message;
use super::read_wall_clock;
use super::session_reflector::{SessionReflector, wait_any};
use super::session_table::SharedTwampSessions;
use super::source_rates::SourceRates;
use crate::engine::is_socket_timeout;
use crate::measurement_server::{SourcePrefix, SourceShares};
use crate::probe_error::ServeError;
use crate::session::{GREETING_TIMEOUT, STEP_TIMEOUT};
use longhaul_sys::listening_socket::{ListenSocketConfig, listen_tcp, prepare_control_socket};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::io::{ErrorKind, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, Scope};
use std::time::{Duration, Instant};

/// The maximum number of control connections, and of those of one source.
const MAX_CONNECTIONS: usize = 64;
const MAX_SOURCE_CONNECTIONS: usize = 8;
/// The maximum rate of new connections, of one source and of all: each costs an iteration of PBKDF2.
const SOURCE_CONNECTIONS_PER_SECOND: f64 = 10.0;
const TOTAL_CONNECTIONS_PER_SECOND: f64 = 100.0;
/// The maximum number of connections that are accepted before others are looked at.
const MAX_ACCEPTED_AT_ONCE: usize = 8;
/// The pause after an error of `accept`: usually descriptors have run out, and some will be closed.
const ERROR_PAUSE: Duration = Duration::from_millis(50);
/// The time for which a client without running sessions may be silent (SERVWAIT of RFC 5357, section 3.1).
const COMMAND_TIMEOUT: Duration = Duration::from_secs(60);
/// The time without a packet after which running sessions end (REFWAIT of RFC 5357, section 4.2).
const PACKET_TIMEOUT: Duration = Duration::from_secs(900);

/// The options of a TWAMP server.
#[derive(Debug, Clone)]
pub struct TwampServiceOptions {
    /// TCP port.
    pub port: u16,
    /// Listen on this interface only.
    pub device: Option<String>,
    /// The keys of the clients that are served; empty: all clients, without authentication.
    pub keys: Vec<TwampKey>,
}

/// A TWAMP server that is listening.
#[derive(Debug)]
pub struct TwampService {
    listeners: Vec<TcpListener>,
    options: Arc<ControlServerOptions>,
    sessions: SharedTwampSessions,
    epoch: Instant,
    connections: Mutex<ConnectionShares>,
}

/// The connections by source.
#[derive(Debug, Default)]
struct ConnectionShares {
    next: u64,
    shares: SourceShares,
    streams: HashMap<u64, Arc<TcpStream>>,
}

impl ConnectionShares {
    /// Adds a connection, and returns its number; `None` if its source has enough.
    fn add(&mut self, source: SourcePrefix, stream: &Arc<TcpStream>) -> Option<u64> {
        if self.shares.count_of_host(source) >= MAX_SOURCE_CONNECTIONS {
            return None;
        }
        if self.shares.total() >= MAX_CONNECTIONS {
            let oldest = self.shares.oldest_above_share_of(source)?;
            // Its thread removes it soon.
            let _ = self.streams.get(&oldest)?.shutdown(Shutdown::Both);
            if self.shares.total() >= MAX_CONNECTIONS + MAX_SOURCE_CONNECTIONS {
                return None;
            }
        }
        self.next += 1;
        self.shares.insert(source, self.next);
        self.streams.insert(self.next, Arc::clone(stream));
        Some(self.next)
    }

    fn remove(&mut self, source: SourcePrefix, number: u64) {
        self.shares.remove(source, number);
        self.streams.remove(&number);
    }
}

impl TwampService {
    /// Opens a listener on each address of the reflector.
    ///
    /// # Errors
    /// The port is in use, or needs a privilege.
    pub fn bind(
        options: TwampServiceOptions,
        reflector: &SessionReflector,
    ) -> Result<TwampService, ServeError> {
        let mut listeners: Vec<TcpListener> = Vec::new();
        let mut port = options.port;
        let reflected = reflector.addresses();
        for address in &reflected {
            let address = SocketAddr::new(address.ip(), port);
            let device = options.device.as_deref();
            let place = ListenSocketConfig { address, both_families: false, device };
            let failed = |source| ServeError::Listen { protocol: "TCP", address, source };
            let listener = listen_tcp(&place).map_err(failed)?;
            port = listener.local_addr().map_err(failed)?.port();
            listeners.push(listener);
        }
        let (sessions, epoch) = reflector.twamp_sessions();
        let options = ControlServerOptions {
            keys: options.keys,
            reflector_port: reflected.first().map_or(0, SocketAddr::port),
            started_ns: read_wall_clock(),
        };
        Ok(TwampService {
            listeners,
            options: Arc::new(options),
            sessions,
            epoch,
            connections: Mutex::default(),
        })
    }

    /// Returns the listening addresses.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.listeners.iter().filter_map(|listener| listener.local_addr().ok()).collect()
    }

    /// Serves clients until `stop` is set, and returns within a second of it.
    pub fn run(self, stop: &AtomicBool) {
        let mut rates =
            SourceRates::new(SOURCE_CONNECTIONS_PER_SECOND, TOTAL_CONNECTIONS_PER_SECOND);
        thread::scope(|scope| {
            while !stop.load(Ordering::Relaxed) {
                wait_any(&self.listeners);
                for listener in &self.listeners {
                    for _ in 0..MAX_ACCEPTED_AT_ONCE {
                        match listener.accept() {
                            Ok((stream, client)) => {
                                if rates.take(client.ip(), self.epoch.elapsed()) {
                                    self.admit(scope, stream, client);
                                }
                            }
                            Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                            Err(_) => thread::sleep(ERROR_PAUSE),
                        }
                    }
                }
            }
            for stream in self.connections.lock().streams.values() {
                // An error only means that it has ended.
                let _ = stream.shutdown(Shutdown::Both);
            }
        });
    }

    /// Starts the thread of a connection, or refuses it.
    fn admit<'scope>(
        &'scope self,
        scope: &'scope Scope<'scope, '_>,
        stream: TcpStream,
        client: SocketAddr,
    ) {
        let stream = Arc::new(stream);
        let source = SourcePrefix::from(client.ip());
        let Some(number) = self.connections.lock().add(source, &stream) else {
            // An error only means that it has ended.
            let _ = (&*stream).write_all(&refuse_connection());
            return;
        };
        scope.spawn(move || {
            // An error ends the connection, and its sessions.
            let _ = self.serve_connection(&stream, client, number);
            self.sessions.lock().close(number);
            self.connections.lock().remove(source, number);
        });
    }

    fn serve_connection(
        &self,
        mut stream: &TcpStream,
        client: SocketAddr,
        number: u64,
    ) -> Option<()> {
        stream.set_nonblocking(false).ok()?;
        stream.set_write_timeout(Some(STEP_TIMEOUT)).ok()?;
        prepare_control_socket(stream).ok()?;
        let own = stream.local_addr().ok()?;
        let options = Arc::clone(&self.options);
        let mut server = TwampControlServer::new(options, number, client, own)?;
        stream.write_all(&server.greeting()).ok()?;
        let mut timeout = GREETING_TIMEOUT;
        while let Some(bytes) = server.expected_bytes() {
            if server.is_idle() {
                self.wait_for_command(stream, &server, number)?;
            }
            let deadline = Instant::now() + timeout;
            timeout = STEP_TIMEOUT;
            let message = read_message(stream, bytes, deadline).ok()?;
            let now = self.epoch.elapsed();
            let answer = server.answer_message(&message, &self.sessions, now);
            stream.write_all(&answer).ok()?;
        }
        Some(())
    }

    /// Waits until a command begins; `None` if the connection ends, or has been silent for too long.
    fn wait_for_command(
        &self,
        stream: &TcpStream,
        server: &TwampControlServer,
        number: u64,
    ) -> Option<()> {
        let begin = self.epoch.elapsed();
        loop {
            let until = if server.is_running() {
                self.sessions.lock().last_packet(number)? + PACKET_TIMEOUT
            } else {
                begin + COMMAND_TIMEOUT
            };
            let left = until.checked_sub(self.epoch.elapsed()).filter(|left| !left.is_zero())?;
            stream.set_read_timeout(Some(left)).ok()?;
            match stream.peek(&mut [0]) {
                Ok(0) => return None,
                Ok(_) => return Some(()),
                // The time of the last packet decides.
                Err(error) if is_socket_timeout(&error) => {}
                Err(_) => return None,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::IpAddr;

    #[test]
    fn a_source_gives_way_to_one_with_fewer_connections() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let stream = TcpStream::connect(listener.local_addr().expect("bound")).expect("connected");
        let stream = Arc::new(stream);
        let source = |network: u8| SourcePrefix::from(IpAddr::from([192, 0, network, 1]));
        let mut shares = ConnectionShares::default();
        let mut add = |network| shares.add(source(network), &stream);
        for number in 0..MAX_CONNECTIONS as u64 {
            let network = number / MAX_SOURCE_CONNECTIONS as u64;
            assert_eq!(add(network as u8), Some(number + 1));
        }
        assert_eq!(add(0), None, "its source has eight");
        assert!((&*stream).write(&[0]).is_ok());
        // The oldest of a source with eight is shut down, and soon removed.
        assert_eq!(add(100), Some(65));
        assert!((&*stream).write(&[0]).is_err());
        // Until then there are a few more, but not many.
        let more = (101..200).filter(|network| add(*network).is_some()).count();
        assert_eq!(more, MAX_SOURCE_CONNECTIONS - 1);
        shares.remove(source(0), 1);
        assert!(shares.add(source(200), &stream).is_some());
    }
}
