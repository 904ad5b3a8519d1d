//! The table of both ends: bytes, packets, errors, CPU.

use super::number_format::{
    ABSENT, count_of, format_grouped, format_micros, format_percent, or_absent,
};
use super::style::{FAINT, STRONG, paint};
use super::text_page::{LABEL, TextPage, WIDTH, wrap_text};
use longhaul_model::report::v1::analysis::{RunTotals, ThroughputAnalysis};
use longhaul_model::report::v1::observation::{EndObservation, ThroughputObservation};

/// Width of the column of each end.
const COLUMN: usize = 17;

/// Writes the table of one direction.
pub fn write_end_table(
    page: &mut TextPage,
    observation: &ThroughputObservation,
    analysis: &ThroughputAnalysis,
) {
    let ends = &observation.ends;
    let totals = &analysis.totals;
    page.line(&paint(
        STRONG,
        format!("{:LABEL$}{:>COLUMN$}{:>COLUMN$}", "", "sender", "receiver"),
    ));
    let short = |name: &str| name.chars().take(COLUMN - 1).collect::<String>();
    write_row(
        page,
        "host",
        [
            short(&ends.sender.host.name),
            short(&ends.receiver.host.name),
        ],
        "",
    );
    write_row(
        page,
        "bytes",
        [
            format_grouped(totals.sender_bytes),
            format_grouped(totals.receiver_bytes),
        ],
        &describe_delivery(totals),
    );
    if let Some(sent) = totals.packets_sent {
        let received = or_absent(totals.packets_received, format_grouped);
        write_row(page, "packets sent", [format_grouped(sent), received], "");
    }
    write_segments(page, totals);
    if totals.stream_errors > 0 {
        let errors = count_of(totals.stream_errors, "stream");
        page.label_line("errors", &format!("{errors} ended early, see caveats"));
    } else {
        page.label_line("errors", "none");
    }
    write_cpu(page, observation, totals);
}

/// Writes a labelled row with the figures of both ends and a remark.
fn write_row(page: &mut TextPage, label: &str, [sender, receiver]: [String; 2], remark: &str) {
    let head = paint(FAINT, format!("{label:<LABEL$}"));
    let room = WIDTH - LABEL - 2 * COLUMN - 2;
    for (number, part) in wrap_text(remark, room).iter().enumerate() {
        if number == 0 {
            page.line(&format!(
                "{head}{sender:>COLUMN$}{receiver:>COLUMN$}  {part}"
            ));
        } else {
            let indent = WIDTH - room;
            page.line(&format!("{:indent$}{part}", ""));
        }
    }
}

fn describe_delivery(totals: &RunTotals) -> String {
    match totals.undelivered_bytes {
        0 => "all delivered".to_owned(),
        bytes => format!("{} not delivered", format_grouped(bytes)),
    }
}

fn write_segments(page: &mut TextPage, totals: &RunTotals) {
    if let Some(sent) = totals.data_segments_sent {
        let mean = totals.mean_segment_bytes;
        let mean = mean.map_or_else(String::new, |mean| format!(", mean {mean} B"));
        let again = match totals.retransmitted_segments {
            Some(again) if again > 0 && sent > 0 => format!(
                ", {} retransmits ({})",
                format_grouped(again),
                format_percent(again as f64 / sent as f64)
            ),
            Some(again) => format!(", {} retransmits", format_grouped(again)),
            None => String::new(),
        };
        let sent = format_grouped(sent);
        page.label_line("segments", &format!("{sent} data segments{mean}{again}"));
    }
    if let Some(loss) = totals.loss_ratio {
        let jitter = totals.jitter_us.map(format_micros);
        let jitter = jitter.map_or_else(String::new, |jitter| format!(", jitter {jitter}"));
        page.label_line(
            "lost",
            &format!("{} of datagrams{jitter}", format_percent(loss)),
        );
    }
}

fn write_cpu(page: &mut TextPage, observation: &ThroughputObservation, totals: &RunTotals) {
    let ends = &observation.ends;
    let share = |end: &EndObservation| match (end.cpu_user_us, end.cpu_system_us) {
        (Some(user), Some(system)) if observation.elapsed_us > 0 => {
            let ratio = (user + system) as f64 / observation.elapsed_us as f64;
            format!("{:.1} %", ratio * 100.0)
        }
        _ => ABSENT.to_owned(),
    };
    write_row(
        page,
        "CPU",
        [share(&ends.sender), share(&ends.receiver)],
        "of one core",
    );
    let per_gb = |us: Option<u64>| or_absent(us, |us| format!("{:.3} s", us as f64 / 1e6));
    write_row(
        page,
        "CPU per GB",
        [
            per_gb(totals.sender_cpu_us_per_gb),
            per_gb(totals.receiver_cpu_us_per_gb),
        ],
        "",
    );
    let cycles = |milli: Option<u64>| or_absent(milli, |m| format!("{:.2}", m as f64 / 1e3));
    let of_both = [
        totals.sender_millicycles_per_byte,
        totals.receiver_millicycles_per_byte,
    ];
    if of_both.iter().any(Option::is_some) {
        write_row(page, "cycles/byte", of_both.map(cycles), "");
    }
    let busiest = |end: &EndObservation| {
        let most = end.cores.iter().filter_map(|core| core.busiest_permille);
        or_absent(most.max(), |m| format!("{:.0} %", f64::from(m) / 10.0))
    };
    write_row(
        page,
        "busiest core",
        [busiest(&ends.sender), busiest(&ends.receiver)],
        "peak",
    );
}
