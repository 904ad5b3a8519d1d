//! The table of both ends: bytes, packets, errors, CPU.

use crate::document::{DocumentTable, ReportDocument, left, right};
use crate::number_format::{
    ABSENT, count_of, format_grouped, format_micros, format_percent, join_parts, or_absent,
};
use longhaul_model::report::v1::analysis::{RunTotals, ThroughputAnalysis};
use longhaul_model::report::v1::observation::{EndObservation, ThroughputObservation};

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
            let ratio = (user + system) as f64 / observation.elapsed_us as f64;
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
