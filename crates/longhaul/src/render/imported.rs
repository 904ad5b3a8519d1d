//! Results of other programs, as text.

use super::capture::shown;
use super::figures::{ABSENT, grouped, millis, or_absent, percent, rate, seconds};
use super::page::Page;
use super::style::{CAVEAT, STRONG};
use longhaul_model::report::v1::Imported;
use longhaul_model::report::v1::imported::{Hop, Observation, Pings, Stream, Transfer};

/// The maximum number of rows in a table; `--json` has all.
const MOST_ROWS: usize = 40;

/// Renders the state of each imported result.
pub fn filed(rows: &[(&str, &Imported)]) -> String {
    let mut page = Page::default();
    for (state, report) in rows {
        let run = &report.run;
        let result = summary(report);
        page.line(&format!("{}  {state}", run.id));
        let ends = format!(
            "{} to {}",
            shown(&run.initiator.host),
            shown(&run.responder.host)
        );
        page.hanging(
            "  ",
            &format!("{}: {result}, {ends}", report.observation.tool),
        );
        for caveat in &report.caveats {
            page.hanging_in("  caveat: ", &shown(&caveat.text), CAVEAT);
        }
    }
    page.finish()
}

/// Summarizes the result in a few words.
pub fn summary(report: &Imported) -> String {
    let seen = &report.observation;
    if let Some(bps) = report.analysis.goodput_bps {
        return match report.analysis.streams {
            Some(streams) => format!(
                "{}, {}",
                rate(bps),
                super::figures::count_of(u64::from(streams), "stream")
            ),
            None => rate(bps),
        };
    }
    if let Some(pings) = &seen.pings {
        let least = or_absent(report.analysis.rtt_min_us, millis);
        let answered = or_absent(pings.received_packets, grouped);
        return format!("least round trip {least} ms, {answered} answers");
    }
    match seen.hops.len() {
        0 => "no figures of the whole".to_owned(),
        hops => super::figures::count_of(hops as u64, "hop"),
    }
}

/// Renders the whole report.
pub fn report(report: &Imported) -> String {
    let (run, plan, seen) = (&report.run, &report.plan, &report.observation);
    let mut page = Page::default();
    page.heading(&format!("imported: {}", summary(report)));
    page.labelled("run", &format!("{}, {}", run.id, run.started_at));
    let time = match plan.time_from.as_str() {
        "text" => "as printed",
        _ => "as told by whoever imported it",
    };
    page.labelled("time", time);
    page.labelled("from", &shown(&run.initiator.host));
    page.labelled("to", &shown(&run.responder.host));
    let version = seen.tool_version.as_deref().unwrap_or_default();
    page.labelled(
        "measured by",
        shown(&format!("{} {version}", seen.tool)).trim(),
    );
    let file = plan.file.as_deref().unwrap_or("standard input");
    let result = plan.index + 1;
    page.labelled(
        "file",
        &shown(&format!("{file}, result {result} ({})", plan.format)),
    );
    if let Some(command) = &seen.command {
        page.labelled("command", &shown(command));
    }
    transfers(&mut page, report);
    streams(&mut page, &seen.streams);
    if let Some(pings) = &seen.pings {
        echoes(&mut page, pings);
    }
    hops(&mut page, &seen.hops);
    printed(&mut page, seen);
    page.blank();
    page.labelled("not told", &shown(&seen.missing.join("; ")));
    for caveat in &report.caveats {
        page.hanging_in("caveat: ", &shown(&caveat.text), CAVEAT);
    }
    page.finish()
}

fn transfers(page: &mut Page, report: &Imported) {
    let (seen, analysis) = (&report.observation, &report.analysis);
    if let Some(bps) = analysis.goodput_bps {
        let by = match analysis.counted_by.as_deref() {
            Some("either") | None => "by an end that is not named",
            Some("sender") => "by the sender",
            Some(_) => "by the receiver",
        };
        page.blank();
        page.labelled_in("rate", &format!("{}, counted {by}", mbit(bps)), STRONG);
    }
    for (label, transfer) in [
        ("sender", &seen.sender),
        ("receiver", &seen.receiver),
        ("total", &seen.either),
    ] {
        if let Some(transfer) = transfer {
            page.labelled(label, &one(transfer));
        }
    }
    if let Some(sum) = analysis.sum_of_streams_bps {
        page.labelled("sum of streams", &mbit(sum));
    }
    if !seen.intervals.is_empty() {
        let count = grouped(seen.intervals.len() as u64);
        page.labelled(
            "intervals",
            &format!("{count} readings over time (`--json` has them)"),
        );
    }
}

fn one(transfer: &Transfer) -> String {
    let mut parts = Vec::new();
    parts.extend(transfer.bytes.map(|it| format!("{} bytes", grouped(it))));
    parts.extend(transfer.duration_us.map(|us| format!("{} s", seconds(us))));
    parts.extend(
        transfer
            .printed_bps
            .map(|bps| format!("{} as printed", mbit(bps))),
    );
    let again = transfer.retransmitted_packets;
    parts.extend(again.map(|it| format!("{} sent again", grouped(it))));
    let lost = transfer.lost_datagrams;
    parts.extend(lost.map(|it| format!("{} datagrams lost", grouped(it))));
    if parts.is_empty() {
        parts.push(ABSENT.to_owned());
    }
    parts.join(", ")
}

fn streams(page: &mut Page, streams: &[Stream]) {
    if streams.is_empty() {
        return;
    }
    page.blank();
    page.heading(&format!(
        "{:<8}{:>10}{:>22}{:>18}{:>12}",
        "stream", "seconds", "bytes", "Mbit/s printed", "sent again"
    ));
    for stream in streams.iter().take(MOST_ROWS) {
        let ends = [&stream.receiver, &stream.sender, &stream.either];
        let Some(transfer) = ends.into_iter().flatten().next() else {
            continue;
        };
        let again = stream.sender.as_ref().or(stream.either.as_ref());
        let again = again.and_then(|it| it.retransmitted_packets);
        let name: String = shown(&stream.name).chars().take(7).collect();
        page.line(&format!(
            "{name:<8}{:>10}{:>22}{:>18}{:>12}",
            or_absent(transfer.duration_us, seconds),
            or_absent(transfer.bytes, grouped),
            or_absent(transfer.printed_bps, |bps| format!(
                "{:.3}",
                bps as f64 / 1e6
            )),
            or_absent(again, grouped),
        ));
    }
    more(page, streams.len());
}

fn more(page: &mut Page, rows: usize) {
    if rows > MOST_ROWS {
        page.line(&format!(
            "and {} more (`--json` has them)",
            rows - MOST_ROWS
        ));
    }
}

fn echoes(page: &mut Page, pings: &Pings) {
    page.blank();
    let sent = or_absent(pings.sent_packets, grouped);
    let received = or_absent(pings.received_packets, grouped);
    page.labelled("echoes", &format!("{sent} sent, {received} answered"));
    let figures = [pings.rtt_min_us, pings.rtt_mean_us, pings.rtt_max_us];
    let figures = figures.map(|it| or_absent(it, millis));
    page.labelled(
        "round trips",
        &format!("{} ms (least / mean / most)", figures.join(" / ")),
    );
}

fn hops(page: &mut Page, hops: &[Hop]) {
    if hops.is_empty() {
        return;
    }
    page.blank();
    page.heading(&format!(
        "{:>3}  {:<52}{:>10}{:>9}",
        "hop", "host", "RTT ms", "loss"
    ));
    for hop in hops.iter().take(MOST_ROWS) {
        let least = hop.rtt_min_us.or(hop.rtts_us.iter().min().copied());
        let bounded = hop.bounded_packets.filter(|_| least.is_none());
        let rtt = bounded.map_or_else(|| or_absent(least, millis), |_| "<1".to_owned());
        let address = hop.addresses.first().map(String::as_str);
        let who = match (hop.host.as_deref(), address) {
            (Some(host), Some(address)) => format!("{host} ({address})"),
            (host, address) => host.or(address).unwrap_or(ABSENT).to_owned(),
        };
        let who: String = shown(&who).chars().take(51).collect();
        let loss = or_absent(hop.loss_ratio, percent);
        page.line(&format!(
            "{:>3}  {who:<52}{rtt:>10}{loss:>9}",
            hop.ttl_index
        ));
    }
    more(page, hops.len());
}

fn printed(page: &mut Page, seen: &Observation) {
    if seen.printed.is_empty() {
        return;
    }
    page.blank();
    let pairs = seen.printed.iter().take(MOST_ROWS);
    let pairs = pairs.map(|it| format!("{} {}", shown(&it.name), shown(&it.text)));
    let pairs: Vec<String> = pairs.collect();
    page.labelled("also printed", &pairs.join("; "));
}

/// Formats a rate with three decimals, as programs print it.
fn mbit(bps: u64) -> String {
    format!("{:.3} Mbit/s", bps as f64 / 1e6)
}
