//! A throughput report as text.

use super::{run_answer, verdict_text};
use crate::document::{DocumentTable, ReportDocument, left, right, select_findings};
use crate::number_format::{
    ABSENT, RateUnit, count_of, format_grouped, format_micros, format_millis, format_percent,
    format_rate, format_seconds, join_parts, or_absent, sum_counts, sum_known_counts,
};
use longhaul_analysis::throughput::count_saved_bytes;
use longhaul_model::report::v1::analysis::{RunTotals, StreamTotals, ThroughputAnalysis};
use longhaul_model::report::v1::observation::{
    EndObservation, ObservedStream, SocketBuffer, ThroughputObservation, UdpCounts,
};
use longhaul_model::report::v1::plan::{RunDirection, RunTransport, StopCondition, ThroughputPlan};
use longhaul_model::report::v1::{ReportCaveat, ReportFinding, ThroughputReport};
use longhaul_model::units::Bytes;

/// Renders the report, from the hosts to the caveats.
pub fn build_throughput_document(report: &ThroughputReport) -> ReportDocument {
    let mut page = ReportDocument::for_run(&report.run);
    run_answer::answer_throughput(&mut page, report);
    page.fact("test", describe_plan(&report.plan));
    if let Some(text) = describe_early_end(report) {
        page.fact("ended", text);
    }
    let (observation, analysis) = (&report.observation, &report.analysis);
    let reverse = observation.reverse.as_deref().zip(analysis.reverse.as_deref());
    for half in std::iter::once((observation, analysis)).chain(reverse) {
        let findings = select_findings(&report.findings, reverse == Some(half));
        write_direction(&mut page, report, half, &findings);
    }
    page.details(|page| super::capture_text::write_captures(page, &report.observation));
    page.caveats(&report.caveats);
    page
}

/// Describes how much a run saved that ended because its goodput was known.
fn describe_early_end(report: &ThroughputReport) -> Option<String> {
    let bps = report.analysis.goodput_bps?;
    let saved = count_saved_bytes(&report.plan, &report.observation, bps);
    let elapsed = format_micros(report.observation.elapsed_us / 100_000 * 100_000);
    let is_interrupted = report.caveats.iter().any(ReportCaveat::is_early_end);
    (saved > 0 && !is_interrupted).then(|| {
        let saved = Bytes(saved);
        format!("after {elapsed}, because the goodput is known; the rest would have moved {saved}")
    })
}

/// Describes the plan in one sentence, without kernel defaults.
pub fn describe_plan(plan: &ThroughputPlan) -> String {
    let streams = u64::from(plan.streams);
    let transport = match plan.transport {
        RunTransport::Tcp => count_of(streams, "TCP stream"),
        RunTransport::Udp { rate_bps } => {
            format!("{} at {}", count_of(streams, "UDP stream"), format_rate(rate_bps))
        }
    };
    let direction = match plan.direction {
        RunDirection::Forward => "forward (client sends)",
        RunDirection::Reverse => "reverse (server sends)",
        RunDirection::Both => "both directions at once",
    };
    let stop = match plan.stop {
        _ if plan.until_stopped => "until stopped".to_owned(),
        StopCondition::TimeUs(us) => format_micros(us),
        StopCondition::Bytes(bytes) => Bytes(bytes).to_string(),
        StopCondition::Blocks(blocks) => count_of(blocks, "write"),
    };
    let stop = match plan.precision_permille.map(|it| f64::from(it) / 10.0) {
        Some(percent) => format!("until known to {percent} %, at most {stop}"),
        None => stop,
    };
    let size = |name: &str, bytes: Option<u64>| bytes.map(|n| format!("{name} {}", Bytes(n)));
    let speed = |name: &str, bps: Option<u64>| bps.map(|n| format!("{name} {}", format_rate(n)));
    let parts = [
        Some(transport),
        Some(direction.to_owned()),
        Some(stop),
        plan.congestion_control.clone(),
        plan.write_bytes.map(|n| match plan.transport {
            RunTransport::Tcp => format!("writes of {}", Bytes(n)),
            RunTransport::Udp { .. } => format!("datagrams of {n} B"),
        }),
        size("reads of", plan.read_bytes),
        speed("paced at", plan.pacing_bps),
        speed("writing at", plan.write_rate_bps),
        speed("reading at", plan.read_rate_bps),
        plan.mss_bytes.map(|n| format!("MSS {n} B")),
        plan.dscp.map(|n| format!("DSCP {n}")),
        plan.scavenger.then(|| "scavenger".to_owned()),
        plan.dont_fragment.then(|| "not fragmented".to_owned()),
        plan.no_delay.then(|| "no delay".to_owned()),
        plan.zero_copy.then(|| "zero-copy writes".to_owned()),
        plan.warm_up_us.map(|us| format!("first {} omitted", format_micros(us))),
    ];
    join_parts(", ", parts)
}

fn write_direction(
    page: &mut ReportDocument,
    report: &ThroughputReport,
    (observation, analysis): (&ThroughputObservation, &ThroughputAnalysis),
    findings: &[&ReportFinding],
) {
    if report.observation.reverse.is_some() {
        page.heading(
            3,
            if observation.forward { "FORWARD: client sends" } else { "REVERSE: server sends" },
        );
    }
    page.details(|page| {
        write_buffers(page, &report.plan, observation);
        page.gap();
        write_stream_table(page, observation, analysis);
        page.gap();
        write_end_table(page, observation, analysis);
        page.gap();
    });
    verdict_text::write_picture(page, observation);
    page.details(|page| {
        verdict_text::write_result(page, observation, analysis, report.plan.mode);
        page.gap();
        verdict_text::write_verdict(page, analysis, findings);
    });
}

/// Writes requested and granted buffers of TCP streams.
fn write_buffers(
    page: &mut ReportDocument,
    plan: &ThroughputPlan,
    observation: &ThroughputObservation,
) {
    let granted = |pick: fn(&ObservedStream) -> Option<SocketBuffer>| {
        let all = observation.streams.iter().filter_map(pick);
        all.collect::<Vec<SocketBuffer>>()
    };
    let send = granted(|s| s.sender.send_buffer);
    page.facts("send buffer", describe_buffer(plan.send_buffer_bytes, &send));
    let receive = granted(|s| s.receiver.receive_buffer);
    page.facts("receive buffer", describe_buffer(plan.receive_buffer_bytes, &receive));
    let first = observation.streams.first();
    if let Some(name) = first.and_then(|s| s.sender.congestion_control.as_ref()) {
        let mss = first.and_then(|s| s.sender.mss_bytes);
        let mss = mss.map_or_else(String::new, |mss| format!(", MSS {mss} B"));
        page.fact("TCP", format!("{name}{mss}"));
    }
}

/// Describes one buffer over all streams; `None` if no stream has one.
fn describe_buffer(planned_bytes: Option<u64>, all: &[SocketBuffer]) -> Option<String> {
    let least = all.iter().map(|b| b.granted_bytes).min()?;
    let most = all.iter().map(|b| b.granted_bytes).max()?;
    let granted = if least == most {
        Bytes(most).to_string()
    } else {
        format!("{} to {}", Bytes(least), Bytes(most))
    };
    Some(match (planned_bytes, all[0].asked_bytes) {
        (Some(asked), _) if most < asked => {
            format!("requested {}, got only {granted}", Bytes(asked))
        }
        (Some(asked), _) => format!("requested {}, got {granted}", Bytes(asked)),
        (None, Some(_)) => format!("chosen by longhaul, got {granted}"),
        (None, None) => format!("autotuned, {granted} at end"),
    })
}

/// The maximum number of rows shown; JSON always has all.
const MAX_ROWS: usize = 16;

/// The figures of one stream, or of all.
struct StreamRow {
    name: String,
    totals: StreamTotals,
    udp: Option<UdpCounts>,
}

/// Writes the table of one direction, with totals.
pub fn write_stream_table(
    page: &mut ReportDocument,
    observation: &ThroughputObservation,
    analysis: &ThroughputAnalysis,
) {
    let all = &analysis.streams;
    let shown = if all.len() > MAX_ROWS { MAX_ROWS - 1 } else { all.len() };
    let row = |totals: &StreamTotals| {
        let mut streams = observation.streams.iter();
        let stream = streams.find(|stream| stream.index == totals.index);
        let udp = stream.and_then(|stream| stream.receiver.udp);
        StreamRow { name: totals.index.to_string(), totals: totals.clone(), udp }
    };
    let mut rows: Vec<StreamRow> = all[..shown].iter().map(row).collect();
    if all.len() > 1 {
        rows.push(sum_streams(observation, analysis));
    }
    let unit = RateUnit::for_max(all.iter().filter_map(|it| it.goodput_bps).max().unwrap_or(0));
    let table = DocumentTable::from_rows(&rows)
        .number("stream", |it| it.name.clone())
        .number("time s", |it| format_seconds(it.totals.duration_us))
        .number("bytes", |it| format_grouped(it.totals.bytes))
        .number(unit.name, |it| or_absent(it.totals.goodput_bps, |bps| unit.number(bps)));
    let per_second = |milli: u64| format!("{:.1}", milli as f64 / 1e3);
    let table = if observation.streams.iter().any(|stream| stream.receiver.udp.is_some()) {
        table
            .number("received", |it| or_absent(it.udp, |udp| format_grouped(udp.datagrams)))
            .number("lost", |it| or_absent(it.udp, |udp| format_grouped(udp.lost)))
            .number("late", |it| or_absent(it.udp.and_then(|udp| udp.out_of_order), format_grouped))
            .number("jitter ms", |it| {
                let jitter_ns = it.udp.and_then(|udp| udp.jitter_ns);
                or_absent(jitter_ns, |ns| format_millis(ns / 1000))
            })
    } else {
        table
            .number("writes/s", |it| or_absent(it.totals.writes_per_1000s, per_second))
            .number("retr", |it| or_absent(it.totals.retransmitted_segments, format_grouped))
            .number("min RTT ms", |it| or_absent(it.totals.rtt_min_us, format_millis))
            .number("max cwnd", |it| {
                or_absent(it.totals.cwnd_max_bytes, |bytes| Bytes(bytes).to_string())
            })
    };
    let mut table = table.finish();
    if shown < all.len() {
        let more = all.len() - shown;
        table.details.push((shown - 1, format!("{more} more streams; --json lists all")));
    }
    page.table(table);
}

/// Returns the totals of all streams; a figure that any stream lacks is absent.
fn sum_streams(observation: &ThroughputObservation, analysis: &ThroughputAnalysis) -> StreamRow {
    let rows = &analysis.streams;
    let counts = || observation.streams.iter().filter_map(|stream| stream.receiver.udp);
    StreamRow {
        name: "all".to_owned(),
        totals: StreamTotals {
            index: 0,
            bytes: analysis.totals.receiver_bytes,
            duration_us: observation.elapsed_us,
            goodput_bps: analysis.mean_goodput_bps,
            writes_per_1000s: sum_known_counts(rows.iter().map(|r| r.writes_per_1000s)),
            retransmitted_segments: sum_known_counts(rows.iter().map(|r| r.retransmitted_segments)),
            rtt_min_us: rows.iter().filter_map(|r| r.rtt_min_us).min(),
            cwnd_max_bytes: sum_known_counts(rows.iter().map(|r| r.cwnd_max_bytes)),
        },
        udp: Some(UdpCounts {
            datagrams: sum_counts(counts().map(|udp| udp.datagrams)),
            lost: sum_counts(counts().map(|udp| udp.lost)),
            out_of_order: sum_known_counts(counts().map(|udp| udp.out_of_order)),
            jitter_ns: analysis.totals.jitter_us.map(|us| us.saturating_mul(1000)),
            ..UdpCounts::default()
        }),
    }
}

/// The maximum length of a host name.
const MAX_NAME: usize = 24;

/// Writes the table of one direction, and the errors below it.
pub fn write_end_table(
    page: &mut ReportDocument,
    observation: &ThroughputObservation,
    analysis: &ThroughputAnalysis,
) {
    let ends = &observation.ends;
    let totals = &analysis.totals;
    let mut table = DocumentTable::new([left(""), right("sender"), right("receiver"), left("")]);
    let mut row = |label: &str, [sender, receiver]: [String; 2], remark: &str| {
        table.row([label.to_owned(), sender, receiver, remark.to_owned()]);
    };
    let short = |end: &EndObservation| end.host.name.chars().take(MAX_NAME).collect();
    row("host", [short(&ends.sender), short(&ends.receiver)], "");
    let bytes = [totals.sender_bytes, totals.receiver_bytes].map(format_grouped);
    row("bytes", bytes, &describe_delivery(totals));
    if let Some(sent) = totals.packets_sent {
        let received = or_absent(totals.packets_received, format_grouped);
        row("packets", [format_grouped(sent), received], "");
    }
    for (label, figures, remark) in list_cpu_figures(observation, totals) {
        row(label, figures, remark);
    }
    page.table(table);
    write_segments(page, totals);
    if totals.stream_errors > 0 {
        let errors = count_of(totals.stream_errors, "stream");
        page.fact("errors", format!("{errors} ended early, see caveats"));
    } else {
        page.fact("errors", "none");
    }
}

fn describe_delivery(totals: &RunTotals) -> String {
    match totals.undelivered_bytes {
        0 => "all delivered".to_owned(),
        bytes => format!("{} not delivered", format_grouped(bytes)),
    }
}

fn write_segments(page: &mut ReportDocument, totals: &RunTotals) {
    if let Some(sent) = totals.data_segments_sent {
        let resent = |again: u64| {
            let share = format_percent(again as f64 / sent.max(1) as f64);
            let share = if again > 0 { format!(" ({share})") } else { String::new() };
            format!("{}{share}", count_of(again, "retransmit"))
        };
        let parts = [
            Some(count_of(sent, "data segment")),
            totals.mean_segment_bytes.map(|mean| format!("mean {mean} B")),
            totals.retransmitted_segments.map(resent),
        ];
        page.fact("segments", join_parts(", ", parts));
    }
    if let Some(loss) = totals.loss_ratio {
        let lost = format!("{} of datagrams", format_percent(loss));
        let jitter = totals.jitter_us.map(|us| format!("jitter {}", format_micros(us)));
        page.fact("lost", join_parts(", ", [Some(lost), jitter]));
    }
}

/// The label, the figures of sender and receiver, and the remark of a row.
type EndFigures = (&'static str, [String; 2], &'static str);

fn list_cpu_figures(observation: &ThroughputObservation, totals: &RunTotals) -> Vec<EndFigures> {
    let ends = [&observation.ends.sender, &observation.ends.receiver];
    let share = |end: &EndObservation| match (end.cpu_user_us, end.cpu_system_us) {
        (Some(user), Some(system)) if observation.elapsed_us > 0 => {
            let ratio = user.saturating_add(system) as f64 / observation.elapsed_us as f64;
            format!("{:.1} %", ratio * 100.0)
        }
        _ => ABSENT.to_owned(),
    };
    let per_gb = |us: Option<u64>| or_absent(us, |us| format!("{:.3} s", us as f64 / 1e6));
    let cycles = |milli: Option<u64>| or_absent(milli, |m| format!("{:.2}", m as f64 / 1e3));
    let busiest = |end: &EndObservation| {
        let most = end.cores.iter().filter_map(|core| core.busiest_permille);
        or_absent(most.max(), |m| format!("{:.0} %", f64::from(m) / 10.0))
    };
    let cpu_per_gb = [totals.sender_cpu_us_per_gb, totals.receiver_cpu_us_per_gb];
    let cycles_per_byte =
        [totals.sender_millicycles_per_byte, totals.receiver_millicycles_per_byte];
    let mut rows =
        vec![("CPU", ends.map(share), "of one core"), ("CPU per GB", cpu_per_gb.map(per_gb), "")];
    if cycles_per_byte.iter().any(Option::is_some) {
        rows.push(("cycles/byte", cycles_per_byte.map(cycles), ""));
    }
    rows.push(("busiest core", ends.map(busiest), "peak"));
    rows
}
