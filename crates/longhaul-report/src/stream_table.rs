//! The per-stream table, with at least the columns of NTttcp's log of the 2004 record.

use crate::document::{DocumentTable, ReportDocument};
use crate::number_format::{RateUnit, format_grouped, format_millis, format_seconds, or_absent};
use longhaul_model::report::v1::analysis::{StreamTotals, ThroughputAnalysis};
use longhaul_model::report::v1::observation::{ThroughputObservation, UdpCounts};
use longhaul_model::units::Bytes;

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
            writes_per_1000s: rows.iter().map(|r| r.writes_per_1000s).sum(),
            retransmitted_segments: rows.iter().map(|r| r.retransmitted_segments).sum(),
            rtt_min_us: rows.iter().filter_map(|r| r.rtt_min_us).min(),
            cwnd_max_bytes: rows.iter().map(|r| r.cwnd_max_bytes).sum(),
        },
        udp: Some(UdpCounts {
            datagrams: counts().map(|udp| udp.datagrams).sum(),
            lost: counts().map(|udp| udp.lost).sum(),
            out_of_order: counts().map(|udp| udp.out_of_order).sum(),
            jitter_ns: analysis.totals.jitter_us.map(|us| us * 1000),
            ..UdpCounts::default()
        }),
    }
}
