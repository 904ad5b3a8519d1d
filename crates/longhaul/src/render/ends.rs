//! The table of both ends: bytes, packets, errors, CPU.

use super::figures::{ABSENT, count_of, duration, grouped, or_absent, percent};
use super::page::{LABEL, Page, WIDTH, wrap};
use super::style::{FAINT, STRONG, paint};
use longhaul_model::report::v1::analysis::{Analysis, Totals};
use longhaul_model::report::v1::observation::{End, Observation};

/// Width of the column of each end.
const COLUMN: usize = 17;

/// Writes the table of one direction.
pub fn block(page: &mut Page, observation: &Observation, analysis: &Analysis) {
    let ends = &observation.ends;
    let totals = &analysis.totals;
    page.line(&paint(
        STRONG,
        format!("{:LABEL$}{:>COLUMN$}{:>COLUMN$}", "", "sender", "receiver"),
    ));
    let short = |name: &str| name.chars().take(COLUMN - 1).collect::<String>();
    row(
        page,
        "host",
        [
            short(&ends.sender.host.name),
            short(&ends.receiver.host.name),
        ],
        "",
    );
    row(
        page,
        "bytes",
        [grouped(totals.sender_bytes), grouped(totals.receiver_bytes)],
        &delivery(totals),
    );
    if let Some(sent) = totals.packets_sent {
        let received = or_absent(totals.packets_received, grouped);
        row(page, "packets sent", [grouped(sent), received], "");
    }
    segments(page, totals);
    if totals.stream_errors > 0 {
        let errors = count_of(totals.stream_errors, "stream");
        page.labelled("errors", &format!("{errors} ended early, see caveats"));
    } else {
        page.labelled("errors", "none");
    }
    cpu(page, observation, totals);
}

/// Writes a labelled row with the figures of both ends and a remark.
fn row(page: &mut Page, label: &str, [sender, receiver]: [String; 2], remark: &str) {
    let head = paint(FAINT, format!("{label:<LABEL$}"));
    let room = WIDTH - LABEL - 2 * COLUMN - 2;
    for (number, part) in wrap(remark, room).iter().enumerate() {
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

fn delivery(totals: &Totals) -> String {
    match totals.undelivered_bytes {
        0 => "all delivered".to_owned(),
        bytes => format!("{} not delivered", grouped(bytes)),
    }
}

fn segments(page: &mut Page, totals: &Totals) {
    if let Some(sent) = totals.data_segments_sent {
        let mean = totals.mean_segment_bytes;
        let mean = mean.map_or_else(String::new, |mean| format!(", mean {mean} B"));
        let again = match totals.retransmitted_segments {
            Some(again) if again > 0 && sent > 0 => format!(
                ", {} sent again ({})",
                grouped(again),
                percent(again as f64 / sent as f64)
            ),
            Some(again) => format!(", {} sent again", grouped(again)),
            None => String::new(),
        };
        let sent = grouped(sent);
        page.labelled("segments", &format!("{sent} data segments{mean}{again}"));
    }
    if let Some(loss) = totals.loss_ratio {
        let jitter = totals.jitter_us.map(duration);
        let jitter = jitter.map_or_else(String::new, |jitter| format!(", jitter {jitter}"));
        page.labelled(
            "lost",
            &format!("{} of the datagrams{jitter}", percent(loss)),
        );
    }
}

fn cpu(page: &mut Page, observation: &Observation, totals: &Totals) {
    let ends = &observation.ends;
    let share = |end: &End| match (end.cpu_user_us, end.cpu_system_us) {
        (Some(user), Some(system)) if observation.elapsed_us > 0 => {
            let ratio = (user + system) as f64 / observation.elapsed_us as f64;
            format!("{:.1} %", ratio * 100.0)
        }
        _ => ABSENT.to_owned(),
    };
    row(
        page,
        "CPU",
        [share(&ends.sender), share(&ends.receiver)],
        "of one core",
    );
    let per_gb = |us: Option<u64>| or_absent(us, |us| format!("{:.3} s", us as f64 / 1e6));
    row(
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
        row(page, "cycles/byte", of_both.map(cycles), "");
    }
    let busiest = |end: &End| {
        let most = end.cores.iter().filter_map(|core| core.busiest_permille);
        or_absent(most.max(), |m| format!("{:.0} %", f64::from(m) / 10.0))
    };
    row(
        page,
        "busiest core",
        [busiest(&ends.sender), busiest(&ends.receiver)],
        "at its peak",
    );
}
