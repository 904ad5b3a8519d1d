//! A report of kind `path` as text: RTTs, both routes, path MTU, TCP options, and the place where
//! the queue grew.
//!
//! - [`hop_table`]: the table of a route
//! - [`path_facts`]: all other measurements, line by line

pub mod hop_table;
pub mod path_facts;

/// The minimum difference between forward and reverse hop count that is remarked on.
const MIN_REMARKED_ASYMMETRY: u8 = 4;

/// Returns the mark by the analysis or the trace; a space if nothing is unusual.
pub fn choose_mark(hop: &ObservedHop, delay: Option<&HopDelay>) -> char {
    if hop.rate_limited {
        return 'r';
    }
    match delay.map(|delay| delay.state.as_str()) {
        Some("rate_limited") => 'r',
        Some("slow_answers") => 's',
        Some("stutter") => '=',
        Some("tunnel") => 't',
        _ => ' ',
    }
}

/// Marks of hops, and what they mean.
const MARKS: [(char, &str); 4] = [
    ('=', "answers at more than one TTL"),
    ('r', "limits the rate of its answers: its loss is not path loss"),
    ('s', "answers slowly: its times say nothing about the link"),
    ('t', "inside or behind a tunnel that hides hops"),
];

/// Explains the marks that are used in a table.
pub fn explain_marks(page: &mut ReportDocument, used: &[char]) {
    for (mark, meaning) in MARKS {
        if used.contains(&mark) {
            page.styled_item(format!("  {mark}  "), meaning, FAINT);
        }
    }
}

/// Returns further remarks on an answer.
pub fn list_remarks(answer: &HopReply, ttl: u8) -> Vec<String> {
    let mut remarks = Vec::new();
    let labels: Vec<String> =
        answer.mpls.iter().map(|label| format!("{} (TTL {})", label.label, label.ttl)).collect();
    if !labels.is_empty() {
        remarks.push(format!("MPLS {}", labels.join(" ")));
    }
    remarks.extend(describe_odd_kind(&answer.kind));
    if let Some(reply) = answer.reply_ttl
        && let Some(back) = estimate_hops_back(reply)
        && back.abs_diff(ttl) >= MIN_REMARKED_ASYMMETRY
    {
        remarks.push(format!("return path of about {back} hops (TTL {reply})"));
    }
    match answer.quoted_ttl {
        Some(0) => remarks.push("forwards packets with TTL 0".to_owned()),
        Some(quoted @ 2..) => {
            remarks.push(format!("received the probe with TTL {quoted}: hidden hops"));
        }
        _ => {}
    }
    if !answer.rewritten.is_empty() {
        let what = answer.rewritten.join(", ").replace('_', " ");
        remarks.push(format!("rewritten upstream: {what}"));
    }
    remarks
}

/// Describes kinds of answers that are unusual on a route.
fn describe_odd_kind(kind: &str) -> Option<String> {
    let words = match kind {
        "time_exceeded" | "echo_reply" | "port_unreachable" | "syn_ack" | "reset" => return None,
        "host_unreachable" => "replies: host unreachable",
        "net_unreachable" => "replies: network unreachable",
        "prohibited" => "replies: administratively prohibited",
        other => return Some(format!("replies: {}", other.replace('_', " "))),
    };
    Some(words.to_owned())
}

/// Estimates the hops of an answer from the next initial TTL that hosts use; `None` if that would
/// be a guess.
fn estimate_hops_back(reply_ttl: u8) -> Option<u8> {
    let begin = [64, 128, 255].into_iter().find(|begin| reply_ttl <= *begin)?;
    let hops = begin - reply_ttl + 1;
    (hops < 64).then_some(hops)
}

/// Writes the hops under load. `told`: a finding already explains the verdict.
fn write_hops_under_load(
    page: &mut ReportDocument,
    observation: &PathObservation,
    analysis: &PathAnalysis,
    told: bool,
) {
    if observation.hop_load.is_none() && analysis.narrow_link.is_none() {
        return;
    }
    page.gap();
    if let Some(watch) = &observation.hop_load {
        write_hop_watch(page, watch);
    }
    if let Some(link) = &analysis.narrow_link {
        write_narrow_link(page, link, told);
    }
}

fn write_hop_watch(page: &mut ReportDocument, watch: &HopWatch) {
    let way = if watch.forward { "client sends" } else { "server sends" };
    let time = watch.load_until_us.saturating_sub(watch.load_from_us);
    let bytes =
        watch.load_bytes.map_or_else(String::new, |bytes| format!(", {} received", Bytes(bytes)));
    page.heading(3, format!("UNDER LOAD: {way} for {}{bytes}", format_micros(time)));
    let within = |hop: &WatchedHop, from: u64, until: u64| {
        let inside = hop.echoes.iter().filter(|echo| (from..until).contains(&echo.at_us));
        let mut rtts: Vec<u64> = inside.filter_map(|echo| echo.rtt_ns).collect();
        rtts.sort_unstable();
        rtts
    };
    let (from, until) = (watch.load_from_us, watch.load_until_us);
    let under_load = |hop: &WatchedHop| {
        let rtts = within(hop, from, until);
        or_absent(rtts.get(rtts.len().saturating_sub(1) / 2).copied(), format_ms)
    };
    let min = |rtts: Vec<u64>| or_absent(rtts.first().copied(), format_ms);
    page.table(
        DocumentTable::from_rows(watch.hops.iter().filter(|hop| has_answer(hop)))
            .number("hop", |hop| hop.ttl.to_string())
            .text("address", |hop| or_absent(hop.address.clone(), |it| it))
            .number("idle min", |hop| min(within(hop, 0, from)))
            .number("under load", under_load)
            .number("after", |hop| min(within(hop, until, u64::MAX)))
            .finish(),
    );
    let notes = [
        Some("median under load, min before and after, in ms".to_owned()),
        watch.own_backlog_bytes.map(|bytes| format!("max local queue {}", Bytes(bytes))),
        watch.run_id.as_ref().map(|id| format!("load: run {id}")),
    ];
    page.faint(join_parts("; ", notes));
}

fn has_answer(hop: &WatchedHop) -> bool {
    hop.echoes.iter().any(|echo| echo.rtt_ns.is_some())
}

/// Describes the place of the narrow link, with the confidence.
pub fn describe_narrow_link(link: &NarrowLink) -> String {
    let sure = format_percent(link.confidence_ratio);
    let verdict = link.verdict.replace('_', " ");
    match (link.after_ttl, link.before_ttl) {
        (Some(after), Some(before)) => {
            format!("{verdict}, between hop {after} and hop {before}; confidence {sure}")
        }
        _ => format!("{verdict}; confidence {sure}"),
    }
}

fn write_narrow_link(page: &mut ReportDocument, link: &NarrowLink, told: bool) {
    page.strong_fact("narrow link", describe_narrow_link(link));
    if told {
        return;
    }
    page.fact("", &link.text);
    if let Some(capacity) = link.capacity_bps {
        let interval = format_interval(link.capacity_interval_bps, format_rate);
        page.fact("", format!("path capacity {}{interval}", format_rate(capacity)));
    }
}

#[cfg(test)]
mod tests;

use crate::document::{DocumentTable, ReportDocument};
use crate::number_format::{
    format_interval, format_micros, format_percent, format_rate, join_parts, or_absent,
};
use crate::run_answer;
use crate::style::{CAVEAT, FAINT};
use longhaul_model::report::v1::PathReport;
use longhaul_model::report::v1::path::{
    HopDelay, HopReply, HopWatch, NarrowLink, ObservedHop, PathAnalysis, PathObservation,
    ProbeProtocol, WatchedHop,
};
use longhaul_model::units::Bytes;

pub fn build_path_document(report: &PathReport) -> ReportDocument {
    let (observation, analysis) = (&report.observation, &report.analysis);
    let mut page = ReportDocument::for_run(&report.run);
    run_answer::answer_path(&mut page, report);
    path_facts::write_round_trips(&mut page, observation, analysis);
    if let Some(route) = &observation.route {
        page.gap();
        hop_table::write_route_heading(&mut page, "ROUTE", analysis.route_number, route);
        hop_table::write_hop_table(&mut page, route, &analysis.hops);
    }
    path_facts::write_route_change(&mut page, analysis.route_change.as_ref());
    if let Some(route) = &observation.route_reverse {
        page.gap();
        page.details(|page| {
            hop_table::write_route_heading(page, "REVERSE ROUTE", None, route);
            hop_table::write_hop_table(page, route, &[]);
        });
        page.facts("symmetry", analysis.symmetry.as_ref().map(|it| it.text.as_str()));
    }
    page.details(|page| {
        path_facts::write_mtu_and_options(page, observation, analysis);
        let told = report.findings.iter().any(|f| f.cause == "narrow_link");
        write_hops_under_load(page, observation, analysis, told);
        page.findings(&report.findings);
    });
    page.caveats(&report.caveats);
    if !observation.missing.is_empty() {
        page.gap();
    }
    for missing in &observation.missing {
        let told = format!("{}: {}", missing.what.replace('_', " "), missing.why);
        page.styled_item("missing: ", &told, CAVEAT);
    }
    page
}

/// Returns the name of a protocol for use in a sentence.
pub const fn protocol_name(protocol: ProbeProtocol) -> &'static str {
    match protocol {
        ProbeProtocol::Icmp => "ICMP",
        ProbeProtocol::Udp => "UDP",
        ProbeProtocol::Tcp => "TCP",
    }
}

/// Formats nanoseconds as milliseconds in 6 columns, with more decimals below 10 ms.
pub fn format_ms(ns: u64) -> String {
    let value = ns as f64 / 1e6;
    match value {
        v if v < 9.9995 => format!("{v:.3}"),
        v if v < 9999.95 => format!("{v:.1}"),
        v => format!("{v:.0}"),
    }
}

#[cfg(test)]
mod hop_marks_tests {
    use super::*;

    #[test]
    fn hops_back_are_counted_from_what_hosts_begin_with() {
        for (reply, hops) in [(64, Some(1)), (243, Some(13)), (120, Some(9)), (0, None)] {
            assert_eq!(estimate_hops_back(reply), hops, "{reply}");
        }
    }

    #[test]
    fn only_what_is_odd_gets_words() {
        let mut answer = HopReply {
            address: "192.0.2.1".to_owned(),
            name: None,
            autonomous_system: None,
            place: None,
            rtts_ns: vec![1],
            reply_ttl: Some(62),
            quoted_ttl: Some(1),
            kind: "time_exceeded".to_owned(),
            mpls: Vec::new(),
            rewritten: Vec::new(),
        };
        assert!(list_remarks(&answer, 3).is_empty());
        answer.reply_ttl = Some(243);
        answer.kind = "prohibited".to_owned();
        answer.rewritten = vec!["source_address".to_owned()];
        let told = list_remarks(&answer, 3).join("; ");
        assert_eq!(
            told,
            "replies: administratively prohibited; return path of about 13 hops (TTL 243); \
             rewritten upstream: source address"
        );
    }
}
