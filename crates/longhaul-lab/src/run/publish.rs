//! A TCP port of host near, reachable from outside of the lab: for a page that an agent in there
//! serves.
//!
//! The listener is of the namespace that the lab was started in; connections are made by a thread
//! that stands in that of host near. What passes does not touch the emulated path. The threads end
//! with the process.

use crate::error::{LabError, LabErrorKind, Tried};
use longhaul_sys::netns::{self, Kind};
use std::io;
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// Connections at one time; further ones are hung up on.
const AT_ONCE: usize = 64;
/// A side that neither sends nor takes anything for so long is given up.
const SILENCE: Duration = Duration::from_secs(600);
/// After an accept that failed, such as for want of descriptors.
const PAUSE: Duration = Duration::from_millis(200);

/// A port that is bound, and not yet served.
pub(super) struct Published {
    listener: TcpListener,
    port: u16,
}

impl Published {
    /// Binds the same port of this host's loopback. To be called before the lab is laid.
    pub(super) fn bind(port: u16) -> Result<Published, LabError> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))
            .tried(|| format!("cannot publish port {port} on 127.0.0.1"))
            .map_err(|error| error.hint("end what listens there, or publish another port"))?;
        Ok(Published { listener, port })
    }

    /// Passes connections on to the same port of the namespace `net`.
    pub(super) fn serve(self, net: OwnedFd) -> Result<(), LabError> {
        std::thread::Builder::new()
            .name("publish".to_owned())
            .spawn(move || self.pass_on(&net))
            .map(drop)
            .map_err(|error| LabError::call("cannot start the thread of a published port", error))
    }

    fn pass_on(self, net: &OwnedFd) {
        if let Err(error) = netns::enter(net, Kind::Net) {
            eprintln!("caveat: port {} is not published: {error}", self.port);
            return;
        }
        let open = Arc::new(AtomicUsize::new(0));
        for outside in self.listener.incoming() {
            let Ok(outside) = outside else {
                std::thread::sleep(PAUSE);
                continue;
            };
            if open.load(Ordering::Relaxed) >= AT_ONCE {
                continue;
            }
            // Nobody listens in there yet: the client sees a connection that ends, and tries again.
            let Ok(inside) = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)) else {
                continue;
            };
            let _ = join(outside, inside, &open);
        }
    }
}

/// Two threads, one for each direction.
fn join(outside: TcpStream, inside: TcpStream, open: &Arc<AtomicUsize>) -> io::Result<()> {
    for side in [&outside, &inside] {
        side.set_read_timeout(Some(SILENCE))?;
        side.set_write_timeout(Some(SILENCE))?;
    }
    let (from, to) = (outside.try_clone()?, inside.try_clone()?);
    std::thread::spawn(move || copy(from, to));
    open.fetch_add(1, Ordering::Relaxed);
    let open = Arc::clone(open);
    std::thread::spawn(move || {
        copy(inside, outside);
        open.fetch_sub(1, Ordering::Relaxed);
    });
    Ok(())
}

/// Until one side ends; then the other one is told.
fn copy(mut from: TcpStream, mut to: TcpStream) {
    let _ = io::copy(&mut from, &mut to);
    let _ = to.shutdown(Shutdown::Write);
}

/// What is asked, checked.
pub(super) fn bind_all(ports: &[u16]) -> Result<Vec<Published>, LabError> {
    if ports.contains(&0) {
        let tried = "port 0 cannot be published";
        return Err(LabError::new(LabErrorKind::Usage, tried));
    }
    ports.iter().map(|port| Published::bind(*port)).collect()
}
