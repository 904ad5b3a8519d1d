//! Lines of a running agent: one per result and per event.

use crate::render::figures::{ABSENT, count_of, duration, millis, or_absent, percent, rate};
use crate::render::page::Page;
use longhaul_analysis::throughput::words::name;
use longhaul_model::report::v1::available::Estimate;
use longhaul_model::report::v1::event::{Event, State};
use longhaul_model::report::v1::quantity::Quantity;
use longhaul_model::report::v1::{AnyReport, Available, Load, Path, Scan, Throughput};
use longhaul_model::units::Bytes;

/// Formats a measurement: `bulk slac > cesnet`; an audit has no peer.
pub fn who(measure: &str, from: &str, to: &str) -> String {
    if from == to {
        format!("{measure} {from}")
    } else {
        format!("{measure} {from} > {to}")
    }
}

/// Formats a text after its time, wrapped and aligned.
pub fn timed(time: &str, text: &str) -> String {
    let mut page = Page::default();
    page.hanging(&format!("{time} "), text);
    page.finish()
}

/// Summarizes the result of a run in a few words.
pub fn result(report: &AnyReport) -> String {
    match report {
        AnyReport::Throughput(it) => throughput(it),
        AnyReport::Scan(it) => scan(it),
        AnyReport::Path(it) => path(it),
        AnyReport::Available(it) => available(it),
        AnyReport::Load(it) => load(it),
        AnyReport::Host(it) => count_of(it.findings.len() as u64, "finding"),
        AnyReport::Predict(_) => "predicted".to_owned(),
        AnyReport::Imported(it) => crate::render::imported::summary(it),
        AnyReport::Copy(it) => crate::render::copy::summary(it),
    }
}

fn throughput(report: &Throughput) -> String {
    let analysis = &report.analysis;
    let goodput = or_absent(analysis.goodput_bps, rate);
    format!("{goodput}, limited by {}", name(analysis.limited_by))
}

fn scan(report: &Scan) -> String {
    let mut directions = report.analysis.directions.iter();
    let Some(best) = directions.find_map(|it| it.recommended.as_ref()) else {
        return "no setting found".to_owned();
    };
    let window = or_absent(best.setting.window_bytes, |bytes| Bytes(bytes).to_string());
    let window = if window == ABSENT {
        "windows of the kernel".to_owned()
    } else {
        format!("windows of {window}")
    };
    format!(
        "best: {}, {window}: {}",
        count_of(u64::from(best.setting.streams), "stream"),
        rate(best.goodput_bps)
    )
}

fn path(report: &Path) -> String {
    let rtt = report.analysis.rtt.filter(|rtt| rtt.answered > 0);
    let rtt = rtt.map_or_else(
        || "no answer".to_owned(),
        |rtt| {
            let lost = if rtt.loss_ratio > 0.0 {
                format!(", {} lost", percent(rtt.loss_ratio))
            } else {
                String::new()
            };
            format!("RTT {} ms{lost}", millis(rtt.min_ns / 1000))
        },
    );
    match &report.observation.route {
        Some(route) => format!("{rtt}, {}", count_of(route.hops.len() as u64, "hop")),
        None => rtt,
    }
}

fn available(report: &Available) -> String {
    let one = |estimate: &Estimate| match (estimate.available_bps, estimate.capacity_bps) {
        (Some(free), Some(all)) => format!("{} of {} free", rate(free), rate(all)),
        (Some(free), None) => format!("{} free", rate(free)),
        (None, Some(all)) => format!("capacity {}", rate(all)),
        (None, None) => "no estimate".to_owned(),
    };
    let there = report.analysis.forward.as_ref().map(one);
    let back = report.analysis.reverse.as_ref().map(one);
    match (there, back) {
        (Some(there), Some(back)) => format!("{there}; back {back}"),
        (one, other) => one.or(other).unwrap_or_else(|| "no estimate".to_owned()),
    }
}

fn load(report: &Load) -> String {
    let median = |ns: u64| format!("{} ms", millis(ns / 1000));
    let idle = report.analysis.idle.map(|it| median(it.rtt_median_ns));
    let mut steps = report.analysis.steps.iter();
    let loaded = steps
        .find_map(|step| step.delays)
        .map(|it| median(it.rtt_median_ns));
    format!(
        "RTT {} idle, {} under load",
        or_absent(idle, |it| it),
        or_absent(loaded, |it| it)
    )
}

/// Formats an event: `throughput a > b fell from 400 Mbit/s to 200 Mbit/s: confirmed`.
pub fn headline(event: &Event) -> String {
    let way = if event.after.median < event.before.median {
        "fell"
    } else {
        "rose"
    };
    plain(&format!(
        "{} {way} from {} to {}: {}",
        who(event.quantity.title(), &event.pair.from, &event.pair.to),
        value(event.quantity, event.before.median),
        value(event.quantity, event.after.median),
        state(event.state),
    ))
}

/// Formats an event with its most likely cause.
pub fn event(event: &Event) -> String {
    let told = headline(event);
    match event.causes.as_slice() {
        [] if event.state == State::Confirmed => format!("{told}, no cause found yet"),
        [] => told,
        [first, ..] => plain(&format!(
            "{told}. Likely {}: {}",
            first.cause, first.summary
        )),
    }
}

const fn state(state: State) -> &'static str {
    match state {
        State::Suspected => "suspected",
        State::Confirmed => "confirmed",
        State::Withdrawn => "not confirmed, withdrawn",
        State::Recovered => "recovered",
    }
}

fn value(quantity: Quantity, value: f64) -> String {
    match quantity {
        Quantity::Goodput | Quantity::Available | Quantity::Capacity => rate(value as u64),
        Quantity::RttFloor => duration(value as u64),
        Quantity::Loss | Quantity::Retransmits => percent(value),
        Quantity::Hops => format!("{value:.0}"),
    }
}

/// Replaces control characters, because names of hosts and readings are untrusted.
fn plain(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_control() { '?' } else { c })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_fits_80_columns_and_continues_under_its_text() {
        let text = "word ".repeat(40);
        let lines = timed("11:32:58Z", &text);
        assert!(lines.lines().all(|line| line.chars().count() <= 80));
        assert!(
            lines
                .lines()
                .skip(1)
                .all(|line| line.starts_with("          word"))
        );
    }

    #[test]
    fn an_audit_is_of_one_host() {
        assert_eq!(who("audit", "a", "a"), "audit a");
        assert_eq!(who("bulk", "a", "b"), "bulk a > b");
    }
}
