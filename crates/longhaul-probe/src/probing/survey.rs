//! Server-side answers that need no trains: reverse route, reverse round trips, TCP options.
//!
//! Probes only the address of the control connection's peer.

use crate::limits::TRACE_TIME;
use crate::path::trace::TraceAsked;
use crate::path::{self, EchoAsked, PathError};
use crate::wire::{Answer, Ask, Options, TraceBack};
use longhaul_model::report::v1::path::RoundTrips;
use longhaul_model::units::Rate;
use longhaul_sys::host::interface;
use longhaul_sys::tcp_info;
use std::net::{IpAddr, TcpStream};
use std::sync::atomic::AtomicBool;

/// The server's knowledge of both addresses.
pub(crate) struct Surveyor {
    pub local: IpAddr,
    pub peer: IpAddr,
    pub device: Option<String>,
    /// The control connection.
    pub control: Option<TcpStream>,
}

impl Surveyor {
    /// Returns the speed of the interface towards the peer, if the kernel reports it.
    pub fn interface_bps(&self) -> Option<u64> {
        interface_bps(self.local, self.peer)
    }

    /// Answers a request that does not concern trains or files.
    pub fn answer(&self, ask: Ask, stop: &AtomicBool) -> Answer {
        match ask {
            Ask::Trace(back) => self.trace(back, stop),
            Ask::Echoes(round_trips) => self.echoes(round_trips, stop),
            Ask::Options => Answer::Options(self.options()),
            Ask::Arm(_) | Ask::Collect(_) | Ask::Send(_) | Ask::Files(_) => {
                Answer::Failed("this goes another way".to_owned())
            }
        }
    }

    fn trace(&self, back: TraceBack, stop: &AtomicBool) -> Answer {
        let asked = TraceAsked {
            destination: self.peer,
            source: Some(self.local),
            device: self.device.clone(),
            protocol: back.protocol,
            port: back.port,
            trace: back.trace,
            most_time: TRACE_TIME,
        };
        match path::trace::trace(&asked, stop, &mut |_| {}) {
            Ok(route) => Answer::Route(Box::new(route)),
            Err(error) => failed(&error),
        }
    }

    fn echoes(&self, round_trips: RoundTrips, stop: &AtomicBool) -> Answer {
        let asked = EchoAsked {
            destination: self.peer,
            source: Some(self.local),
            device: self.device.clone(),
            port: None,
            round_trips,
        };
        match path::echoes(&asked, stop, &mut |_| {}) {
            Ok(echoes) => Answer::Echoes(echoes),
            Err(error) => failed(&error),
        }
    }

    fn options(&self) -> Options {
        let info = self
            .control
            .as_ref()
            .and_then(|control| tcp_info::read(control).ok());
        Options {
            in_force: info.as_ref().map(crate::engine::options),
            mss_bytes: info.as_ref().map(|info| info.send_mss_bytes),
            offered: crate::path::offered(true),
        }
    }
}

/// Formats the error with its causes; hints would apply to the server's host.
fn failed(error: &PathError) -> Answer {
    let mut why = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        why = format!("{why}: {cause}");
        source = cause.source();
    }
    Answer::Failed(why)
}

/// Returns the speed of the interface between two addresses, if the kernel reports it.
pub(super) fn interface_bps(local: IpAddr, peer: IpAddr) -> Option<u64> {
    let name = interface::between(local, peer)?;
    interface::speed(&name).map(Rate::as_bps)
}
