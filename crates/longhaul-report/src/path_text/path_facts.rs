//! Measurements of a path besides its hops: RTTs, changes, path MTU, TCP options.

use super::{format_ms, protocol_name};
use crate::document::ReportDocument;
use crate::number_format::{count_of, format_grouped, format_percent, join_parts, non_empty};
use longhaul_analysis::path::path_format;
use longhaul_model::report::v1::observation::TcpOptions;
use longhaul_model::report::v1::path::{
    MtuSearch, PathAnalysis, PathMtu, PathObservation, PathRtt, PathTcpOptions, RoundTripSeries,
    RouteChangeKind, RouteDifference,
};

/// Writes the RTTs from here, and those measured by the peer.
pub fn write_round_trips(
    page: &mut ReportDocument,
    observation: &PathObservation,
    analysis: &PathAnalysis,
) {
    if let Some(echoes) = &observation.round_trips {
        write_rtt_series(page, "RTT", echoes, analysis.rtt);
    }
    if let Some(echoes) = &observation.round_trips_reverse {
        write_rtt_series(page, "RTT from server", echoes, analysis.rtt_reverse);
    }
}

fn write_rtt_series(
    page: &mut ReportDocument,
    label: &str,
    echoes: &RoundTripSeries,
    rtt: Option<PathRtt>,
) {
    let what = format!("{} packets of {} B", protocol_name(echoes.protocol), echoes.packet_bytes);
    let Some(rtt) = rtt else {
        let sent = format_grouped(u64::from(echoes.sent));
        page.strong_fact(label, format!("no answer to {sent} {what}"));
        return;
    };
    // All values have the precision of the mean.
    let decimals = if rtt.avg_ns >= 10_000_000 { 1 } else { 3 };
    let ms = |ns: u64| format!("{:.decimals$}", ns as f64 / 1e6);
    let spread = format!(
        "min {}, median {}, mean {}, max {}, stddev {} ms",
        ms(rtt.min_ns),
        ms(rtt.median_ns),
        ms(rtt.avg_ns),
        ms(rtt.max_ns),
        ms(rtt.stddev_ns)
    );
    page.strong_fact(label, &spread);
    let clock = match echoes.clock.as_str() {
        "kernel" => ", kernel timestamps",
        "kernel_receive" => ", kernel receive timestamps",
        _ => "",
    };
    let (answered, sent) = (rtt.answered, rtt.sent);
    let answers = format!("{answered} of {sent} {what} answered{clock}");
    let [low, high] = rtt.loss_interval_ratio;
    let lost = match rtt.loss_ratio {
        0.0 => "none lost".to_owned(),
        ratio => format!("{} lost", format_percent(ratio)),
    };
    let (low, high) = (format_percent(low), format_percent(high));
    let mut parts = vec![format!("{lost} (95 % interval {low} to {high})")];
    for (number, noun) in [
        (rtt.duplicates, "duplicate"),
        (rtt.reordered, "reordered answer"),
        (echoes.discarded, "invalid answer"),
    ] {
        parts.extend((number > 0).then(|| count_of(u64::from(number), noun)));
    }
    page.details(|page| page.facts("", [answers, parts.join(", ")]));
}

/// Writes the difference from the previous route.
pub fn write_route_change(page: &mut ReportDocument, change: Option<&RouteDifference>) {
    let Some(change) = change else {
        return;
    };
    let other = match change.other_number {
        Some(number) => format!("route {number}"),
        None => "the previous route".to_owned(),
    };
    let mut parts = vec![format!("{}, compared with {other}", describe_change_kind(change.kind))];
    if change.kind != RouteChangeKind::Same {
        parts.extend(change.ranges.iter().map(path_format::format_hop_change));
    }
    if let Some(step) = change.rtt_step_ns {
        let sign = if step < 0 { "-" } else { "+" };
        parts.push(format!("RTT {sign}{} ms", format_ms(step.unsigned_abs())));
    }
    page.fact("change", parts.join("; "));
    page.facts("", change.other_run.as_ref().map(|run| format!("previous run: {run}")));
}

/// Describes a kind of change in a few words.
pub fn describe_change_kind(kind: RouteChangeKind) -> &'static str {
    match kind {
        RouteChangeKind::Same => "none",
        RouteChangeKind::SilentHop => "none visible: some hops silent in one of the two",
        RouteChangeKind::Stutter => "one hop answers at two TTLs",
        RouteChangeKind::LastOctet => "last octets differ",
        RouteChangeKind::SameAs => "other routers of the same AS",
        RouteChangeKind::OneHop => "one hop differs",
        RouteChangeKind::SeveralHops => "several hops differ",
        RouteChangeKind::EndNotReached => "destination not reached",
    }
}

/// Writes path MTU and TCP options.
pub fn write_mtu_and_options(
    page: &mut ReportDocument,
    observation: &PathObservation,
    analysis: &PathAnalysis,
) {
    let (search, options) = (&observation.mtu, &observation.options);
    if analysis.path_mtu.is_some() || search.is_some() || options.is_some() {
        page.gap();
    }
    match (&analysis.path_mtu, search) {
        (Some(mtu), search) => write_path_mtu(page, mtu, search.as_ref()),
        (None, Some(_)) => {
            page.fact("path MTU", "unknown: no packet of any size was answered");
        }
        (None, None) => {}
    }
    if let Some(options) = options {
        write_tcp_options(page, options);
    }
}

fn write_path_mtu(page: &mut ReportDocument, mtu: &PathMtu, search: Option<&MtuSearch>) {
    let bytes = |bytes: u32| format!("{} B", format_grouped(bytes.into()));
    page.strong_fact("path MTU", bytes(mtu.bytes));
    let probes = search.map_or(&[][..], |search| &search.probes);
    let told = probes.iter().find_map(|probe| {
        let fits = probe.refused_mtu_bytes.map(|mtu| format!(", MTU {}", bytes(mtu)));
        Some(format!("reported by {}{}", probe.refused_by.as_ref()?, fits.unwrap_or_default()))
    });
    let black_hole = "larger packets are dropped without an ICMP error: black hole";
    let parts = [
        search.map(|search| format!("interface {}", bytes(search.local_bytes))),
        mtu.refused_bytes.map(|refused| format!("{} did not arrive", bytes(refused))),
        told,
        mtu.black_hole.then(|| black_hole.to_owned()),
    ];
    page.facts("", non_empty(join_parts("; ", parts)));
}

/// An option by name, and whether it is in force.
type NamedOption = (&'static str, fn(&TcpOptions) -> bool);

const OPTIONS: [NamedOption; 4] = [
    ("timestamps", |options| options.timestamps),
    ("selective acknowledgements", |options| options.sack),
    ("window scaling", |options| options.window_scaling),
    ("ECN", |options| options.ecn),
];

fn write_tcp_options(page: &mut ReportDocument, options: &PathTcpOptions) {
    let names = |options: TcpOptions| {
        let set = OPTIONS.iter().filter(|(_, is_set)| is_set(&options));
        let names: Vec<&str> = set.map(|(name, _)| *name).collect();
        if names.is_empty() { "none".to_owned() } else { names.join(", ") }
    };
    for (label, in_force, mss) in [
        ("TCP options", options.here, options.mss_here_bytes),
        ("at the server", options.there, options.mss_there_bytes),
    ] {
        if let Some(in_force) = in_force {
            let mss = mss
                .map_or_else(String::new, |mss| format!("; MSS {} B", format_grouped(mss.into())));
            page.fact(label, format!("{}{mss}", names(in_force)));
        }
    }
    if let (Some(here), Some(there), Some(got)) =
        (options.offered_here, options.offered_there, options.here)
    {
        let is_lost =
            |is_set: fn(&TcpOptions) -> bool| is_set(&here) && is_set(&there) && !is_set(&got);
        let lost = OPTIONS.iter().filter(|(name, is_set)| *name != "ECN" && is_lost(*is_set));
        let lost: Vec<&str> = lost.map(|(name, _)| *name).collect();
        if !lost.is_empty() {
            let text = format!(
                "offered by both ends but not negotiated: {}; a middlebox strips it",
                lost.join(", ")
            );
            page.fact("", &text);
        }
    }
}
