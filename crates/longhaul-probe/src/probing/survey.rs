//! What the far end can say without trains: the route back, round trips back, TCP options.
//!
//! It probes one address only, that of the control connection's peer.

use crate::wire::{Answer, Ask, Options};
use longhaul_sys::host::interface;
use longhaul_sys::tcp_info;
use std::net::{IpAddr, TcpStream};
use std::sync::atomic::AtomicBool;

/// What the far end knows of the two addresses.
pub(crate) struct Surveyor {
    pub local: IpAddr,
    pub peer: IpAddr,
    pub device: Option<String>,
    /// The control connection.
    pub control: Option<TcpStream>,
}

impl Surveyor {
    /// Speed of the interface towards the peer, where the kernel says it.
    pub fn interface_bps(&self) -> Option<u64> {
        interface_bps(self.local, self.peer)
    }

    /// Does what is asked, if it is none of the trains.
    pub fn answer(&self, ask: Ask, _stop: &AtomicBool) -> Answer {
        match ask {
            Ask::Trace(_) | Ask::Echoes(_) => {
                Answer::Failed("the far end cannot do this yet".to_owned())
            }
            Ask::Options => Answer::Options(self.options()),
            Ask::Arm(_) | Ask::Collect(_) | Ask::Send(_) => {
                Answer::Failed("trains go another way".to_owned())
            }
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

/// Speed of the interface between two addresses, as far as the kernel knows it.
pub(super) fn interface_bps(local: IpAddr, peer: IpAddr) -> Option<u64> {
    let name = interface::between(local, peer)?;
    interface::speed(&name).map(|rate| rate.as_bps())
}
