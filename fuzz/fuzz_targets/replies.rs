//! Arbitrary bytes from the network: no decoder of answers panics, and what is believed of a
//! probe's flow carries its number where the decoder says it stands.

#![no_main]

use libfuzzer_sys::fuzz_target;
use longhaul_model::report::v1::path::ProbeProtocol;
use longhaul_probe::path::probe_packet::ProbeFlow;
use longhaul_probe::path::probe_reply::{self, ProbeReply, QueuedIcmpInfo};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

const NEAR: [IpAddr; 2] = [
    IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)),
    IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1)),
];
const FAR: [IpAddr; 2] = [
    IpAddr::V4(Ipv4Addr::new(192, 0, 2, 9)),
    IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 9)),
];

fn flow(protocol: ProbeProtocol, family: usize) -> ProbeFlow {
    ProbeFlow {
        protocol,
        source: NEAR[family],
        destination: FAR[family],
        source_id: 40_001,
        destination_id: 33_434,
        tag: 0x1234_5678,
    }
}

fn check(reply: &ProbeReply) {
    for family in [0, 1] {
        for protocol in [ProbeProtocol::Icmp, ProbeProtocol::Udp, ProbeProtocol::Tcp] {
            let flow = flow(protocol, family);
            let Some(key) = probe_reply::match_probe_key(&flow, reply) else {
                continue;
            };
            assert!(probe_reply::candidate_keys(reply).contains(&Some(key)));
            probe_reply::find_rewritten_fields(&flow, key, reply);
        }
    }
}

fuzz_target!(|bytes: &[u8]| {
    let Some((&[kind, code, at, family], rest)) = bytes.split_first_chunk() else {
        return;
    };
    let from = FAR[usize::from(family & 1)];
    let queued = QueuedIcmpInfo {
        kind,
        code,
        info: 0,
        reported_by: Some(from),
        extensions_at: (at != 0).then_some(usize::from(at)),
    };
    let replies = [
        probe_reply::parse_icmp_v4(rest),
        probe_reply::parse_icmp(rest, from, None),
        probe_reply::parse_tcp_v4(rest),
        probe_reply::parse_tcp(rest, from, None),
        probe_reply::parse_queued_error(&queued, Some(at), rest, family & 2 != 0),
        probe_reply::parse_echoed_datagram(rest, from, None),
    ];
    replies.iter().flatten().for_each(check);
});
