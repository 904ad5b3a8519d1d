//! Parses messages by the kind of the socket that received them.

use super::ProbeReply;
use longhaul_sys::probe_socket::{ErrorQueueEntry, ProbeArrival};
use std::net::IpAddr;

/// Kind of the socket that received a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::path) enum ReplySource {
    /// Sends whole IP packets and receives nothing.
    RawPackets,
    Ping,
    RawIcmp,
    /// A UDP socket, with its error queue.
    Udp,
    RawTcp,
}

impl ReplySource {
    /// Returns whether the kernel delivers only our own messages to this socket.
    pub(in crate::path) fn receives_only_own(self) -> bool {
        matches!(self, ReplySource::Ping | ReplySource::Udp)
    }

    /// Parses a message or a queued ICMP error.
    pub(in crate::path) fn parse_reply(
        self,
        arrival: &ProbeArrival,
        bytes: &[u8],
    ) -> Option<ProbeReply> {
        match arrival.queued {
            Some(ErrorQueueEntry::Icmp(error)) => {
                let echo = self == ReplySource::Ping;
                return super::parse_queued_error(&error, arrival.ttl, bytes, echo);
            }
            Some(_) => return None,
            None => {}
        }
        let from = arrival.from?.ip();
        match (self, from) {
            (ReplySource::RawIcmp, IpAddr::V4(_)) => super::parse_icmp_v4(bytes),
            (ReplySource::Ping | ReplySource::RawIcmp, _) => {
                super::parse_icmp(bytes, from, arrival.ttl)
            }
            (ReplySource::RawTcp, IpAddr::V4(_)) => super::parse_tcp_v4(bytes),
            (ReplySource::RawTcp, IpAddr::V6(_)) => super::parse_tcp(bytes, from, arrival.ttl),
            (ReplySource::Udp, _) => super::parse_echoed_datagram(bytes, from, arrival.ttl),
            (ReplySource::RawPackets, _) => None,
        }
    }
}
