//! Builds routes and path reports for tests.

use longhaul_model::report::v1::path::{
    HopLink, HopReply, ObservedHop, ObservedRoute, PathAnalysis, PathObservation, PathPlan,
    ProbeEcho, ProbeProtocol, RoundTripPlan, RoundTripSeries, TracePlan,
};
use longhaul_model::report::v1::{PathReport, ReportKind, RunInfo, RunParty, SCHEMA};

pub fn build_answer(address: &str) -> HopReply {
    HopReply {
        address: address.to_owned(),
        kind: String::from("time_exceeded"),
        ..HopReply::default()
    }
}

/// One address with these RTTs; an empty address is a silent hop.
pub fn build_hop(ttl: u8, address: &str, rtts_ns: &[u64]) -> ObservedHop {
    let only = HopReply { rtts_ns: rtts_ns.to_vec(), ..build_answer(address) };
    ObservedHop {
        ttl,
        sent: 3,
        answers: if address.is_empty() { Vec::new() } else { vec![only] },
        rate_limited: false,
    }
}

/// A route that reaches its end, 1 ms for each hop; `""` is a silent hop.
pub fn build_route(addresses: &[&str]) -> ObservedRoute {
    let hops: Vec<ObservedHop> = addresses
        .iter()
        .zip(1u8..)
        .map(|(address, ttl)| build_hop(ttl, address, &[u64::from(ttl) * 1_000_000]))
        .collect();
    ObservedRoute {
        from: String::from("192.0.2.1"),
        to: String::from("198.51.100.1"),
        protocol: ProbeProtocol::Udp,
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
pub fn build_truncated_route(addresses: &[&str]) -> ObservedRoute {
    ObservedRoute { reached: false, ended_by: String::from("silent"), ..build_route(addresses) }
}

pub fn build_link(ttl: u8, from: &str, to: &str) -> HopLink {
    HopLink { ttl, from: from.to_owned(), to: to.to_owned(), flows: 4 }
}

/// Echoes with the same RTT each, or without answers.
pub fn build_echoes(count: u32, rtt_ns: Option<u64>) -> RoundTripSeries {
    let echo = |at: u32| ProbeEcho { at_us: u64::from(at) * 100_000, rtt_ns, ttl: None };
    RoundTripSeries {
        protocol: ProbeProtocol::Icmp,
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
pub fn build_plan() -> PathPlan {
    PathPlan {
        protocol: ProbeProtocol::Udp,
        port: None,
        round_trips: RoundTripPlan {
            protocol: ProbeProtocol::Icmp,
            probes: 10,
            interval_us: 100_000,
            packet_bytes: 84,
            timeout_us: 1_000_000,
        },
        trace: Some(TracePlan {
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
pub fn build_report(at: &str, route: ObservedRoute) -> PathReport {
    let party = |host: &str| RunParty { host: host.to_owned(), ..RunParty::default() };
    PathReport {
        schema: SCHEMA.to_owned(),
        kind: ReportKind::Path,
        run: RunInfo {
            id: format!("run-{at}"),
            started_at: at.to_owned(),
            duration_us: 1_000_000,
            longhaul: String::from("0"),
            initiator: party("near"),
            responder: party("far"),
            part_of: None,
            environment: None,
        },
        plan: build_plan(),
        observation: PathObservation {
            address: String::from("198.51.100.1"),
            route: Some(route),
            ..PathObservation::default()
        },
        analysis: PathAnalysis::default(),
        findings: Vec::new(),
        caveats: Vec::new(),
    }
}
