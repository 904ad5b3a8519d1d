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
use std::time::Duration;

/// The pause after a failed accept, for example if there are no descriptors left.
const ACCEPT_RETRY_PAUSE: Duration = Duration::from_millis(200);

/// Binds the port of this host's loopback. Call it before the lab is set up.
pub(super) fn bind_port(port: u16) -> Result<TcpListener, LabError> {
    if port == 0 {
        return Err(LabError::new(LabErrorKind::Usage, "cannot publish port 0"));
    }
    TcpListener::bind((Ipv4Addr::LOCALHOST, port))
        .with_context(format!("cannot publish port {port} on 127.0.0.1"))
        .map_err(|error| error.hint("stop the program that listens there, or publish another port"))
}

/// Forwards connections to the same port in the namespace `net`.
pub(super) fn forward_connections(outside: TcpListener, net: OwnedFd) -> io::Result<()> {
    let port = outside.local_addr()?.port();
    let forward = move || {
        if let Err(error) = netns::enter_namespace(&net, NamespaceKind::Net) {
            eprintln!("caveat: cannot publish port {port}: {error}");
            return;
        }
        for connection in outside.incoming() {
            let Ok(connection) = connection else {
                std::thread::sleep(ACCEPT_RETRY_PAUSE);
                continue;
            };
            // If the port is not open yet, the client sees a closed connection and tries again.
            std::thread::spawn(move || relay_connection(&connection, port));
        }
    };
    std::thread::Builder::new().name("publish".to_owned()).spawn(forward).map(drop)
}

/// Forwards both directions between `outside` and a port of this namespace.
fn relay_connection(outside: &TcpStream, port: u16) -> io::Result<()> {
    let inside = &TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
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
