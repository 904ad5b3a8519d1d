//! The per-stream table, with at least the columns of NTttcp's log of the 2004 record.

use crate::document::{DocumentTable, ReportDocument, right};
use crate::number_format::{
    ABSENT, RateUnit, format_grouped, format_millis, format_seconds, or_absent,
};
use longhaul_model::report::v1::analysis::{StreamTotals, ThroughputAnalysis};
use longhaul_model::report::v1::observation::{ObservedStream, ThroughputObservation, UdpCounts};
use longhaul_model::units::Bytes;

/// The maximum number of rows shown; JSON always has all.
const MAX_ROWS: usize = 16;

/// Writes the table of one direction, with totals.
pub fn write_stream_table(
    page: &mut ReportDocument,
    observation: &ThroughputObservation,
    analysis: &ThroughputAnalysis,
) {
    let rows = &analysis.streams;
    let datagrams = observation.streams.iter().any(|s| s.receiver.udp.is_some());
    let unit = RateUnit::for_max(rows.iter().filter_map(|r| r.goodput_bps).max().unwrap_or(0));
    let tail = if datagrams {
        ["received", "lost", "late", "jitter ms"]
    } else {
        ["writes/s", "retr", "min RTT ms", "max cwnd"]
    };
    let head = ["stream", "time s", "bytes", unit.name];
    let mut table = DocumentTable::new(head.into_iter().chain(tail).map(right));
    let shown = if rows.len() > MAX_ROWS { MAX_ROWS - 1 } else { rows.len() };
    for row in &rows[..shown] {
        let stream = observation.streams.iter().find(|s| s.index == row.index);
        let tail =
            if datagrams { format_datagram_cells(stream) } else { format_segment_cells(row) };
        table.row(format_cells(&row.index.to_string(), row, unit, tail));
    }
    if shown < rows.len() {
        let more = rows.len() - shown;
        table.detail(format!("{more} more streams; --json lists all"));
    }
    if rows.len() > 1 {
        let sum = sum_streams(observation, analysis);
        let tail = format_sum_cells(&sum, analysis, datagrams.then_some(observation));
        table.row(format_cells("all", &sum, unit, tail));
    }
    page.table(table);
}

fn format_cells(
    name: &str,
    row: &StreamTotals,
    unit: RateUnit,
    tail: [String; 4],
) -> impl Iterator<Item = String> {
    let head = [
        name.to_owned(),
        format_seconds(row.duration_us),
        format_grouped(row.bytes),
        or_absent(row.goodput_bps, |bps| unit.number(bps)),
    ];
    head.into_iter().chain(tail)
}

fn format_segment_cells(row: &StreamTotals) -> [String; 4] {
    [
        or_absent(row.writes_per_1000s, |n| format!("{:.1}", n as f64 / 1e3)),
        or_absent(row.retransmitted_segments, format_grouped),
        or_absent(row.rtt_min_us, format_millis),
        or_absent(row.cwnd_max_bytes, |n| Bytes(n).to_string()),
    ]
}

fn format_datagram_cells(stream: Option<&ObservedStream>) -> [String; 4] {
    let Some(udp) = stream.and_then(|s| s.receiver.udp) else {
        return std::array::from_fn(|_| ABSENT.to_owned());
    };
    [
        format_grouped(udp.datagrams),
        format_grouped(udp.lost),
        or_absent(udp.out_of_order, format_grouped),
        or_absent(udp.jitter_ns, |ns| format_millis(ns / 1000)),
    ]
}

/// Returns the totals of all streams; a figure that any stream lacks is absent.
fn sum_streams(observation: &ThroughputObservation, analysis: &ThroughputAnalysis) -> StreamTotals {
    let rows = &analysis.streams;
    StreamTotals {
        index: 0,
        bytes: analysis.totals.receiver_bytes,
        duration_us: observation.elapsed_us,
        goodput_bps: analysis.mean_goodput_bps,
        writes_per_1000s: rows.iter().map(|r| r.writes_per_1000s).sum(),
        retransmitted_segments: rows.iter().map(|r| r.retransmitted_segments).sum(),
        rtt_min_us: rows.iter().filter_map(|r| r.rtt_min_us).min(),
        cwnd_max_bytes: rows.iter().map(|r| r.cwnd_max_bytes).sum(),
    }
}

fn format_sum_cells(
    sum: &StreamTotals,
    analysis: &ThroughputAnalysis,
    datagrams: Option<&ThroughputObservation>,
) -> [String; 4] {
    let Some(observation) = datagrams else {
        return format_segment_cells(sum);
    };
    let udp = |field: fn(&UdpCounts) -> Option<u64>| {
        let counts = observation.streams.iter().filter_map(|s| s.receiver.udp);
        or_absent(counts.map(|udp| field(&udp)).sum(), format_grouped)
    };
    [
        udp(|u| Some(u.datagrams)),
        udp(|u| Some(u.lost)),
        udp(|u| u.out_of_order),
        or_absent(analysis.totals.jitter_us, format_millis),
    ]
}
