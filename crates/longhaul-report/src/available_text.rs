//! A report of kind `available` as text: one block per direction.

use crate::document::ReportDocument;
use crate::number_format::{
    RateUnit, count_of, format_micros, format_percent, format_rate, join_parts, non_empty,
};
use crate::run_answer;
use longhaul_model::report::v1::AvailableReport;
use longhaul_model::report::v1::available::{
    AvailableEstimate, AvailablePlan, DirectionProbing, EstimateVerdict, FallbackMethod,
    MethodEstimate, TokenBucketEstimate, TokenBucketKind,
};

/// Size of the headers of a TCP data segment: IP, TCP and timestamps.
const TCP_HEADERS_BYTES: u64 = 52;

pub fn build_available_document(report: &AvailableReport) -> ReportDocument {
    let mut page = ReportDocument::for_run(&report.run);
    run_answer::answer_available(&mut page, report);
    page.fact("test", describe_plan(&report.plan));
    let seen = [
        ("forward (client sends)", &report.analysis.forward, &report.observation.forward),
        ("reverse (server sends)", &report.analysis.reverse, &report.observation.reverse),
    ];
    for (heading, estimate, probing) in seen {
        if let Some(estimate) = estimate {
            page.gap();
            page.heading(3, heading);
            write_direction(&mut page, &report.plan, estimate, probing.as_ref());
        }
    }
    page.conclude(&report.findings, &report.caveats)
}

fn describe_plan(plan: &AvailablePlan) -> String {
    let test = match plan.uncooperative {
        None => format!(
            "{}, IP packets of {}",
            plan.mode.word(),
            count_of(u64::from(plan.packet_bytes), "byte")
        ),
        Some(FallbackMethod::TcpBulk) => "bulk TCP to a host without longhaul".to_owned(),
        Some(FallbackMethod::PacedTcp) => {
            return "TCP to an iperf3 server, paced at different rates".to_owned();
        }
    };
    let (bytes, time) = (format_probe_bytes(plan.most_bytes), format_micros(plan.most_time_us));
    let search = |us| format!("token bucket search of {}", format_micros(us));
    let parts = [
        Some(test),
        Some(format!("up to {bytes} and {time} per direction")),
        plan.shaper_time_us.map(search),
        plan.dscp.map(|dscp| format!("DSCP {dscp}")),
    ];
    join_parts(", ", parts)
}

fn write_direction(
    page: &mut ReportDocument,
    plan: &AvailablePlan,
    estimate: &AvailableEstimate,
    probing: Option<&DirectionProbing>,
) {
    page.strong_fact("verdict", describe_verdict(estimate));
    if let Some(bps) = estimate.capacity_bps {
        let figure = format_rate_interval(bps, estimate.capacity_interval_bps);
        let prefix = capacity_prefix(estimate.verdict);
        page.fact("capacity", format!("{prefix}{figure}"));
    }
    if let Some(bps) = estimate.available_bps {
        let varies = |spread| format!("; varies by {} between trains", format_rate(spread));
        let spread = estimate.available_spread_bps.map_or_else(String::new, varies);
        let figure = format_rate_interval(bps, estimate.available_interval_bps);
        page.fact("available", format!("{figure}{spread}"));
        page.fact("as TCP payload", format_payload_rate(plan, bps));
    }
    page.details(|page| {
        page.facts("methods", estimate.methods.iter().map(describe_method));
        page.facts("resolution", non_empty(describe_resolution(estimate, probing)));
        page.facts("token bucket", estimate.bucket.as_ref().map(describe_bucket));
        page.facts("holds for", estimate.longest_train_bytes.map(describe_longest_train));
        let flags = estimate.flags.iter().map(|flag| describe_word(flag));
        page.facts("note", non_empty(flags.collect::<Vec<_>>().join("; ")));
        page.fact("cost", describe_cost(estimate, probing));
    });
}

/// Formats a rate and its interval in the same unit.
fn format_rate_interval(bps: u64, interval: Option<[u64; 2]>) -> String {
    let Some([low, high]) = interval else {
        return format!("{} at the IP layer", format_rate(bps));
    };
    let unit = RateUnit::for_max(bps.max(1));
    format!(
        "{} {} at the IP layer ({} to {})",
        unit.short(bps),
        unit.name,
        unit.short(low),
        unit.short(high)
    )
}

/// Formats the TCP payload rate that fits into a rate of IP packets.
fn format_payload_rate(plan: &AvailablePlan, bps: u64) -> String {
    let packet = u64::from(plan.packet_bytes).max(TCP_HEADERS_BYTES + 1);
    let payload = u128::from(bps) * u128::from(packet - TCP_HEADERS_BYTES) / u128::from(packet);
    let payload = u64::try_from(payload).unwrap_or(u64::MAX);
    format!("{} (with timestamps, in packets of {packet} bytes)", format_rate(payload))
}

fn describe_method(method: &MethodEstimate) -> String {
    let name = describe_word(&method.name);
    let said = match method.available_bps {
        Some(bps) => format_rate_interval(bps, method.interval_bps),
        None => "no estimate".to_owned(),
    };
    match &method.invalid {
        Some(why) => format!("{name}: {said}; not used: {why}"),
        None => format!("{name}: {said}; weight {}", format_percent(method.weight_ratio)),
    }
}

fn describe_resolution(estimate: &AvailableEstimate, probing: Option<&DirectionProbing>) -> String {
    let clock = probing.map(|probing| probing.receive_clock.as_str());
    let clock = clock.filter(|clock| !clock.is_empty()).map(describe_word);
    let batches =
        |ns| format!("packets reach the receiver in batches, {:.0} µs apart", ns as f64 / 1e3);
    let parts = [
        estimate.resolution_bps.map(|bps| format!("limit of these hosts: {}", format_rate(bps))),
        estimate.batching_ns.map(batches),
        clock.map(|clock| format!("receive timestamps from the {clock}")),
    ];
    join_parts("; ", parts)
}

fn describe_bucket(bucket: &TokenBucketEstimate) -> String {
    let kind = match bucket.kind {
        TokenBucketKind::Shaper => "shaper (queues the excess)",
        TokenBucketKind::Policer => "policer (drops the excess)",
    };
    format!(
        "{kind}: {} for the first {}, then {}; confidence {}",
        format_rate(bucket.peak_bps),
        format_probe_bytes(bucket.burst_bytes),
        format_rate(bucket.sustained_bps),
        format_percent(bucket.confidence_ratio)
    )
}

fn describe_longest_train(bytes: u64) -> String {
    let bytes = format_probe_bytes(bytes);
    format!("trains up to {bytes}; a token bucket that lasts longer is found with --shaper")
}

fn describe_cost(estimate: &AvailableEstimate, probing: Option<&DirectionProbing>) -> String {
    let trains = probing.map_or(&[][..], |probing| &probing.trains);
    let spoilt = trains.iter().filter(|train| train.spoilt.is_some()).count();
    let dropped = probing.and_then(|probing| probing.overflowed).filter(|dropped| *dropped > 0);
    let parts = [
        Some(format_probe_bytes(estimate.probe_bytes)),
        Some(format_micros(estimate.duration_us)),
        probing
            .filter(|probing| !probing.paced_steps.is_empty())
            .map(|probing| count_of(probing.paced_steps.len() as u64, "rate")),
        (!trains.is_empty()).then(|| count_of(trains.len() as u64, "train")),
        (spoilt > 0).then(|| format!("{spoilt} unusable")),
        dropped.map(|dropped| format!("{dropped} dropped by the receiver's kernel")),
        Some(format!("{} lost", format_percent(estimate.loss_ratio))),
    ];
    join_parts(", ", parts)
}

fn describe_verdict(estimate: &AvailableEstimate) -> &'static str {
    match estimate.verdict {
        EstimateVerdict::Estimated => "estimated",
        EstimateVerdict::CapacityOnly => "capacity only: no estimate of available bandwidth",
        EstimateVerdict::SenderLimited => "lower bound: the sender could not overrun the path",
        EstimateVerdict::BeyondResolution => {
            "no estimate: the path is too fast for the clocks of these hosts"
        }
        EstimateVerdict::Disturbed => "no estimate: too many packets lost or trains unusable",
        EstimateVerdict::NoAnswer => "no estimate: nothing arrived",
    }
}

/// Returns the text before the capacity.
pub fn capacity_prefix(verdict: EstimateVerdict) -> &'static str {
    match verdict {
        EstimateVerdict::SenderLimited | EstimateVerdict::BeyondResolution => "≥ ",
        _ => "",
    }
}

/// Describes a method, a flag or a clock in a few words; an unknown word stands for itself.
fn describe_word(word: &str) -> String {
    let text = match word {
        "paced_tcp" => "RTT of paced TCP",
        "tcp_share" => "share of one TCP connection",
        "multi_hop" => "more than one hop is loaded",
        "unstable" => "the methods disagree: cross traffic changed during the run",
        "fair_queue" => {
            "small probes pass the queue, as with fair queueing: this is what a new flow would get"
        }
        "policed" => "a policer drops packets above a rate",
        "bursty" => "cross traffic is bursty",
        "time_slotted" => "time-slotted access link (Wi-Fi, mobile, PON)",
        "sender_limited" => "limited by the sender",
        "uncooperative" => "measured at one end only",
        "capacity_at_least" => "the capacity is a lower bound",
        "hardware" => "interface",
        "user" => "program (no kernel timestamps)",
        other => return other.replace('_', " "),
    };
    text.to_owned()
}

/// Formats the size of a probe budget, with decimal prefixes like rates.
pub fn format_probe_bytes(bytes: u64) -> String {
    match bytes {
        0..10_000 => count_of(bytes, "byte"),
        10_000..1_000_000 => format!("{:.0} kB", bytes as f64 / 1e3),
        1_000_000..10_000_000 => format!("{:.1} MB", bytes as f64 / 1e6),
        _ => format!("{:.0} MB", bytes as f64 / 1e6),
    }
}

#[cfg(test)]
mod tests;
