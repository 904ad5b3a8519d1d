//! Results of other programs, as text.

use super::capture_text::sanitize_shown;
use super::number_format::{
    ABSENT, format_grouped, format_millis, format_percent, format_rate, format_seconds, or_absent,
};
use super::style::{CAVEAT, STRONG};
use super::text_page::TextPage;
use longhaul_model::report::v1::ImportedReport;
use longhaul_model::report::v1::imported::{
    ImportedHop, ImportedObservation, ImportedPings, ImportedStream, ImportedTransfer,
};

/// The maximum number of rows in a table; `--json` has all.
const MAX_ROWS: usize = 40;

/// Renders the state of each imported result.
pub fn render_import_results(rows: &[(&str, &ImportedReport)]) -> String {
    let mut page = TextPage::default();
    for (state, report) in rows {
        let run = &report.run;
        let result = summarize_import(report);
        page.line(&format!("{}  {state}", run.id));
        let ends = format!(
            "{} to {}",
            sanitize_shown(&run.initiator.host),
            sanitize_shown(&run.responder.host)
        );
        page.hanging_paragraph(
            "  ",
            &format!("{}: {result}, {ends}", report.observation.tool),
        );
        for caveat in &report.caveats {
            page.hanging_paragraph_styled("  caveat: ", &sanitize_shown(&caveat.text), CAVEAT);
        }
    }
    page.finish()
}

/// Summarizes the result in a few words.
pub fn summarize_import(report: &ImportedReport) -> String {
    let seen = &report.observation;
    if let Some(bps) = report.analysis.goodput_bps {
        return match report.analysis.streams {
            Some(streams) => format!(
                "{}, {}",
                format_rate(bps),
                super::number_format::count_of(u64::from(streams), "stream")
            ),
            None => format_rate(bps),
        };
    }
    if let Some(pings) = &seen.pings {
        let least = or_absent(report.analysis.rtt_min_us, format_millis);
        let answered = or_absent(pings.received_packets, format_grouped);
        return format!("min RTT {least} ms, {answered} answers");
    }
    match seen.hops.len() {
        0 => "no summary values".to_owned(),
        hops => super::number_format::count_of(hops as u64, "hop"),
    }
}

/// Renders the whole report.
pub fn render_imported(report: &ImportedReport) -> String {
    let (run, plan, seen) = (&report.run, &report.plan, &report.observation);
    let mut page = TextPage::default();
    page.heading(&format!("imported: {}", summarize_import(report)));
    page.label_line("run", &format!("{}, {}", run.id, run.started_at));
    let time = match plan.time_from.as_str() {
        "text" => "as printed",
        _ => "given at import",
    };
    page.label_line("time", time);
    page.label_line("from", &sanitize_shown(&run.initiator.host));
    page.label_line("to", &sanitize_shown(&run.responder.host));
    let version = seen.tool_version.as_deref().unwrap_or_default();
    page.label_line(
        "measured by",
        sanitize_shown(&format!("{} {version}", seen.tool)).trim(),
    );
    let file = plan.file.as_deref().unwrap_or("standard input");
    let result = plan.index + 1;
    page.label_line(
        "file",
        &sanitize_shown(&format!("{file}, result {result} ({})", plan.format)),
    );
    if let Some(command) = &seen.command {
        page.label_line("command", &sanitize_shown(command));
    }
    write_transfers(&mut page, report);
    write_streams(&mut page, &seen.streams);
    if let Some(pings) = &seen.pings {
        write_pings(&mut page, pings);
    }
    write_hops(&mut page, &seen.hops);
    write_printed(&mut page, seen);
    page.blank();
    page.label_line("missing", &sanitize_shown(&seen.missing.join("; ")));
    for caveat in &report.caveats {
        page.hanging_paragraph_styled("caveat: ", &sanitize_shown(&caveat.text), CAVEAT);
    }
    page.finish()
}

fn write_transfers(page: &mut TextPage, report: &ImportedReport) {
    let (seen, analysis) = (&report.observation, &report.analysis);
    if let Some(bps) = analysis.goodput_bps {
        let by = match analysis.counted_by.as_deref() {
            Some("either") | None => "by an unspecified end",
            Some("sender") => "by the sender",
            Some(_) => "by the receiver",
        };
        page.blank();
        page.label_line_styled(
            "rate",
            &format!("{}, counted {by}", format_mbit(bps)),
            STRONG,
        );
    }
    for (label, transfer) in [
        ("sender", &seen.sender),
        ("receiver", &seen.receiver),
        ("total", &seen.either),
    ] {
        if let Some(transfer) = transfer {
            page.label_line(label, &describe_transfer(transfer));
        }
    }
    if let Some(sum) = analysis.sum_of_streams_bps {
        page.label_line("sum of streams", &format_mbit(sum));
    }
    if !seen.intervals.is_empty() {
        let count = format_grouped(seen.intervals.len() as u64);
        page.label_line(
            "intervals",
            &format!("{count} interval readings (`--json` lists all)"),
        );
    }
}

fn describe_transfer(transfer: &ImportedTransfer) -> String {
    let mut parts = Vec::new();
    parts.extend(
        transfer
            .bytes
            .map(|it| format!("{} bytes", format_grouped(it))),
    );
    parts.extend(
        transfer
            .duration_us
            .map(|us| format!("{} s", format_seconds(us))),
    );
    parts.extend(
        transfer
            .printed_bps
            .map(|bps| format!("{} as printed", format_mbit(bps))),
    );
    let again = transfer.retransmitted_packets;
    parts.extend(again.map(|it| format!("{} retransmits", format_grouped(it))));
    let lost = transfer.lost_datagrams;
    parts.extend(lost.map(|it| format!("{} datagrams lost", format_grouped(it))));
    if parts.is_empty() {
        parts.push(ABSENT.to_owned());
    }
    parts.join(", ")
}

fn write_streams(page: &mut TextPage, streams: &[ImportedStream]) {
    if streams.is_empty() {
        return;
    }
    page.blank();
    page.heading(&format!(
        "{:<8}{:>10}{:>22}{:>18}{:>12}",
        "stream", "seconds", "bytes", "Mbit/s printed", "retr"
    ));
    for stream in streams.iter().take(MAX_ROWS) {
        let ends = [&stream.receiver, &stream.sender, &stream.either];
        let Some(transfer) = ends.into_iter().flatten().next() else {
            continue;
        };
        let again = stream.sender.as_ref().or(stream.either.as_ref());
        let again = again.and_then(|it| it.retransmitted_packets);
        let name: String = sanitize_shown(&stream.name).chars().take(7).collect();
        page.line(&format!(
            "{name:<8}{:>10}{:>22}{:>18}{:>12}",
            or_absent(transfer.duration_us, format_seconds),
            or_absent(transfer.bytes, format_grouped),
            or_absent(transfer.printed_bps, |bps| format!(
                "{:.3}",
                bps as f64 / 1e6
            )),
            or_absent(again, format_grouped),
        ));
    }
    write_omitted_rows(page, streams.len());
}

fn write_omitted_rows(page: &mut TextPage, rows: usize) {
    if rows > MAX_ROWS {
        page.line(&format!(
            "and {} more (`--json` lists all)",
            rows - MAX_ROWS
        ));
    }
}

fn write_pings(page: &mut TextPage, pings: &ImportedPings) {
    page.blank();
    let sent = or_absent(pings.sent_packets, format_grouped);
    let received = or_absent(pings.received_packets, format_grouped);
    page.label_line(
        "echo requests",
        &format!("{sent} sent, {received} answered"),
    );
    let figures = [pings.rtt_min_us, pings.rtt_mean_us, pings.rtt_max_us];
    let figures = figures.map(|it| or_absent(it, format_millis));
    page.label_line(
        "RTT",
        &format!("{} ms (min / mean / max)", figures.join(" / ")),
    );
}

fn write_hops(page: &mut TextPage, hops: &[ImportedHop]) {
    if hops.is_empty() {
        return;
    }
    page.blank();
    page.heading(&format!(
        "{:>3}  {:<52}{:>10}{:>9}",
        "hop", "host", "RTT ms", "loss"
    ));
    for hop in hops.iter().take(MAX_ROWS) {
        let least = hop.rtt_min_us.or(hop.rtts_us.iter().min().copied());
        let bounded = hop.bounded_packets.filter(|_| least.is_none());
        let rtt = bounded.map_or_else(|| or_absent(least, format_millis), |_| "<1".to_owned());
        let address = hop.addresses.first().map(String::as_str);
        let who = match (hop.host.as_deref(), address) {
            (Some(host), Some(address)) => format!("{host} ({address})"),
            (host, address) => host.or(address).unwrap_or(ABSENT).to_owned(),
        };
        let who: String = sanitize_shown(&who).chars().take(51).collect();
        let loss = or_absent(hop.loss_ratio, format_percent);
        page.line(&format!(
            "{:>3}  {who:<52}{rtt:>10}{loss:>9}",
            hop.ttl_index
        ));
    }
    write_omitted_rows(page, hops.len());
}

fn write_printed(page: &mut TextPage, seen: &ImportedObservation) {
    if seen.printed.is_empty() {
        return;
    }
    page.blank();
    let pairs = seen.printed.iter().take(MAX_ROWS);
    let pairs =
        pairs.map(|it| format!("{} {}", sanitize_shown(&it.name), sanitize_shown(&it.text)));
    let pairs: Vec<String> = pairs.collect();
    page.label_line("other output", &pairs.join("; "));
}

/// Formats a rate with three decimals, as programs print it.
fn format_mbit(bps: u64) -> String {
    format!("{:.3} Mbit/s", bps as f64 / 1e6)
}
