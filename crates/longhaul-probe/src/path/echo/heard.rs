//! Classifies messages of a probing socket: answer, error, transmit timestamp, or noise.

use crate::path::packet::{Flow, KEYS};
use crate::path::reply::{self, About, FromQueue, Kind, Reply, Transport, matching};
use longhaul_sys::probe_socket::{Arrival, Queued};
use std::net::IpAddr;
use std::time::Duration;

/// A classified message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::path) enum Heard {
    /// The destination answered the packet of this number.
    Answer {
        number: u32,
        /// Kernel timestamp (wall clock).
        stamp: Option<Duration>,
        ttl: Option<u8>,
    },
    /// The destination answered, and the whole round trip was already measured.
    Measured {
        number: u32,
        rtt: Duration,
        /// Measured by the kernel, not by this program.
        by_kernel: bool,
    },
    /// Transmit timestamp (wall clock) of the packet.
    Left { number: u32, stamp: Duration },
    /// A router reports that the packet is too big.
    Refused {
        number: u32,
        by: IpAddr,
        mtu_bytes: Option<u32>,
    },
    /// A router or host reports that the packet is undeliverable.
    Denied { by: IpAddr, word: &'static str },
    /// Claims to belong to our packets, but matches none.
    Stray,
}

/// Kind of the socket that received a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sorter {
    Ping,
    AllIcmp,
    Udp,
    Tcp,
}

impl Sorter {
    /// Classifies a message; returns `None` if it belongs to other programs' packets. `left` holds
    /// the numbers of all packets sent, in sending order.
    pub(super) fn sort(
        self,
        flows: &[Flow],
        left: &[u32],
        arrival: &Arrival,
        bytes: &[u8],
    ) -> Option<Heard> {
        match arrival.queued {
            Some(Queued::Sent { number }) => {
                let (&number, stamp) = (left.get(number as usize)?, arrival.at?);
                return Some(Heard::Left { number, stamp });
            }
            Some(Queued::Local { .. } | Queued::Other) => return None,
            Some(Queued::Icmp(_)) | None => {}
        }
        let Some(reply) = self.read(flows, arrival, bytes) else {
            return self.only_ours().then_some(Heard::Stray);
        };
        let found = flows.iter().find_map(|flow| {
            let key = matching::key(flow, &reply)?;
            Some((number_of(key, *left.last()?)?, flow))
        });
        match found {
            Some((number, flow)) => Some(judge(&reply, number, flow, arrival.at)),
            None => (self.only_ours() || flows.iter().any(|flow| pretends(flow, &reply)))
                .then_some(Heard::Stray),
        }
    }

    /// Returns whether the kernel delivers only our own messages to this socket.
    fn only_ours(self) -> bool {
        matches!(self, Sorter::Ping | Sorter::Udp)
    }

    fn read(self, flows: &[Flow], arrival: &Arrival, bytes: &[u8]) -> Option<Reply> {
        if let Some(Queued::Icmp(trouble)) = arrival.queued {
            return reply::queued(&FromQueue {
                from: trouble.reported_by?,
                ttl: arrival.ttl,
                kind: trouble.kind,
                code: trouble.code,
                info: trouble.info,
                quoted: bytes,
                echo: self == Sorter::Ping,
                extensions_at: trouble.extensions_at,
            });
        }
        let from = arrival.from?.ip();
        match (self, from) {
            (Sorter::AllIcmp, IpAddr::V4(_)) => reply::icmp_v4(bytes),
            (Sorter::Ping | Sorter::AllIcmp, _) => reply::icmp(bytes, from, arrival.ttl),
            (Sorter::Tcp, IpAddr::V4(_)) => reply::tcp_v4(bytes),
            (Sorter::Tcp, IpAddr::V6(_)) => reply::tcp(bytes, from, arrival.ttl),
            (Sorter::Udp, _) => flows
                .first()
                .and_then(|flow| repeated(flow, arrival, bytes)),
        }
    }
}

/// Parses a datagram in which the destination repeats ours, as an echo service does.
fn repeated(flow: &Flow, arrival: &Arrival, bytes: &[u8]) -> Option<Reply> {
    let mark: [u8; 2] = bytes.get(6..8)?.try_into().ok()?;
    let key = u16::from_be_bytes(mark);
    let ours = flow.udp_payload(key);
    let same = bytes.get(2..8) == ours.get(2..8);
    same.then(|| Reply {
        from: flow.destination,
        ttl: arrival.ttl,
        kind: Kind::EchoReply,
        about: About::Quote(reply::Quote {
            ip: None,
            transport: Transport::Hidden,
            mark: Some(reply::Mark { tag: flow.tag, key }),
        }),
        mpls: Vec::new(),
    })
}

fn judge(reply: &Reply, number: u32, flow: &Flow, stamp: Option<Duration>) -> Heard {
    let (by, ttl) = (reply.from, reply.ttl);
    let of_far_end = by == flow.destination;
    match reply.kind {
        Kind::EchoReply | Kind::SynAck | Kind::Reset => Heard::Answer { number, stamp, ttl },
        Kind::PortUnreachable | Kind::ProtocolUnreachable if of_far_end => {
            Heard::Answer { number, stamp, ttl }
        }
        Kind::TooBig { mtu_bytes } => Heard::Refused {
            number,
            by,
            mtu_bytes: Some(mtu_bytes),
        },
        kind => Heard::Denied {
            by,
            word: kind.word(),
        },
    }
}

/// Returns whether the reply names our identifier or port, so that only a tag can distinguish it.
fn pretends(flow: &Flow, reply: &Reply) -> bool {
    match &reply.about {
        About::Echo { identifier, .. } => *identifier == flow.near,
        About::Segment {
            source_port,
            destination_port,
            ..
        } => (*source_port, *destination_port) == (flow.far, flow.near),
        About::Quote(quote) => match quote.transport {
            Transport::Icmp { identifier, .. } => identifier == flow.near,
            Transport::Udp { source_port, .. } | Transport::Tcp { source_port, .. } => {
                source_port == flow.near
            }
            Transport::Hidden => true,
        },
    }
}

/// Returns the number of the last packet sent with this key; `latest` is the last packet of all.
fn number_of(key: u16, latest: u32) -> Option<u32> {
    let keys = u32::from(KEYS);
    let residue = u32::from(key)
        .checked_sub(1)
        .filter(|residue| *residue < keys)?;
    let back = (latest % keys + keys - residue) % keys;
    latest.checked_sub(back)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::path::packet::key;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_key_leads_back_to_the_number_it_was_made_of(latest in 0_u32..200_000, back in 0_u32..65_534) {
            let number = latest.saturating_sub(back);
            prop_assert_eq!(number_of(key(number), latest), Some(number));
        }

        #[test]
        fn a_key_that_was_never_sent_leads_nowhere(latest in 0_u32..1000, ahead in 1_u32..1000) {
            prop_assert_eq!(number_of(key(latest + ahead), latest), None);
        }
    }

    #[test]
    fn keys_that_no_packet_has_lead_nowhere() {
        assert_eq!(number_of(0, 10), None);
        assert_eq!(number_of(u16::MAX, 70_000), None);
    }
}
