//! Classifies messages of a probing socket: answer, error, transmit timestamp, or noise.

use crate::path::probe_packet::{KEYS, ProbeFlow};
use crate::path::probe_reply::{
    self, ProbeReply, QuotedTransport, ReplyKind, ReplyReference, ReplySource, reply_matching,
};
use longhaul_sys::probe_socket::{ErrorQueueEntry, ProbeArrival};
use std::net::IpAddr;
use std::time::Duration;

/// A classified message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::path) enum EchoEvent {
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
    Transmitted { number: u32, stamp: Duration },
    /// A router reports that the packet is too big.
    TooBig { number: u32, by: IpAddr, mtu_bytes: Option<u32> },
    /// A router or host reports that the packet is undeliverable.
    Unreachable { by: IpAddr, word: &'static str },
    /// Claims to belong to our packets, but matches none.
    Unmatched,
}

/// Classifies a message; returns `None` if it belongs to other programs' packets. `left` holds the
/// numbers of all packets sent, in sending order.
pub(super) fn classify_arrival(
    source: ReplySource,
    flows: &[ProbeFlow],
    left: &[u32],
    arrival: &ProbeArrival,
    bytes: &[u8],
) -> Option<EchoEvent> {
    match arrival.queued {
        Some(ErrorQueueEntry::Sent { number }) => {
            let (&number, stamp) = (left.get(number as usize)?, arrival.at?);
            return Some(EchoEvent::Transmitted { number, stamp });
        }
        Some(ErrorQueueEntry::Local { .. } | ErrorQueueEntry::Other) => return None,
        Some(ErrorQueueEntry::Icmp(_)) | None => {}
    }
    let datagram = arrival.queued.is_none() && source == ReplySource::Udp;
    let reply = if datagram {
        flows.first().and_then(|flow| parse_echo_service(flow, arrival, bytes))
    } else {
        source.parse_reply(arrival, bytes)
    };
    let Some(reply) = reply else {
        return source.receives_only_own().then_some(EchoEvent::Unmatched);
    };
    let found = flows.iter().find_map(|flow| {
        let key = reply_matching::match_probe_key(flow, &reply)?;
        Some((recover_probe_number(key, *left.last()?)?, flow))
    });
    match found {
        Some((number, flow)) => Some(classify_reply(&reply, number, flow, arrival.at)),
        None => (source.receives_only_own()
            || flows.iter().any(|flow| claims_our_flow(flow, &reply)))
        .then_some(EchoEvent::Unmatched),
    }
}

/// Parses a datagram in which the destination repeats ours, as an echo service does.
fn parse_echo_service(
    flow: &ProbeFlow,
    arrival: &ProbeArrival,
    bytes: &[u8],
) -> Option<ProbeReply> {
    let mark: [u8; 2] = bytes.get(6..8)?.try_into().ok()?;
    let key = u16::from_be_bytes(mark);
    let ours = flow.udp_payload(key);
    let same = bytes.get(2..8) == ours.get(2..8);
    same.then(|| ProbeReply {
        from: flow.destination,
        ttl: arrival.ttl,
        kind: ReplyKind::EchoReply,
        reference: ReplyReference::Quote(probe_reply::QuotedPacket {
            ip: None,
            transport: QuotedTransport::Hidden,
            mark: Some(probe_reply::ProbeMark { tag: flow.tag, key }),
        }),
        mpls: Vec::new(),
    })
}

fn classify_reply(
    reply: &ProbeReply,
    number: u32,
    flow: &ProbeFlow,
    stamp: Option<Duration>,
) -> EchoEvent {
    let (by, ttl) = (reply.from, reply.ttl);
    let of_far_end = by == flow.destination;
    match reply.kind {
        ReplyKind::EchoReply | ReplyKind::SynAck | ReplyKind::Reset => {
            EchoEvent::Answer { number, stamp, ttl }
        }
        ReplyKind::PortUnreachable | ReplyKind::ProtocolUnreachable if of_far_end => {
            EchoEvent::Answer { number, stamp, ttl }
        }
        ReplyKind::TooBig { mtu_bytes } => {
            EchoEvent::TooBig { number, by, mtu_bytes: Some(mtu_bytes) }
        }
        kind => EchoEvent::Unreachable { by, word: kind.as_str() },
    }
}

/// Returns whether the reply names our identifier or port, so that only a tag can distinguish it.
fn claims_our_flow(flow: &ProbeFlow, reply: &ProbeReply) -> bool {
    match &reply.reference {
        ReplyReference::Echo { identifier, .. } => *identifier == flow.source_id,
        ReplyReference::Segment { source_port, destination_port, .. } => {
            (*source_port, *destination_port) == (flow.destination_id, flow.source_id)
        }
        ReplyReference::Quote(quote) => match quote.transport {
            QuotedTransport::Icmp { identifier, .. } => identifier == flow.source_id,
            QuotedTransport::Udp { source_port, .. } | QuotedTransport::Tcp { source_port, .. } => {
                source_port == flow.source_id
            }
            QuotedTransport::Hidden => true,
        },
    }
}

/// Returns the number of the last packet sent with this key; `latest` is the last packet of all.
fn recover_probe_number(key: u16, latest: u32) -> Option<u32> {
    let keys = u32::from(KEYS);
    let residue = u32::from(key).checked_sub(1).filter(|residue| *residue < keys)?;
    let back = (latest % keys + keys - residue) % keys;
    latest.checked_sub(back)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::path::probe_packet::probe_key;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_key_leads_back_to_the_number_it_was_made_of(latest in 0_u32..200_000, back in 0_u32..65_534) {
            let number = latest.saturating_sub(back);
            prop_assert_eq!(recover_probe_number(probe_key(number), latest), Some(number));
        }

        #[test]
        fn a_key_that_was_never_sent_leads_nowhere(latest in 0_u32..1000, ahead in 1_u32..1000) {
            prop_assert_eq!(recover_probe_number(probe_key(latest + ahead), latest), None);
        }
    }

    #[test]
    fn keys_that_no_packet_has_lead_nowhere() {
        assert_eq!(recover_probe_number(0, 10), None);
        assert_eq!(recover_probe_number(u16::MAX, 70_000), None);
    }
}
