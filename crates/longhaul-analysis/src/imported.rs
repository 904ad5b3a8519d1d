//! Derives the results of an imported text and checks that its figures agree.
//!
//! Units: bytes, microseconds, bit/s. Rates are derived from bytes and time; a printed rate is used
//! only if one of them is missing. Figures agree if rounding in print explains the difference.
//! Wrong when the text counts the bytes of another time span than it prints.
//!
//! The limits of transfers with TCP counters are those that [`crate::flow_analysis`] finds.
//!
//! # Imported route
//!
//! Converts a route that another program traced into a path report.
//!
//! Only the route is present. If the text does not give the kind of probe packet, the program's
//! default is assumed, and the route says so. Hops that have names but no addresses cannot be
//! compared, so such a route is rejected.

use crate::RunConclusion;
use crate::flow_analysis::conclude_transfers;
use longhaul_model::report::v1::imported::{
    ImportedAnalysis, ImportedHop as Step, ImportedObservation, ImportedTransfer,
};
use longhaul_model::report::v1::path::{
    self, HopReply, ObservedHop, ObservedRoute, PathAnalysis, PathObservation as Seen, PathPlan,
    ProbeProtocol,
};
use longhaul_model::report::v1::{ImportedReport, PathReport, ReportCaveat, ReportKind};

/// Seconds are printed to the millisecond or finer, or to a hundredth by iperf.
const TIME_ROUNDING_US: u64 = 5_000;

/// Draws all conclusions from an imported observation.
pub fn conclude_imported(seen: &ImportedObservation) -> RunConclusion<ImportedAnalysis> {
    let counted = conclude_transfers(&seen.transfers);
    let mut caveats = counted.caveats;
    let chosen = choose_transfer(seen);
    let goodput_bps = chosen.and_then(|(_, transfer)| compute_rate(transfer));
    if let Some((whose, transfer)) = chosen {
        add_count_caveats(whose, transfer, &mut caveats);
    }
    let sum = sum_stream_rates(seen);
    if let Some((sum, Some(total))) = sum {
        check_rate_sums(sum, seen.streams.len() as u64, total, &mut caveats);
    }
    let gap_bytes = compare_byte_counts(seen, &mut caveats);
    let analysis = ImportedAnalysis {
        version: crate::VERSION,
        streams: u32::try_from(seen.streams.len()).ok().filter(|n| *n > 0),
        goodput_bps,
        counted_by: chosen.map(|(whose, _)| whose.to_owned()),
        sum_of_streams_bps: sum.map(|(sum, _)| sum),
        gap_bytes,
        rtt_min_us: find_min_rtt(seen),
        transfers: counted.analysis.transfers,
    };
    RunConclusion { analysis, findings: counted.findings, caveats }
}

/// Payload and its duration, as one end printed them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CountedTransfer {
    /// `receiver`, `sender` or `either`.
    pub by: &'static str,
    pub bytes: u64,
    pub duration_us: u64,
}

/// Returns the first count with both bytes and time, the receiver before the sender.
pub fn find_counted_bytes(seen: &ImportedObservation) -> Option<CountedTransfer> {
    list_transfers(seen).into_iter().find_map(|(by, transfer)| {
        let transfer = transfer?;
        Some(CountedTransfer {
            by,
            bytes: transfer.bytes.filter(|bytes| *bytes > 0)?,
            duration_us: transfer.duration_us.filter(|us| *us > 0)?,
        })
    })
}

/// Returns the receiver's count, or else the sender's.
fn choose_transfer(seen: &ImportedObservation) -> Option<(&'static str, &ImportedTransfer)> {
    let mut known = list_transfers(seen).into_iter().filter_map(|(by, it)| Some((by, it?)));
    known.find(|(_, it)| compute_rate(it).is_some())
}

/// Returns the counts of the whole transfer, the most reliable first.
fn list_transfers(seen: &ImportedObservation) -> [(&'static str, Option<&ImportedTransfer>); 3] {
    [
        ("receiver", seen.receiver.as_ref()),
        ("sender", seen.sender.as_ref()),
        ("either", seen.either.as_ref()),
    ]
}

/// Returns the rate from bytes and time, or the printed rate if one of them is missing.
fn compute_rate(transfer: &ImportedTransfer) -> Option<u64> {
    derive_rate(transfer).or(transfer.printed_bps)
}

fn derive_rate(transfer: &ImportedTransfer) -> Option<u64> {
    let us = u128::from(transfer.duration_us.filter(|us| *us > 0)?);
    let bits = u128::from(transfer.bytes?) * 8_000_000;
    u64::try_from((bits + us / 2) / us).ok()
}

fn add_count_caveats(whose: &str, transfer: &ImportedTransfer, caveats: &mut Vec<ReportCaveat>) {
    let text = match whose {
        "sender" => "the rate is the sender's: the text does not contain the receiver's count",
        "either" => "the text does not say which end counted the bytes of the rate",
        _ => "",
    };
    if !text.is_empty() {
        caveats.push(ReportCaveat::new("not_counted_by_receiver", text));
    }
    if let (Some(bytes), Some(rounding)) = (transfer.bytes, transfer.rounding_bytes)
        && rounding > bytes / 2000
    {
        let text = format!("the bytes are rounded in the text: {bytes} may be {rounding} off");
        caveats.push(ReportCaveat::new("rounded", text));
    }
    if derive_rate(transfer).is_none() {
        let text = "the rate is the printed one: the text does not contain bytes or time";
        caveats.push(ReportCaveat::new("rate_as_printed", text));
    }
}

/// Sums the rates of all streams by the first end that has all of them; adds the total of that end.
fn sum_stream_rates(seen: &ImportedObservation) -> Option<(u64, Option<&ImportedTransfer>)> {
    if seen.streams.is_empty() {
        return None;
    }
    list_transfers(seen).into_iter().enumerate().find_map(|(end, (_, total))| {
        let mut rates = seen.streams.iter().map(|stream| {
            let counts = [&stream.receiver, &stream.sender, &stream.either];
            read_rate(counts[end].as_ref()?)
        });
        let sum = rates.try_fold(0_u64, |sum, rate| sum.checked_add(rate?))?;
        Some((sum, total))
    })
}

/// Returns the printed rate, or else the rate from bytes and time.
fn read_rate(transfer: &ImportedTransfer) -> Option<u64> {
    transfer.printed_bps.or_else(|| derive_rate(transfer))
}

/// Tolerates half a unit of the last printed digit for each stream and the total, plus a fraction
/// for streams that ended at slightly different times.
fn check_rate_sums(
    sum: u64,
    streams: u64,
    total: &ImportedTransfer,
    caveats: &mut Vec<ReportCaveat>,
) {
    let Some(whole) = read_rate(total) else {
        return;
    };
    let rounding = total.rounding_bps.unwrap_or(1);
    let allowed = (streams + 1).saturating_mul(rounding);
    let allowed = allowed.saturating_add(whole / 1000);
    if sum.abs_diff(whole) > allowed {
        let text = format!(
            "the rates of the streams add up to {} Mbit/s, but that of all together is {} Mbit/s",
            format_millions(sum),
            format_millions(whole)
        );
        caveats.push(ReportCaveat::new("streams_and_total_differ", text));
    }
}

/// Compares two counts of the same bytes: of both ends, or bytes with rate and time.
fn compare_byte_counts(seen: &ImportedObservation, caveats: &mut Vec<ReportCaveat>) -> Option<i64> {
    let ends = seen.sender.as_ref().zip(seen.receiver.as_ref());
    if let Some((sent, received)) = ends
        && let (Some(sent_bytes), Some(received_bytes)) = (sent.bytes, received.bytes)
    {
        let rounding = sent.rounding_bytes.unwrap_or(0) + received.rounding_bytes.unwrap_or(0);
        // Bytes in flight at the end are no contradiction unless they are a real share.
        let allowed = rounding + sent_bytes / 100;
        if sent_bytes.abs_diff(received_bytes) > allowed {
            let text = format!(
                "the sender counted {} MB and the receiver {} MB",
                format_millions(sent_bytes),
                format_millions(received_bytes)
            );
            caveats.push(ReportCaveat::new("counters_differ", text));
        }
        return i64::try_from(i128::from(sent_bytes) - i128::from(received_bytes)).ok();
    }
    let total = choose_transfer(seen)?.1;
    compare_with_rate(total, caveats)
}

fn compare_with_rate(total: &ImportedTransfer, caveats: &mut Vec<ReportCaveat>) -> Option<i64> {
    let (bytes, us, bps) = (total.bytes?, total.duration_us?, total.printed_bps?);
    let made = u128::from(bps) * u128::from(us) / 8_000_000;
    let made = u64::try_from(made).ok()?;
    let by_digits = u128::from(total.rounding_bps.unwrap_or(1)) * u128::from(us) / 8_000_000;
    let by_time = u128::from(bps) * u128::from(TIME_ROUNDING_US.min(us / 1000)) / 8_000_000;
    let allowed = u64::try_from(by_digits + by_time).ok()?;
    let allowed = allowed.saturating_add(total.rounding_bytes.unwrap_or(1));
    if bytes.abs_diff(made) > allowed {
        let text = format!(
            "two counts of the text differ by {} MB, more than rounding explains: it prints {} MB, \
             and its rate of {} Mbit/s over {}.{:03} s makes {} MB",
            format_millions(bytes.abs_diff(made)),
            format_millions(bytes),
            format_millions(bps),
            us / 1_000_000,
            us / 1000 % 1000,
            format_millions(made)
        );
        caveats.push(ReportCaveat::new("counters_differ", text));
    }
    i64::try_from(i128::from(bytes) - i128::from(made)).ok()
}

fn find_min_rtt(seen: &ImportedObservation) -> Option<u64> {
    let pings = seen.pings.as_ref();
    let least = pings.and_then(|it| it.rtt_min_us.or_else(|| it.rtts_us.iter().min().copied()));
    let streams = seen.streams.iter().flat_map(|it| [&it.sender, &it.receiver, &it.either]);
    let totals = [&seen.sender, &seen.receiver, &seen.either];
    let of_transfers = streams.chain(totals).flatten().filter_map(|it| it.rtt_min_us).min();
    least.or(of_transfers)
}

/// Formats millions with three decimals.
fn format_millions(number: u64) -> String {
    format!("{:.3}", number as f64 / 1e6)
}

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
    use longhaul_model::report::v1::imported::ImportedStream;

    fn transfer(bytes: u64, seconds: f64, mbps: f64) -> ImportedTransfer {
        ImportedTransfer {
            bytes: Some(bytes),
            duration_us: Some((seconds * 1e6) as u64),
            printed_bps: Some((mbps * 1e6) as u64),
            rounding_bps: Some(500),
            ..ImportedTransfer::default()
        }
    }

    fn codes(caveats: &[ReportCaveat]) -> Vec<&str> {
        caveats.iter().map(|caveat| caveat.code.as_str()).collect()
    }

    #[test]
    fn bytes_that_rate_and_time_do_not_make_are_told_with_the_gap() {
        let seen = ImportedObservation {
            sender: Some(transfer(498_587_545_600, 638.74, 6244.876)),
            ..ImportedObservation::default()
        };
        let RunConclusion { analysis, caveats, .. } = conclude_imported(&seen);
        assert_eq!(analysis.goodput_bps, Some(6_244_638_452));
        assert_eq!(codes(&caveats), ["not_counted_by_receiver", "counters_differ"]);
        assert!(caveats[1].text.contains("differ by 18.9"), "{caveats:?}");
    }

    #[test]
    fn what_rounding_explains_is_no_contradiction() {
        let seen = ImportedObservation {
            receiver: Some(transfer(125_000_400, 10.0, 100.0)),
            ..ImportedObservation::default()
        };
        let RunConclusion { analysis, caveats, .. } = conclude_imported(&seen);
        assert_eq!(analysis.gap_bytes, Some(400));
        assert_eq!(codes(&caveats), [""; 0]);
    }

    #[test]
    fn streams_that_do_not_add_up_are_told() {
        let stream = |mbps| ImportedStream {
            sender: Some(transfer(1_250_000, 1.0, mbps)),
            ..ImportedStream::default()
        };
        let seen = ImportedObservation {
            streams: vec![stream(10.0), stream(10.0)],
            sender: Some(transfer(3_750_000, 1.0, 30.0)),
            ..ImportedObservation::default()
        };
        let RunConclusion { analysis, caveats, .. } = conclude_imported(&seen);
        assert_eq!(analysis.sum_of_streams_bps, Some(20_000_000));
        assert_eq!(codes(&caveats), ["not_counted_by_receiver", "streams_and_total_differ"]);
    }

    #[test]
    fn streams_of_one_end_are_not_held_against_the_total_of_the_other() {
        let seen = ImportedObservation {
            streams: vec![ImportedStream {
                sender: Some(transfer(1_250_000, 1.0, 10.0)),
                ..ImportedStream::default()
            }],
            sender: Some(transfer(1_250_000, 1.0, 10.0)),
            receiver: Some(ImportedTransfer {
                printed_bps: Some(9_000_000),
                ..ImportedTransfer::default()
            }),
            ..ImportedObservation::default()
        };
        let RunConclusion { analysis, caveats, .. } = conclude_imported(&seen);
        assert_eq!(analysis.sum_of_streams_bps, Some(10_000_000));
        assert_eq!(analysis.goodput_bps, Some(9_000_000));
        assert_eq!(codes(&caveats), ["rate_as_printed"]);
    }

    #[test]
    fn bytes_and_time_are_of_one_end() {
        let seen = ImportedObservation {
            sender: Some(transfer(1_000, 2.0, 0.004)),
            receiver: Some(ImportedTransfer { bytes: Some(900), ..ImportedTransfer::default() }),
            ..ImportedObservation::default()
        };
        let counted = find_counted_bytes(&seen).expect("the sender has both");
        assert_eq!((counted.by, counted.bytes), ("sender", 1_000));
        assert_eq!(find_counted_bytes(&ImportedObservation::default()), None);
    }

    #[test]
    fn nothing_printed_gives_nothing() {
        let RunConclusion { analysis, caveats, .. } =
            conclude_imported(&ImportedObservation::default());
        assert_eq!(analysis.goodput_bps, None);
        assert_eq!(analysis.streams, None);
        assert_eq!(codes(&caveats), [""; 0]);
    }
}

#[cfg(test)]
mod imported_route_tests {
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
                environment: None,
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
