//! Publishes a TCP port of host near outside the lab, for example the web page of an agent.
//!
//! The listener is in the namespace in which the lab was started; a thread in that of host near
//! makes the connections. This traffic does not use the emulated path. The threads end with the
//! process.

use crate::lab_error::{LabError, LabErrorContext, LabErrorKind};
use longhaul_sys::netns::{self, NamespaceKind};
use std::io;
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

/// The maximum number of concurrent connections; further ones are closed.
const MAX_CONNECTIONS: usize = 64;
/// The time after which an idle side is given up.
const IDLE_TIMEOUT: Duration = Duration::from_secs(600);
/// The pause after a failed accept, for example if there are no descriptors left.
const ACCEPT_RETRY_PAUSE: Duration = Duration::from_millis(200);

/// A bound port that is not served yet.
pub(super) struct PublishedPort {
    listener: TcpListener,
    port: u16,
}

impl PublishedPort {
    /// Binds the same port of this host's loopback. Call it before the lab is set up.
    pub(super) fn bind(port: u16) -> Result<PublishedPort, LabError> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))
            .with_context(format!("cannot publish port {port} on 127.0.0.1"))
            .map_err(|error| {
                error.hint("stop the program that listens there, or publish another port")
            })?;
        Ok(PublishedPort { listener, port })
    }

    /// Forwards connections to the same port in the namespace `net`.
    pub(super) fn serve(self, net: OwnedFd) -> Result<(), LabError> {
        std::thread::Builder::new()
            .name("publish".to_owned())
            .spawn(move || self.forward_connections(&net))
            .map(drop)
            .map_err(|error| {
                LabError::from_io("cannot start the thread of a published port", error)
            })
    }

    fn forward_connections(self, net: &OwnedFd) {
        if let Err(error) = netns::enter_namespace(net, NamespaceKind::Net) {
            eprintln!("caveat: cannot publish port {}: {error}", self.port);
            return;
        }
        let open = Arc::new(());
        for outside in self.listener.incoming() {
            let Ok(outside) = outside else {
                std::thread::sleep(ACCEPT_RETRY_PAUSE);
                continue;
            };
            let held = Arc::clone(&open);
            if Arc::strong_count(&open) <= MAX_CONNECTIONS + 1 {
                let port = self.port;
                std::thread::spawn(move || {
                    // If the port is not open yet, the client sees a closed connection and tries
                    // again.
                    let _ = relay_connection(&outside, port);
                    drop(held);
                });
            }
        }
    }
}

/// Forwards both directions between `outside` and a port of this namespace.
fn relay_connection(outside: &TcpStream, port: u16) -> io::Result<()> {
    let inside = &TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
    for side in [outside, inside] {
        side.set_read_timeout(Some(IDLE_TIMEOUT))?;
        side.set_write_timeout(Some(IDLE_TIMEOUT))?;
    }
    std::thread::scope(|scope| {
        scope.spawn(|| copy_until_end(outside, inside));
        copy_until_end(inside, outside);
    });
    Ok(())
}

/// Copies until one side ends, then shuts down the other side.
fn copy_until_end(mut from: &TcpStream, mut to: &TcpStream) {
    let _ = io::copy(&mut from, &mut to);
    let _ = to.shutdown(Shutdown::Write);
}

/// Checks and binds the requested ports.
pub(super) fn bind_ports(ports: &[u16]) -> Result<Vec<PublishedPort>, LabError> {
    if ports.contains(&0) {
        let tried = "cannot publish port 0";
        return Err(LabError::new(LabErrorKind::Usage, tried));
    }
    ports.iter().map(|port| PublishedPort::bind(*port)).collect()
}
