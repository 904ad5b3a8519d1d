//! Converts a route that another program traced into a path report.
//!
//! Only the route is present. If the text does not give the kind of probe packet, the program's
//! default is assumed, and the route says so. Hops that have names but no addresses cannot be
//! compared, so such a route is rejected.

use longhaul_model::report::v1::imported::{ImportedHop as Step, ImportedObservation};
use longhaul_model::report::v1::path::{
    self, HopReply, ObservedHop, ObservedRoute, PathAnalysis, PathObservation as Seen, PathPlan,
    ProbeProtocol,
};
use longhaul_model::report::v1::{ImportedReport, PathReport, ReportKind};

/// Returns `None` if no route was traced, or none that can be compared.
pub fn convert_to_path_report(report: &ImportedReport) -> Option<PathReport> {
    let route = convert_route(report)?;
    let protocol = route.protocol;
    Some(PathReport {
        schema: report.schema.clone(),
        kind: ReportKind::Path,
        run: report.run.clone(),
        plan: PathPlan::without_probes(protocol),
        observation: Seen {
            address: report.observation.far_address.clone().unwrap_or_default(),
            route: Some(route),
            missing: list_missing(&report.observation.missing),
            ..Seen::default()
        },
        analysis: PathAnalysis { version: report.analysis.version, ..PathAnalysis::default() },
        findings: Vec::new(),
        caveats: report.caveats.clone(),
    })
}

fn list_missing(texts: &[String]) -> Vec<path::MissingPart> {
    let missing =
        texts.iter().map(|why| path::MissingPart { what: "imported".to_owned(), why: why.clone() });
    missing.collect()
}

fn convert_route(report: &ImportedReport) -> Option<ObservedRoute> {
    let seen = &report.observation;
    let hops: Option<Vec<ObservedHop>> = seen.hops.iter().map(convert_hop).collect();
    let hops = hops.filter(|hops| hops.iter().any(|hop| !hop.answers.is_empty()))?;
    let reached = is_destination_reached(seen);
    let told = seen.protocol.is_some();
    let flow =
        format!("not reported by {}{}", seen.tool, if told { "" } else { ", nor its packet type" });
    Some(ObservedRoute {
        from: report.run.initiator.host.clone(),
        to: report.run.responder.host.clone(),
        protocol: convert_protocol(seen),
        flow,
        at_us: 0,
        duration_us: report.run.duration_us,
        reached,
        ended_by: if reached { "reached" } else { "silent" }.to_owned(),
        links: Vec::new(),
        confidence_ratio: None,
        probes_sent: hops.iter().map(|hop| hop.sent).sum(),
        discarded: 0,
        hops,
    })
}

fn convert_protocol(seen: &ImportedObservation) -> ProbeProtocol {
    match seen.protocol.as_deref() {
        Some("icmp") => ProbeProtocol::Icmp,
        Some("tcp") => ProbeProtocol::Tcp,
        None if seen.tool == "mtr" => ProbeProtocol::Icmp,
        _ => ProbeProtocol::Udp,
    }
}

/// Returns true if the last hop is the destination, as far as its address or name is known.
fn is_destination_reached(seen: &ImportedObservation) -> bool {
    let Some(last) = seen.hops.last().filter(|it| !it.addresses.is_empty()) else {
        return false;
    };
    match &seen.far_address {
        Some(address) => last.addresses.contains(address),
        None => seen.far.is_none() || seen.far == last.host || seen.tool == "mtr",
    }
}

/// Converts a hop; `None` if a router answered whose address is not given.
fn convert_hop(step: &Step) -> Option<ObservedHop> {
    let timed = step.rtts_us.len() as u64 + step.bounded_packets.unwrap_or(0);
    let answered = timed > 0 || step.rtt_min_us.is_some();
    if step.addresses.is_empty() && (answered || step.host.is_some()) {
        return None;
    }
    let counted = timed + step.unanswered_packets.unwrap_or(0);
    let sent = step.sent_packets.unwrap_or(counted);
    // With several addresses, the text does not say which of them had which RTT.
    let alone = step.addresses.len() == 1;
    let least = step.rtt_min_us.filter(|_| step.rtts_us.is_empty());
    let rtts = step.rtts_us.iter().copied().chain(least);
    let rtts_ns: Vec<u64> = rtts.filter(|_| alone).map(|us| us.saturating_mul(1000)).collect();
    let answers = step.addresses.iter().map(|address| HopReply {
        address: address.clone(),
        name: step.host.clone().filter(|_| alone),
        rtts_ns: rtts_ns.clone(),
        kind: "not_told".to_owned(),
        ..HopReply::default()
    });
    Some(ObservedHop {
        ttl: u8::try_from(step.ttl_index).ok()?,
        sent: u32::try_from(sent).unwrap_or(u32::MAX),
        answers: answers.collect(),
        rate_limited: false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::path::compare_routes;
    use longhaul_model::report::v1::path::RouteChangeKind;
    use longhaul_model::report::v1::{RunInfo, RunParty, SCHEMA, imported};

    fn traced(addresses: &[&str]) -> ImportedReport {
        let hops = addresses.iter().zip(1..).map(|(address, ttl_index)| Step {
            ttl_index,
            addresses: Some((*address).to_owned())
                .filter(|it| !it.is_empty())
                .into_iter()
                .collect(),
            rtts_us: vec![u64::from(ttl_index) * 1000; usize::from(!address.is_empty())],
            unanswered_packets: address.is_empty().then_some(3),
            ..Step::default()
        });
        ImportedReport {
            schema: SCHEMA.to_owned(),
            kind: ReportKind::Imported,
            run: RunInfo {
                id: "20040222T000000Z-5fda35".to_owned(),
                started_at: "2004-02-22T00:00:00Z".to_owned(),
                duration_us: 0,
                longhaul: "0.1.0".to_owned(),
                initiator: RunParty::default(),
                responder: RunParty::default(),
                part_of: None,
            },
            plan: imported::ImportPlan {
                format: "traceroute".to_owned(),
                file: None,
                content_sha256: String::new(),
                index: 0,
                time_from: "user".to_owned(),
            },
            observation: ImportedObservation {
                tool: "traceroute".to_owned(),
                far_address: Some("192.0.2.7".to_owned()),
                hops: hops.collect(),
                ..ImportedObservation::default()
            },
            analysis: imported::ImportedAnalysis::default(),
            findings: Vec::new(),
            caveats: Vec::new(),
        }
    }

    fn route_of(addresses: &[&str]) -> ObservedRoute {
        let look = convert_to_path_report(&traced(addresses)).expect("a route");
        look.observation.route.expect("it has one")
    }

    #[test]
    fn imported_routes_are_compared_as_our_own() {
        let before = route_of(&["203.0.113.1", "", "198.51.100.1", "192.0.2.7"]);
        let after = route_of(&["203.0.113.1", "203.0.113.9", "100.64.0.1", "192.0.2.7"]);
        assert!(before.reached && after.reached);
        assert_eq!(before.hops[1].sent, 3);
        assert_eq!(before.hops[3].answers[0].rtts_ns, [4_000_000]);
        assert_eq!(compare_routes(&after, &before).kind, RouteChangeKind::OneHop);
        let silent = route_of(&["203.0.113.1", "203.0.113.9", "198.51.100.1", "192.0.2.7"]);
        assert_eq!(compare_routes(&silent, &before).kind, RouteChangeKind::SilentHop);
    }

    #[test]
    fn what_did_not_arrive_did_not() {
        let route = route_of(&["203.0.113.1", "198.51.100.1"]);
        assert!(!route.reached);
        assert_eq!(route.ended_by, "silent");
    }

    #[test]
    fn names_alone_and_silence_alone_are_no_route() {
        let mut named = traced(&["203.0.113.1", "192.0.2.7"]);
        named.observation.hops[0].addresses.clear();
        assert_eq!(convert_to_path_report(&named), None);
        assert_eq!(convert_to_path_report(&traced(&["", ""])), None);
        assert_eq!(convert_to_path_report(&traced(&[])), None);
    }
}
