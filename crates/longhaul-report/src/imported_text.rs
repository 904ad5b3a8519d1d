//! Results of other programs, as text.

use super::capture_text::sanitize_shown;
use super::flow_text::{label_limit, write_limits};
use crate::document::{DocumentTable, ReportDocument};
use crate::number_format::{
    count_of, format_grouped, format_millis, format_percent, format_rate, format_seconds,
    join_parts, non_empty, or_absent,
};
use crate::style::CAVEAT;
use longhaul_model::report::v1::ImportedReport;
use longhaul_model::report::v1::imported::{
    ImportedHop, ImportedObservation, ImportedPings, ImportedStream, ImportedTransfer,
};

/// The maximum number of rows in a table; `--json` has all.
const MAX_ROWS: usize = 40;

/// Renders the state of each imported result.
pub fn build_import_document(rows: &[(&str, &ImportedReport)]) -> ReportDocument {
    let mut page = ReportDocument::default();
    for (state, report) in rows {
        let run = &report.run;
        let result = summarize_import(report);
        page.paragraph(format!("{}  {state}", run.id));
        let ends = format!(
            "{} to {}",
            sanitize_shown(&run.initiator.host),
            sanitize_shown(&run.responder.host)
        );
        page.item("  ", format!("{}: {result}, {ends}", report.observation.tool));
        for caveat in &report.caveats {
            page.styled_item("  caveat: ", sanitize_shown(&caveat.text), CAVEAT);
        }
    }
    page
}

/// Summarizes the result in a few words.
pub fn summarize_import(report: &ImportedReport) -> String {
    let seen = &report.observation;
    if let Some(bps) = report.analysis.goodput_bps {
        return match report.analysis.streams {
            Some(streams) => {
                format!("{}, {}", format_rate(bps), count_of(u64::from(streams), "stream"))
            }
            None => format!("{}{}", format_rate(bps), describe_limit(report)),
        };
    }
    if let Some(pings) = &seen.pings {
        let least = or_absent(report.analysis.rtt_min_us, format_millis);
        let answered = or_absent(pings.received_packets, format_grouped);
        return format!("min RTT {least} ms, {answered} answers");
    }
    match seen.hops.len() {
        0 => match seen.printed.iter().find(|it| ["mtu", "delay median"].contains(&&*it.name)) {
            Some(figure) => format!("{} {}", figure.name, sanitize_shown(&figure.text)),
            None => "no summary values".to_owned(),
        },
        hops => count_of(hops as u64, "hop"),
    }
}

fn describe_limit(report: &ImportedReport) -> String {
    let Some((seen, concluded)) =
        report.observation.transfers.first().zip(report.analysis.transfers.first())
    else {
        return String::new();
    };
    format!(", limited by {}", label_limit(seen, concluded))
}

/// Renders the whole report.
pub fn build_imported_document(report: &ImportedReport) -> ReportDocument {
    let (run, plan, seen) = (&report.run, &report.plan, &report.observation);
    let mut page = ReportDocument {
        title: format!("imported: {}", summarize_import(report)),
        ..ReportDocument::default()
    };
    page.answer("result", summarize_import(report));
    page.fact("run", format!("{}, {}", run.id, run.started_at));
    let time = match plan.time_from.as_str() {
        "text" => "as printed",
        _ => "given at import",
    };
    page.fact("time", time);
    page.fact("from", sanitize_shown(&run.initiator.host));
    page.fact("to", sanitize_shown(&run.responder.host));
    let version = seen.tool_version.as_deref().unwrap_or_default();
    page.fact("measured by", sanitize_shown(&format!("{} {version}", seen.tool)).trim());
    let file = plan.file.as_deref().unwrap_or("standard input");
    let result = plan.index.saturating_add(1);
    page.fact("file", sanitize_shown(&format!("{file}, result {result} ({})", plan.format)));
    page.facts("command", seen.command.as_deref().map(sanitize_shown));
    write_transfers(&mut page, report);
    write_streams(&mut page, &seen.streams);
    if let Some(pings) = &seen.pings {
        write_pings(&mut page, pings);
    }
    for concluded in &report.analysis.transfers {
        page.gap();
        write_limits(&mut page, concluded);
    }
    page.findings(&report.findings);
    write_hops(&mut page, &seen.hops);
    write_printed(&mut page, seen);
    page.gap();
    page.fact("missing", sanitize_shown(&seen.missing.join("; ")));
    page.caveats(&report.caveats);
    page
}

fn write_transfers(page: &mut ReportDocument, report: &ImportedReport) {
    let (seen, analysis) = (&report.observation, &report.analysis);
    if let Some(bps) = analysis.goodput_bps {
        let by = match analysis.counted_by.as_deref() {
            Some("either") | None => "by an unspecified end",
            Some("sender") => "by the sender",
            Some(_) => "by the receiver",
        };
        page.gap();
        page.strong_fact("rate", format!("{}, counted {by}", format_mbit(bps)));
    }
    for (label, transfer) in
        [("sender", &seen.sender), ("receiver", &seen.receiver), ("total", &seen.either)]
    {
        page.facts(label, transfer.as_ref().map(describe_transfer));
    }
    page.facts("sum of streams", analysis.sum_of_streams_bps.map(format_mbit));
    if !seen.intervals.is_empty() {
        let count = format_grouped(seen.intervals.len() as u64);
        page.fact("intervals", format!("{count} interval readings (`--json` lists all)"));
    }
}

fn describe_transfer(transfer: &ImportedTransfer) -> String {
    let count = |count: Option<u64>, what: &str| {
        count.map(|count| format!("{} {what}", format_grouped(count)))
    };
    let parts = [
        count(transfer.bytes, "bytes"),
        transfer.duration_us.map(|us| format!("{} s", format_seconds(us))),
        transfer.printed_bps.map(|bps| format!("{} as printed", format_mbit(bps))),
        count(transfer.retransmitted_packets, "retransmits"),
        count(transfer.lost_datagrams, "datagrams lost"),
    ];
    or_absent(non_empty(join_parts(", ", parts)), |text| text)
}

fn write_streams(page: &mut ReportDocument, streams: &[ImportedStream]) {
    let find_transfer =
        |stream: &ImportedStream| stream.receiver.or(stream.sender).or(stream.either);
    let transfer = |stream: &ImportedStream| find_transfer(stream).unwrap_or_default();
    let resent = |stream: &ImportedStream| {
        let again = stream.sender.as_ref().or(stream.either.as_ref());
        or_absent(again.and_then(|it| it.retransmitted_packets), format_grouped)
    };
    let mbit = |bps| format!("{:.3}", bps as f64 / 1e6);
    let table = DocumentTable::from_rows(
        streams.iter().take(MAX_ROWS).filter(|it| find_transfer(it).is_some()),
    )
    .text("stream", |it| it.name.clone())
    .number("seconds", |it| or_absent(transfer(it).duration_us, format_seconds))
    .number("bytes", |it| or_absent(transfer(it).bytes, format_grouped))
    .number("Mbit/s printed", |it| or_absent(transfer(it).printed_bps, mbit))
    .number("retr", resent)
    .finish();
    write_rows(page, table, streams.len());
}

/// Writes a table, and how many of its rows are left out.
fn write_rows(page: &mut ReportDocument, table: DocumentTable, rows: usize) {
    if rows == 0 {
        return;
    }
    page.gap();
    page.table(table);
    if rows > MAX_ROWS {
        page.paragraph(format!("and {} more (`--json` lists all)", rows - MAX_ROWS));
    }
}

fn write_pings(page: &mut ReportDocument, pings: &ImportedPings) {
    page.gap();
    let sent = or_absent(pings.sent_packets, format_grouped);
    let received = or_absent(pings.received_packets, format_grouped);
    page.fact("echo requests", format!("{sent} sent, {received} answered"));
    let figures = [pings.rtt_min_us, pings.rtt_mean_us, pings.rtt_max_us];
    let figures = figures.map(|it| or_absent(it, format_millis));
    page.fact("RTT", format!("{} ms (min / mean / max)", figures.join(" / ")));
}

fn write_hops(page: &mut ReportDocument, hops: &[ImportedHop]) {
    let rtt = |hop: &ImportedHop| {
        let least = hop.rtt_min_us.or(hop.rtts_us.iter().min().copied());
        let bounded = hop.bounded_packets.filter(|_| least.is_none());
        bounded.map_or_else(|| or_absent(least, format_millis), |_| "<1".to_owned())
    };
    let host = |hop: &ImportedHop| match (&hop.host, hop.addresses.first()) {
        (Some(host), Some(address)) => format!("{host} ({address})"),
        (host, address) => or_absent(host.as_ref().or(address), String::clone),
    };
    let table = DocumentTable::from_rows(hops.iter().take(MAX_ROWS))
        .number("hop", |hop| hop.ttl_index.to_string())
        .text("host", host)
        .number("RTT ms", rtt)
        .number("loss", |hop| or_absent(hop.loss_ratio, format_percent))
        .finish();
    write_rows(page, table, hops.len());
}

fn write_printed(page: &mut ReportDocument, seen: &ImportedObservation) {
    if seen.printed.is_empty() {
        return;
    }
    page.gap();
    let pairs = seen.printed.iter().take(MAX_ROWS);
    let pairs =
        pairs.map(|it| format!("{} {}", sanitize_shown(&it.name), sanitize_shown(&it.text)));
    let pairs: Vec<String> = pairs.collect();
    page.fact("other output", pairs.join("; "));
}

/// Formats a rate with three decimals, as programs print it.
fn format_mbit(bps: u64) -> String {
    format!("{:.3} Mbit/s", bps as f64 / 1e6)
}
