//! Matches replies to probes, and finds header fields rewritten on the path.

use super::{About, Mark, Quote, QuotedIp, Reply, Transport};
use crate::path::packet::Flow;
use longhaul_model::report::v1::path::Protocol;

/// Returns the number of the probe that `reply` answers, if all its fields match the flow.
///
/// Destination address and port must be the flow's. Source address and port may differ behind a
/// NAT; then something that a NAT leaves unchanged must match: the tag, or the number. A tag that
/// can be read must be the flow's.
pub fn key(flow: &Flow, reply: &Reply) -> Option<u16> {
    match &reply.about {
        About::Echo {
            identifier,
            sequence,
            mark,
        } => {
            let fits = flow.protocol == Protocol::Icmp
                && reply.from == flow.destination
                && *identifier == flow.near
                && marked(flow, *mark) == Some(*sequence);
            fits.then_some(*sequence)
        }
        About::Segment {
            source_port,
            destination_port,
            acknowledged,
        } => {
            let fits = flow.protocol == Protocol::Tcp
                && reply.from == flow.destination
                && (*source_port, *destination_port) == (flow.far, flow.near);
            of_sequence(flow, acknowledged.wrapping_sub(1)).filter(|_| fits)
        }
        About::Quote(quote) => quoted_key(flow, quote),
    }
}

fn marked(flow: &Flow, mark: Option<Mark>) -> Option<u16> {
    mark.filter(|mark| mark.tag == flow.tag)
        .map(|mark| mark.key)
}

fn of_sequence(flow: &Flow, sequence: u32) -> Option<u16> {
    let key = sequence as u16;
    (flow.sequence(key) == sequence).then_some(key)
}

fn quoted_key(flow: &Flow, quote: &Quote) -> Option<u16> {
    let fits =
        |ip: QuotedIp| ip.destination == flow.destination && ip.protocol == flow.protocol_number();
    if !quote.ip.is_none_or(fits) {
        return None;
    }
    // A readable tag that is not ours rules the quote out.
    let tagged = marked(flow, quote.mark);
    if quote.mark.is_some() && tagged.is_none() {
        return None;
    }
    // A NAT that translates the port also translates the address.
    let translated = quote.ip.is_some_and(|ip| ip.source != flow.source);
    let near_fits = |near: u16| near == flow.near || translated;
    match (&quote.transport, flow.protocol) {
        (
            Transport::Icmp {
                identifier,
                sequence,
                ..
            },
            Protocol::Icmp,
        ) => {
            let known = tagged.is_some() || *identifier == flow.near;
            let same = tagged.is_none_or(|key| key == *sequence);
            (known && same && near_fits(*identifier)).then_some(*sequence)
        }
        (
            Transport::Udp {
                source_port,
                destination_port,
                checksum,
            },
            Protocol::Udp,
        ) => {
            let fits = near_fits(*source_port) && *destination_port == flow.far;
            let short = || short_udp(quote.ip.as_ref()?, translated, *checksum);
            tagged.or_else(short).filter(|_| fits)
        }
        (Transport::Hidden, Protocol::Udp) => tagged,
        (
            Transport::Tcp {
                source_port,
                destination_port,
                sequence,
                ..
            },
            Protocol::Tcp,
        ) => {
            let fits = near_fits(*source_port) && *destination_port == flow.far;
            of_sequence(flow, *sequence).filter(|_| fits)
        }
        _ => None,
    }
}

/// Matches a quote that ends with the UDP header: both the checksum and the IPv4 identification
/// equal the number, and the latter survives a NAT that changes the checksum.
fn short_udp(ip: &QuotedIp, translated: bool, checksum: u16) -> Option<u16> {
    match ip.identification {
        None => (!translated && checksum != 0).then_some(checksum),
        Some(number) if number == checksum => Some(number),
        Some(number) if number != 0 && (translated || checksum == 0) => Some(number),
        Some(_) => None,
    }
}

/// Returns the numbers that the reply may refer to, before matching.
pub fn candidates(reply: &Reply) -> [Option<u16>; 3] {
    match &reply.about {
        About::Echo { sequence, .. } => [Some(*sequence), None, None],
        About::Segment { acknowledged, .. } => {
            [Some(acknowledged.wrapping_sub(1) as u16), None, None]
        }
        About::Quote(quote) => [
            quote.mark.map(|mark| mark.key),
            match quote.transport {
                Transport::Hidden => None,
                Transport::Icmp { sequence, .. } => Some(sequence),
                Transport::Udp { checksum, .. } => Some(checksum),
                Transport::Tcp { sequence, .. } => Some(sequence as u16),
            },
            quote.ip.and_then(|ip| ip.identification),
        ],
    }
}

/// Returns the names of the fields that the quoted packet shows to be rewritten.
pub fn rewritten(flow: &Flow, key: u16, reply: &Reply) -> Vec<String> {
    let About::Quote(quote) = &reply.about else {
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
        Transport::Hidden => {}
        Transport::Icmp { identifier, .. } => note(*identifier != flow.near, "identifier"),
        Transport::Udp { source_port, .. } => note(*source_port != flow.near, "source_port"),
        Transport::Tcp {
            source_port,
            options,
            ..
        } => {
            note(*source_port != flow.near, "source_port");
            if let Some(options) = options {
                found.extend(changed_options(&flow.syn_options(), options));
            }
        }
    }
    found
}

/// Returns the names of TCP options that were sent and arrived changed or not at all.
fn changed_options(sent: &[u8], seen: &[u8]) -> Vec<String> {
    let seen = each_option(seen);
    each_option(sent)
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
fn each_option(mut bytes: &[u8]) -> Vec<(u8, &[u8])> {
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
