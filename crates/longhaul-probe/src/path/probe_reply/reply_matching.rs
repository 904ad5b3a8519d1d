//! Matches replies to probes, and finds header fields rewritten on the path.

use super::{IpHeader, ProbeReply};
use crate::path::probe_packet::ProbeFlow;
use longhaul_capture::decode::split_tcp_options;
use longhaul_model::report::v1::path::ProbeProtocol;

/// Returns the number of the probe that `reply` answers, if all its fields match the flow.
///
/// Destination address and port must be the flow's. Source address and port may differ behind a
/// NAT; then something that a NAT leaves unchanged must match: the tag, or the number. A tag that
/// can be read must be the flow's.
pub fn match_probe_key(flow: &ProbeFlow, reply: &ProbeReply) -> Option<u16> {
    let probe = &reply.probe;
    let fits =
        |ip: IpHeader| ip.destination == flow.destination && ip.protocol == flow.protocol_number();
    let is_error = reply.kind.is_error();
    if !probe.ip.is_none_or(fits) || (!is_error && reply.from != flow.destination) {
        return None;
    }
    // A readable tag that is not ours rules the answer out.
    let tagged = probe.mark.filter(|mark| mark.tag == flow.tag).map(|mark| mark.key);
    if probe.mark.is_some() && tagged.is_none() {
        return None;
    }
    let Some(transport) = &probe.transport else {
        return tagged.filter(|_| flow.protocol == ProbeProtocol::Udp);
    };
    // A NAT that translates the port also translates the address.
    let translated = probe.ip.is_some_and(|ip| ip.source != flow.source);
    let same_source = transport.source_id == flow.source_id;
    let ports_fit = (same_source || translated)
        && transport.destination_port.is_none_or(|port| port == flow.destination_id);
    if !ports_fit || transport.protocol != flow.protocol {
        return None;
    }
    let number = transport.number as u16;
    match flow.protocol {
        ProbeProtocol::Icmp => {
            let known = tagged.is_some() || (is_error && same_source);
            (known && tagged.is_none_or(|key| key == number)).then_some(number)
        }
        ProbeProtocol::Udp => {
            tagged.or_else(|| match_short_udp(probe.ip.as_ref()?, translated, number))
        }
        ProbeProtocol::Tcp => (flow.sequence(number) == transport.number).then_some(number),
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
    let Some(transport) = &reply.probe.transport else {
        return reply.probe.ip.is_none();
    };
    let of_destination = transport.destination_port == Some(flow.destination_id);
    transport.source_id == flow.source_id
        || reply.probe.mark.is_some_and(|mark| mark.tag == flow.tag)
        || (of_destination && !reply.kind.is_error())
}

/// Returns the numbers that the reply may refer to, before matching.
pub fn candidate_keys(reply: &ProbeReply) -> [Option<u16>; 3] {
    let probe = &reply.probe;
    [
        probe.mark.map(|mark| mark.key),
        probe.transport.as_ref().map(|transport| transport.number as u16),
        probe.ip.and_then(|ip| ip.identification),
    ]
}

/// Returns the names of the fields that the quoted packet shows to be rewritten.
pub fn find_rewritten_fields(flow: &ProbeFlow, key: u16, reply: &ProbeReply) -> Vec<String> {
    let mut found = Vec::new();
    let mut note = |changed: bool, what: &str| {
        if changed {
            found.push(what.to_owned());
        }
    };
    if let Some(ip) = &reply.probe.ip {
        note(ip.source != flow.source, "source_address");
        // Probes are sent with DSCP and ECN zero.
        note(ip.class >> 2 != 0, "dscp");
        note(ip.class & 3 != 0, "ecn");
        let identification = ip.identification.is_some_and(|number| number != key);
        note(identification, "identification");
    }
    if let Some(transport) = &reply.probe.transport {
        let is_icmp = transport.protocol == ProbeProtocol::Icmp;
        let source = if is_icmp { "identifier" } else { "source_port" };
        note(transport.source_id != flow.source_id, source);
        if let Some(options) = &transport.options {
            found.extend(find_changed_options(&flow.syn_options(), options));
        }
    }
    found
}

/// Returns the names of TCP options that were sent and arrived changed or not at all.
fn find_changed_options(sent: &[u8], seen: &[u8]) -> Vec<String> {
    let seen: Vec<(u8, &[u8])> = split_tcp_options(seen).collect();
    split_tcp_options(sent)
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
