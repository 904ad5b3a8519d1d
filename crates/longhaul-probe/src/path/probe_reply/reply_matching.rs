//! Matches replies to probes, and finds header fields rewritten on the path.

use super::{IpHeader, ProbeMark, ProbeReply, QuotedPacket, QuotedTransport, ReplyReference};
use crate::path::probe_packet::ProbeFlow;
use longhaul_model::report::v1::path::ProbeProtocol;

/// Returns the number of the probe that `reply` answers, if all its fields match the flow.
///
/// Destination address and port must be the flow's. Source address and port may differ behind a
/// NAT; then something that a NAT leaves unchanged must match: the tag, or the number. A tag that
/// can be read must be the flow's.
pub fn match_probe_key(flow: &ProbeFlow, reply: &ProbeReply) -> Option<u16> {
    match &reply.reference {
        ReplyReference::Echo { identifier, sequence, mark } => {
            let fits = flow.protocol == ProbeProtocol::Icmp
                && reply.from == flow.destination
                && *identifier == flow.source_id
                && tagged_key(flow, *mark) == Some(*sequence);
            fits.then_some(*sequence)
        }
        ReplyReference::Segment { source_port, destination_port, acknowledged } => {
            let fits = flow.protocol == ProbeProtocol::Tcp
                && reply.from == flow.destination
                && (*source_port, *destination_port) == (flow.destination_id, flow.source_id);
            key_from_sequence(flow, acknowledged.wrapping_sub(1)).filter(|_| fits)
        }
        ReplyReference::Quote(quote) => match_quoted_key(flow, quote),
    }
}

fn tagged_key(flow: &ProbeFlow, mark: Option<ProbeMark>) -> Option<u16> {
    mark.filter(|mark| mark.tag == flow.tag).map(|mark| mark.key)
}

fn key_from_sequence(flow: &ProbeFlow, sequence: u32) -> Option<u16> {
    let key = sequence as u16;
    (flow.sequence(key) == sequence).then_some(key)
}

fn match_quoted_key(flow: &ProbeFlow, quote: &QuotedPacket) -> Option<u16> {
    let fits =
        |ip: IpHeader| ip.destination == flow.destination && ip.protocol == flow.protocol_number();
    if !quote.ip.is_none_or(fits) {
        return None;
    }
    // A readable tag that is not ours rules the quote out.
    let tagged = tagged_key(flow, quote.mark);
    if quote.mark.is_some() && tagged.is_none() {
        return None;
    }
    // A NAT that translates the port also translates the address.
    let translated = quote.ip.is_some_and(|ip| ip.source != flow.source);
    let near_fits = |near: u16| near == flow.source_id || translated;
    match (&quote.transport, flow.protocol) {
        (QuotedTransport::Icmp { identifier, sequence, .. }, ProbeProtocol::Icmp) => {
            let known = tagged.is_some() || *identifier == flow.source_id;
            let same = tagged.is_none_or(|key| key == *sequence);
            (known && same && near_fits(*identifier)).then_some(*sequence)
        }
        (QuotedTransport::Udp { source_port, destination_port, checksum }, ProbeProtocol::Udp) => {
            let fits = near_fits(*source_port) && *destination_port == flow.destination_id;
            let short = || match_short_udp(quote.ip.as_ref()?, translated, *checksum);
            tagged.or_else(short).filter(|_| fits)
        }
        (QuotedTransport::Hidden, ProbeProtocol::Udp) => tagged,
        (
            QuotedTransport::Tcp { source_port, destination_port, sequence, .. },
            ProbeProtocol::Tcp,
        ) => {
            let fits = near_fits(*source_port) && *destination_port == flow.destination_id;
            key_from_sequence(flow, *sequence).filter(|_| fits)
        }
        _ => None,
    }
}

/// Matches a quote that ends with the UDP header: both the checksum and the IPv4 identification
/// equal the number, and the latter survives a NAT that changes the checksum.
fn match_short_udp(ip: &IpHeader, translated: bool, checksum: u16) -> Option<u16> {
    match ip.identification {
        None => (!translated && checksum != 0).then_some(checksum),
        Some(number) if number == checksum => Some(number),
        Some(number) if number != 0 && (translated || checksum == 0) => Some(number),
        Some(_) => None,
    }
}

/// Returns the key of the probe that `reply` answers. `flow_of` returns the flow in which the probe
/// with a key was sent.
pub fn find_probe_key(
    reply: &ProbeReply,
    flow_of: impl Fn(u16) -> Option<ProbeFlow>,
) -> Option<u16> {
    candidate_keys(reply)
        .into_iter()
        .flatten()
        .find(|key| flow_of(*key).is_some_and(|flow| match_probe_key(&flow, reply) == Some(*key)))
}

/// Returns whether the reply has the flow's identifier, port or tag, so that it is not another
/// program's.
pub fn claims_flow(flow: &ProbeFlow, reply: &ProbeReply) -> bool {
    match &reply.reference {
        ReplyReference::Echo { identifier, .. } => *identifier == flow.source_id,
        ReplyReference::Segment { source_port, .. } => *source_port == flow.destination_id,
        ReplyReference::Quote(quote) => {
            let near = match quote.transport {
                QuotedTransport::Hidden => return quote.ip.is_none(),
                QuotedTransport::Icmp { identifier, .. } => identifier,
                QuotedTransport::Udp { source_port, .. }
                | QuotedTransport::Tcp { source_port, .. } => source_port,
            };
            near == flow.source_id || quote.mark.is_some_and(|mark| mark.tag == flow.tag)
        }
    }
}

/// Returns the numbers that the reply may refer to, before matching.
pub fn candidate_keys(reply: &ProbeReply) -> [Option<u16>; 3] {
    match &reply.reference {
        ReplyReference::Echo { sequence, .. } => [Some(*sequence), None, None],
        ReplyReference::Segment { acknowledged, .. } => {
            [Some(acknowledged.wrapping_sub(1) as u16), None, None]
        }
        ReplyReference::Quote(quote) => [
            quote.mark.map(|mark| mark.key),
            match quote.transport {
                QuotedTransport::Hidden => None,
                QuotedTransport::Icmp { sequence, .. } => Some(sequence),
                QuotedTransport::Udp { checksum, .. } => Some(checksum),
                QuotedTransport::Tcp { sequence, .. } => Some(sequence as u16),
            },
            quote.ip.and_then(|ip| ip.identification),
        ],
    }
}

/// Returns the names of the fields that the quoted packet shows to be rewritten.
pub fn find_rewritten_fields(flow: &ProbeFlow, key: u16, reply: &ProbeReply) -> Vec<String> {
    let ReplyReference::Quote(quote) = &reply.reference else {
        return Vec::new();
    };
    let mut found = Vec::new();
    let mut note = |changed: bool, what: &str| {
        if changed {
            found.push(what.to_owned());
        }
    };
    if let Some(ip) = &quote.ip {
        note(ip.source != flow.source, "source_address");
        // Probes are sent with DSCP and ECN zero.
        note(ip.class >> 2 != 0, "dscp");
        note(ip.class & 3 != 0, "ecn");
        let identification = ip.identification.is_some_and(|number| number != key);
        note(identification, "identification");
    }
    match &quote.transport {
        QuotedTransport::Hidden => {}
        QuotedTransport::Icmp { identifier, .. } => {
            note(*identifier != flow.source_id, "identifier");
        }
        QuotedTransport::Udp { source_port, .. } => {
            note(*source_port != flow.source_id, "source_port");
        }
        QuotedTransport::Tcp { source_port, options, .. } => {
            note(*source_port != flow.source_id, "source_port");
            if let Some(options) = options {
                found.extend(find_changed_options(&flow.syn_options(), options));
            }
        }
    }
    found
}

/// Returns the names of TCP options that were sent and arrived changed or not at all.
fn find_changed_options(sent: &[u8], seen: &[u8]) -> Vec<String> {
    let seen = split_tcp_options(seen);
    split_tcp_options(sent)
        .into_iter()
        .filter(|option| !seen.contains(option))
        .map(|(kind, _)| {
            let name = match kind {
                2 => "mss",
                3 => "window_scale",
                4 => "sack",
                _ => "timestamps",
            };
            format!("tcp_option_{name}")
        })
        .collect()
}

/// Returns kind and value of each option, up to the first malformed one.
fn split_tcp_options(mut bytes: &[u8]) -> Vec<(u8, &[u8])> {
    let mut found = Vec::new();
    while let Some((&kind, rest)) = bytes.split_first() {
        bytes = match kind {
            0 => break,
            1 => rest,
            _ => {
                let length = bytes.get(1).map_or(0, |length| usize::from(*length));
                let Some(value) = bytes.get(2..length) else {
                    break;
                };
                found.push((kind, value));
                &bytes[length..]
            }
        };
    }
    found
}
