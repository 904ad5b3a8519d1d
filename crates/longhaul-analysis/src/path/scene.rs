//! Builds routes and path reports for tests.

use longhaul_model::report::v1::path::{
    Analysis, Answer, Echo, Echoes, Hop, Link, Observation, Plan, Protocol, RoundTrips, Route,
    Trace,
};
use longhaul_model::report::v1::{Kind, Party, Path, Run, SCHEMA};

pub fn answer(address: &str) -> Answer {
    Answer {
        address: address.to_owned(),
        name: None,
        autonomous_system: None,
        place: None,
        rtts_ns: Vec::new(),
        reply_ttl: None,
        quoted_ttl: None,
        kind: String::from("time_exceeded"),
        mpls: Vec::new(),
        rewritten: Vec::new(),
    }
}

/// One address with these RTTs; an empty address is a silent hop.
pub fn hop(ttl: u8, address: &str, rtts_ns: &[u64]) -> Hop {
    let only = Answer {
        rtts_ns: rtts_ns.to_vec(),
        ..answer(address)
    };
    Hop {
        ttl,
        sent: 3,
        answers: if address.is_empty() {
            Vec::new()
        } else {
            vec![only]
        },
        rate_limited: false,
    }
}

/// A route that reaches its end, 1 ms for each hop; `""` is a silent hop.
pub fn route(addresses: &[&str]) -> Route {
    let hops: Vec<Hop> = addresses
        .iter()
        .zip(1u8..)
        .map(|(address, ttl)| hop(ttl, address, &[u64::from(ttl) * 1_000_000]))
        .collect();
    Route {
        from: String::from("192.0.2.1"),
        to: String::from("198.51.100.1"),
        protocol: Protocol::Udp,
        flow: String::from("33434 > 33434"),
        at_us: 0,
        duration_us: 1_000_000,
        probes_sent: hops.len() as u32 * 3,
        hops,
        reached: true,
        ended_by: String::from("reached"),
        links: Vec::new(),
        confidence_ratio: None,
        discarded: 0,
    }
}

/// A route that does not reach its end.
pub fn cut_route(addresses: &[&str]) -> Route {
    Route {
        reached: false,
        ended_by: String::from("silent"),
        ..route(addresses)
    }
}

pub fn link(ttl: u8, from: &str, to: &str) -> Link {
    Link {
        ttl,
        from: from.to_owned(),
        to: to.to_owned(),
        flows: 4,
    }
}

/// Echoes with the same RTT each, or without answers.
pub fn echoes(count: u32, rtt_ns: Option<u64>) -> Echoes {
    let echo = |at: u32| Echo {
        at_us: u64::from(at) * 100_000,
        rtt_ns,
        ttl: None,
    };
    Echoes {
        protocol: Protocol::Icmp,
        clock: String::from("kernel"),
        packet_bytes: 84,
        sent: count,
        echoes: (0..count).map(echo).collect(),
        duplicates: 0,
        reordered: 0,
        discarded: 0,
    }
}

/// A plan with a UDP trace and round trips only.
pub fn plan() -> Plan {
    Plan {
        protocol: Protocol::Udp,
        port: None,
        round_trips: RoundTrips {
            protocol: Protocol::Icmp,
            probes: 10,
            interval_us: 100_000,
            packet_bytes: 84,
            timeout_us: 1_000_000,
        },
        trace: Some(Trace {
            most_hops: 64,
            probes: 3,
            timeout_us: 1_000_000,
            confidence_ratio: None,
        }),
        reverse: false,
        mtu: false,
        options: false,
        load: None,
    }
}

/// A report of one trace without conclusions.
pub fn report(at: &str, route: Route) -> Path {
    let party = |host: &str| Party {
        host: host.to_owned(),
        ..Party::default()
    };
    Path {
        schema: SCHEMA.to_owned(),
        kind: Kind::Path,
        run: Run {
            id: format!("run-{at}"),
            started_at: at.to_owned(),
            duration_us: 1_000_000,
            longhaul: String::from("0"),
            initiator: party("near"),
            responder: party("far"),
            part_of: None,
        },
        plan: plan(),
        observation: Observation {
            address: String::from("198.51.100.1"),
            route: Some(route),
            ..Observation::default()
        },
        analysis: Analysis::default(),
        findings: Vec::new(),
        caveats: Vec::new(),
    }
}
