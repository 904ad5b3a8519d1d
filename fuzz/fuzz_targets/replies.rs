//! Arbitrary bytes from the network: no decoder of answers panics, and what is believed of a
//! probe's flow carries its number where the decoder says it stands.

#![no_main]

use libfuzzer_sys::fuzz_target;
use longhaul_model::report::v1::path::Protocol;
use longhaul_probe::path::packet::Flow;
use longhaul_probe::path::reply::{self, FromQueue, Reply, matching};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

const NEAR: [IpAddr; 2] = [
    IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)),
    IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1)),
];
const FAR: [IpAddr; 2] = [
    IpAddr::V4(Ipv4Addr::new(192, 0, 2, 9)),
    IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 9)),
];

fn flow(protocol: Protocol, family: usize) -> Flow {
    Flow {
        protocol,
        source: NEAR[family],
        destination: FAR[family],
        near: 40_001,
        far: 33_434,
        tag: 0x1234_5678,
    }
}

fn check(reply: &Reply) {
    for family in [0, 1] {
        for protocol in [Protocol::Icmp, Protocol::Udp, Protocol::Tcp] {
            let flow = flow(protocol, family);
            let Some(key) = matching::key(&flow, reply) else {
                continue;
            };
            assert!(matching::candidates(reply).contains(&Some(key)));
            matching::rewritten(&flow, key, reply);
        }
    }
}

fuzz_target!(|bytes: &[u8]| {
    let Some((&[kind, code, at, family], rest)) = bytes.split_first_chunk() else {
        return;
    };
    let from = FAR[usize::from(family & 1)];
    let queued = FromQueue {
        from,
        ttl: Some(at),
        kind,
        code,
        info: 0,
        quoted: rest,
        echo: family & 2 != 0,
        extensions_at: (at != 0).then_some(usize::from(at)),
    };
    let replies = [
        reply::icmp_v4(rest),
        reply::icmp(rest, from, None),
        reply::tcp_v4(rest),
        reply::tcp(rest, from, None),
        reply::queued(&queued),
    ];
    replies.iter().flatten().for_each(check);
});
