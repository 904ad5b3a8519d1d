//! A report of kind `available` as text: one block per direction.

mod words;

pub use words::size;

use super::figures::{RateUnit, count_of, duration, percent, rate};
use super::page::Page;
use super::style::STRONG;
use super::{text, verdict};
use longhaul_model::report::v1::Available;
use longhaul_model::report::v1::available::{
    Bucket, BucketKind, Estimate, Fallback, Method, Plan, Probing,
};

/// Size of the headers of a TCP data segment: IP, TCP and timestamps.
const TCP_HEADERS_BYTES: u64 = 52;

pub fn report(report: &Available) -> String {
    let mut page = Page::default();
    text::title(&mut page, &report.run);
    page.labelled("asked", &asked(&report.plan));
    let seen = [
        (
            "forward (this end sends)",
            &report.analysis.forward,
            &report.observation.forward,
        ),
        (
            "reverse (the far end sends)",
            &report.analysis.reverse,
            &report.observation.reverse,
        ),
    ];
    for (heading, estimate, probing) in seen {
        if let Some(estimate) = estimate {
            page.blank();
            page.heading(heading);
            direction(&mut page, &report.plan, estimate, probing.as_ref());
        }
    }
    verdict::explain_all(&mut page, &report.findings);
    text::caveats(&mut page, &report.caveats);
    text::footer(&mut page, &report.run);
    page.finish()
}

fn asked(plan: &Plan) -> String {
    let mut parts = vec![match plan.uncooperative {
        None => format!(
            "{}, IP packets of {}",
            plan.mode.word(),
            count_of(u64::from(plan.packet_bytes), "byte")
        ),
        Some(Fallback::TcpBulk) => "by bulk TCP to a far end without longhaul".to_owned(),
        Some(Fallback::TcpReset) => "by TCP resets of a far end without longhaul".to_owned(),
        Some(Fallback::IcmpEcho) => "by ICMP echo of a far end without longhaul".to_owned(),
    }];
    parts.push(format!(
        "at most {} and {} each way",
        words::size(plan.most_bytes),
        duration(plan.most_time_us)
    ));
    if let Some(us) = plan.shaper_time_us {
        parts.push(format!("a large bucket looked for {}", duration(us)));
    }
    if let Some(dscp) = plan.dscp {
        parts.push(format!("DSCP {dscp}"));
    }
    parts.join(", ")
}

fn direction(page: &mut Page, plan: &Plan, estimate: &Estimate, probing: Option<&Probing>) {
    page.labelled_in("verdict", words::verdict(estimate), STRONG);
    if let Some(bps) = estimate.capacity_bps {
        let figure = figure(bps, estimate.capacity_interval_bps);
        let prefix = words::capacity_prefix(estimate.verdict);
        page.labelled("capacity", &format!("{prefix}{figure}"));
    }
    if let Some(bps) = estimate.available_bps {
        let varies = |spread| format!("; it varies by {} between trains", rate(spread));
        let spread = estimate
            .available_spread_bps
            .map_or_else(String::new, varies);
        let figure = figure(bps, estimate.available_interval_bps);
        page.labelled("available", &format!("{figure}{spread}"));
        page.labelled("as TCP payload", &payload(plan, bps));
    }
    if let Some(bps) = estimate.tracked_bps {
        page.labelled("tracked", &figure(bps, estimate.tracked_interval_bps));
    }
    for (place, method) in estimate.methods.iter().enumerate() {
        let label = if place == 0 { "methods" } else { "" };
        page.labelled(label, &method_line(method));
    }
    resolution(page, estimate, probing);
    if let Some(bucket) = &estimate.bucket {
        page.labelled("token bucket", &bucket_line(bucket));
    }
    let flags: Vec<_> = estimate
        .flags
        .iter()
        .map(|flag| words::flag(flag))
        .collect();
    if !flags.is_empty() {
        page.labelled("note", &flags.join("; "));
    }
    page.labelled("spent", &spent(estimate, probing));
}

/// Formats a rate and its interval in the same unit.
fn figure(bps: u64, interval: Option<[u64; 2]>) -> String {
    let Some([low, high]) = interval else {
        return format!("{} of IP packets", rate(bps));
    };
    let unit = RateUnit::for_greatest(bps.max(1));
    format!(
        "{} {} of IP packets ({} to {})",
        unit.short(bps),
        unit.name,
        unit.short(low),
        unit.short(high)
    )
}

/// Formats the TCP payload rate that fits into a rate of IP packets.
fn payload(plan: &Plan, bps: u64) -> String {
    let packet = u64::from(plan.packet_bytes).max(TCP_HEADERS_BYTES + 1);
    let payload = u128::from(bps) * u128::from(packet - TCP_HEADERS_BYTES) / u128::from(packet);
    let payload = u64::try_from(payload).unwrap_or(u64::MAX);
    format!(
        "{} (with timestamps, in packets of {packet} bytes)",
        rate(payload)
    )
}

fn method_line(method: &Method) -> String {
    let name = words::method(&method.name);
    let said = match method.available_bps {
        Some(bps) => figure(bps, method.interval_bps),
        None => "says nothing".to_owned(),
    };
    match &method.invalid {
        Some(why) => format!("{name}: {said}; does not count: {why}"),
        None => format!("{name}: {said}; weight {}", percent(method.weight_ratio)),
    }
}

fn resolution(page: &mut Page, estimate: &Estimate, probing: Option<&Probing>) {
    let mut parts = Vec::new();
    if let Some(bps) = estimate.resolution_bps {
        parts.push(format!("these hosts can tell up to {}", rate(bps)));
    }
    if let Some(ns) = estimate.batching_ns {
        parts.push(format!(
            "packets reach the receiver in batches, {:.0} us apart",
            ns as f64 / 1e3
        ));
    }
    if let Some(clock) = probing.map(|probing| probing.receive_clock.as_str())
        && !clock.is_empty()
    {
        parts.push(format!("receive times by the {}", words::clock(clock)));
    }
    if !parts.is_empty() {
        page.labelled("resolution", &parts.join("; "));
    }
}

fn bucket_line(bucket: &Bucket) -> String {
    let kind = match bucket.kind {
        BucketKind::Shaper => "a shaper (the excess waits)",
        BucketKind::Policer => "a policer (the excess is dropped)",
    };
    format!(
        "{kind}: {} for the first {}, then {}; confidence {}",
        rate(bucket.peak_bps),
        words::size(bucket.burst_bytes),
        rate(bucket.sustained_bps),
        percent(bucket.confidence_ratio)
    )
}

fn spent(estimate: &Estimate, probing: Option<&Probing>) -> String {
    let mut parts = vec![
        words::size(estimate.probe_bytes),
        duration(estimate.duration_us),
    ];
    if let Some(probing) = probing {
        if !probing.trains.is_empty() {
            parts.push(count_of(probing.trains.len() as u64, "train"));
        }
        let spoilt = probing.trains.iter().filter(|t| t.spoilt.is_some()).count();
        if spoilt > 0 {
            parts.push(format!("{spoilt} of them spoilt"));
        }
        if let Some(dropped) = probing.overflowed.filter(|dropped| *dropped > 0) {
            parts.push(format!("{dropped} dropped by the receiver's kernel"));
        }
    }
    parts.push(format!("{} lost", percent(estimate.loss_ratio)));
    parts.join(", ")
}

#[cfg(test)]
mod tests;
