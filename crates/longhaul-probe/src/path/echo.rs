//! Round trips to one address, by ICMP echo, UDP or TCP.

mod moment;
mod series;

use longhaul_model::report::v1::path::RoundTrips;
use std::net::IpAddr;

/// A series of round trips.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EchoAsked {
    pub destination: IpAddr,
    pub source: Option<IpAddr>,
    pub device: Option<String>,
    /// Of UDP and TCP probes; absent: the usual one of the protocol.
    pub port: Option<u16>,
    pub round_trips: RoundTrips,
}
