//! Turns flows that fireflies reported into a report of kind `flows`.
//!
//! A transfer has the experiment and activity in place of the program, and the far host as its peer:
//! the destination, or the source if the destination is this host. Its counters are those of the
//! source in any case.

use super::firefly_table::EndedFlow;
use jiff::Timestamp;
use longhaul_analysis::flow_analysis::conclude_flows;
use longhaul_import::firefly::FlowTag;
use longhaul_model::report::v1::flows::flow_grouping::{FlowSeries, group_flows};
use longhaul_model::report::v1::flows::{
    FlowsObservation, FlowsPlan, ObservedTransfer, ProcessIdentity,
};
use longhaul_model::report::v1::observation::{HostFacts, StreamEnd};
use longhaul_model::report::v1::{FlowsReport, Report, RunEnvironment, RunInfo, RunParty};
use longhaul_report::run_header::create_run_header;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

/// The maximum number of transfers in a report, the largest first.
const MAX_TRANSFERS: usize = 64;

/// The host that reports.
pub struct ReportingHost<'a> {
    pub name: &'a str,
    pub addresses: &'a [IpAddr],
}

/// Builds a report of ended flows; `None` if there are none.
pub fn build_firefly_report(host: &ReportingHost, flows: Vec<EndedFlow>) -> Option<FlowsReport> {
    let started = flows.iter().map(|it| it.started).min()?;
    let ended = flows.iter().map(|it| it.ended).max()?;
    let elapsed_us = count_micros(started, ended);
    let plan = FlowsPlan {
        selector: "fireflies".to_owned(),
        duration_us: elapsed_us,
        ..FlowsPlan::default()
    };
    let observation = FlowsObservation {
        host: HostFacts { name: host.name.to_owned(), ..HostFacts::default() },
        elapsed_us,
        matching_flows: flows.len() as u64,
        small_flow_bytes: None,
        transfers: group_tagged_flows(host, &plan, started, flows),
    };
    let own = RunParty { host: host.name.to_owned(), ..RunParty::default() };
    let address = observation.transfers.first().map(|it| it.peer.clone());
    let host = address.clone().unwrap_or_default();
    let peer = RunParty { host, address, ..RunParty::default() };
    let run = create_run_header(started, Duration::from_micros(elapsed_us), own, peer);
    let run = RunInfo { environment: Some(RunEnvironment::Network), ..run };
    let concluded = conclude_flows(&observation);
    let report = Report::new(run, plan, observation, concluded.analysis);
    Some(report.with_notes(concluded.findings, concluded.caveats))
}

fn count_micros(from: Timestamp, to: Timestamp) -> u64 {
    u64::try_from(to.duration_since(from).as_micros()).unwrap_or(0)
}

/// Groups the flows of each tag to transfers, whose times count from `started`.
fn group_tagged_flows(
    host: &ReportingHost,
    plan: &FlowsPlan,
    started: Timestamp,
    flows: Vec<EndedFlow>,
) -> Vec<ObservedTransfer> {
    let mut tagged: BTreeMap<FlowTag, Vec<FlowSeries>> = BTreeMap::new();
    for EndedFlow { scitag, started: began, mut series, .. } in flows {
        let shift_us = count_micros(started, began);
        for sample in &mut series.samples {
            sample.at_us = sample.at_us.saturating_add(shift_us);
        }
        tagged.entry(scitag).or_default().push(series);
    }
    let mut transfers: Vec<ObservedTransfer> = Vec::new();
    for (scitag, series) in tagged {
        let of_tag = group_flows(series, plan, &HostFacts::default()).into_iter();
        transfers.extend(of_tag.map(|transfer| name_ends(transfer, scitag, host.addresses)));
    }
    transfers.sort_by_key(|it| Reverse(it.run.ends.receiver.bytes));
    transfers.truncate(MAX_TRANSFERS);
    transfers
}

/// Removes samples of which only the bytes are known; zeros in place of counters would name a limit.
fn forget_bare_counts(end: &mut StreamEnd) {
    end.samples.retain(|it| it.tcp.as_ref().is_some_and(|tcp| tcp.mss_bytes > 0));
}

/// Names the tag of a transfer, and the end that is not this host.
fn name_ends(mut transfer: ObservedTransfer, scitag: FlowTag, own: &[IpAddr]) -> ObservedTransfer {
    for stream in &mut transfer.run.streams {
        forget_bare_counts(&mut stream.sender);
        forget_bare_counts(&mut stream.receiver);
    }
    let process = Some(ProcessIdentity { pid: 0, name: scitag.name(), parent: None });
    let is_own = |address: &str| address.parse().is_ok_and(|it: IpAddr| own.contains(&it));
    let source = transfer.run.streams.first().and_then(|stream| {
        let end = if transfer.sends { &stream.sender } else { &stream.receiver };
        let source: SocketAddr = end.local.as_ref()?.parse().ok()?;
        Some(source.ip().to_string())
    });
    match source.filter(|source| is_own(&transfer.peer) && !is_own(source)) {
        Some(peer) => ObservedTransfer { process, peer, sends: !transfer.sends, ..transfer },
        None => ObservedTransfer { process, ..transfer },
    }
}

#[cfg(test)]
mod tests {
    use super::super::firefly_table::FireflyTable;
    use super::super::firefly_table::tests::{firefly, sampled, with_bytes};
    use super::*;
    use longhaul_history::change_detection::extract_points;
    use longhaul_import::firefly::FlowState;
    use longhaul_model::report::v1::AnyReport;
    use longhaul_model::report::v1::analysis::Limiter;
    use longhaul_model::report::v1::quantity::PathQuantity;

    fn report_at(own: &str) -> FlowsReport {
        let mut table = FireflyTable::default();
        for second in 1..=20 {
            table.add(&sampled(FlowState::Ongoing, 1, second), 0);
        }
        table.add(&firefly(FlowState::End, 1, 21), 0);
        let mut other = with_bytes(firefly(FlowState::End, 2, 10), 10_000_000);
        other.scitag = FlowTag { experiment: 3, activity: 4 };
        table.add(&other, 0);
        let own = [own.parse().expect("an address")];
        let host = ReportingHost { name: "dtn", addresses: &own };
        build_firefly_report(&host, table.take_ended_flows()).expect("flows")
    }

    #[test]
    fn transfers_have_their_tag_their_rate_and_the_limit_that_the_counters_show() {
        let report = report_at("192.0.2.1");
        let [atlas, cms] = &report.observation.transfers[..] else { panic!("two transfers") };
        let name = |it: &ObservedTransfer| it.process.as_ref().map(|it| it.name.clone());
        assert_eq!(name(atlas).as_deref(), Some("atlas/Staging"));
        assert_eq!(name(cms).as_deref(), Some("cms/Data Challenge"));
        assert!(atlas.sends && atlas.peer == "198.51.100.7");
        let [first, second] = &report.analysis.transfers[..] else { panic!("two conclusions") };
        assert_eq!(first.run.limited_by, Limiter::ReceiveWindow);
        assert!(first.run.goodput_bps.is_some_and(|bps| bps.abs_diff(104_857_600) < 1_000_000));
        assert_eq!(second.run.limited_by, Limiter::Unknown, "bytes alone name no limit");
        assert_eq!(second.run.goodput_bps, Some(8_000_000));
    }

    #[test]
    fn the_peer_is_the_end_that_is_not_this_host() {
        let report = report_at("198.51.100.7");
        let atlas = &report.observation.transfers[0];
        assert!(!atlas.sends && atlas.peer == "192.0.2.1");
        assert_eq!(report.analysis.transfers[0].run.limited_by, Limiter::ReceiveWindow);
        let points = extract_points(&AnyReport::Flows(Box::new(report)), Some("dtn"), None);
        let goodput = points.iter().find(|(_, quantity, _)| *quantity == PathQuantity::Goodput);
        let (pair, ..) = goodput.expect("a series");
        assert_eq!((pair.from.as_str(), pair.to.as_str()), ("192.0.2.1", "dtn/atlas/Staging"));
    }
}
