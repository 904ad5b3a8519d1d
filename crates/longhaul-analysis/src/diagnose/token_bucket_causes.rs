//! A policer on the path drops the excess over a rate.
//!
//! We would see: losses in clusters with no queue before them, and a rate that they limit.
//! Refuted by: RTTs that rise before the losses (a queue, so a shaper or a full link).
//! Needs: retransmits and RTT of all streams. To do: send no faster than the rate allows.
//!
//! Source: Flach et al., SIGCOMM 2016, implemented in `limit`. Units: bit/s, bytes.
//! Wrong when: a link's queue is too short to be seen; it then acts the same.
//!
//! # Shapers
//!
//! A shaper that passes a burst and then limits the flow to a lower rate.
//!
//! We would see: a lasting step down in the arrivals, level before and after, with a standing queue
//! after it. Refuted by: losses without a queue (a policer), a sloping rate (other traffic).
//! Needs: arrivals at the receiver, RTT. To do: use the sustained rate; short tests overestimate.
//!
//! Source: the shaper test in `limit`. Units: bit/s, bytes. Error: burst accurate to 2 %.
//! Wrong when: competing traffic starts once and continues.

use super::{DiagnosisCase, build_finding, repeat_command, to_rate};
use longhaul_model::report::v1::ReportFinding;
use longhaul_model::units::{Bytes, format_duration};
use std::time::Duration;

/// The pacing rate as a ratio of the policed rate: 0.95 cut losses from double digits to near none.
const PACE_RATIO: f64 = 0.95;
/// The ratio of goodput to the random-loss bound that excludes random loss, which gave 1.3.
const BEYOND_CHANCE: f64 = 1.5;

pub fn diagnose_policer(case: &DiagnosisCase) -> Option<ReportFinding> {
    let policed = case.scene.policer?;
    let rho = policed.rate_bps as u64;
    let burst = policed.burst_bytes as u64;
    let passed_first = match burst {
        0 => String::new(),
        _ => format!("; burst about {}", Bytes(burst)),
    };
    // Between rare losses TCP is below the policer's rate most of the time.
    let more = if policed.sparse { ", or somewhat more" } else { "" };
    let summary = format!(
        "Policed to about {}{more}: the excess is dropped ({:.2} % of the segments){passed_first}",
        to_rate(rho),
        policed.loss_ratio * 100.0,
    );
    let mut found = build_finding(case, "policer", summary);
    found.support(format!("{} samples with loss, nearly all at the idle RTT", policed.loss_slots));
    let beyond = format!("goodput is {:.1} × the bound of random loss", policed.over_bound);
    let is_beyond_chance = policed.over_bound >= BEYOND_CHANCE;
    if !is_beyond_chance {
        found.support("loss in nearly every sample, yet the rate is constant");
    }
    found.add_evidence(is_beyond_chance, beyond);
    let threshold = format_duration(Duration::from_micros(case.scene.queue_threshold_us() as u64));
    found.contradict(format!(
        "a full link with a queue shorter than {threshold} would look the same"
    ));
    let (share, then) = if policed.sparse {
        (1.0, ", then raise it until losses return")
    } else {
        (PACE_RATIO, "")
    };
    let all_bps = (policed.rate_bps * share) as u64;
    let each = all_bps / case.streams();
    let advice = found.advise("sender", format!("Pace each stream to {}{then} (`tc qdisc replace dev <interface> root fq maxrate {each}bit` for everything)", to_rate(each)));
    advice.command = Some(repeat_command(&format!("--pacing {each}")));
    advice.expected_bps = Some(all_bps);
    found.advise("path", "Ask the operator for the contracted rate and burst; a shaper would queue packets instead of dropping them");
    Some(found)
}

pub fn diagnose_shaper(case: &DiagnosisCase) -> Option<ReportFinding> {
    let bucket = case.scene.bucket?;
    let summary = format!(
        "Shaped: {} for the first {}, then {}; tests shorter than the burst overestimate",
        to_rate(bucket.peak_bps as u64),
        Bytes(bucket.burst_bytes as u64),
        to_rate(bucket.sustained_bps as u64),
    );
    let mut found = build_finding(case, "shaper", summary);
    found.confidence_ratio = found.confidence_ratio.max(0.8);
    let knee = bucket.knee_us.saturating_sub(case.scene.arrivals.from_us()) as f64 / 1e6;
    found.support(format!(
        "the rate stepped down once, {knee:.2} s into the run, and was constant before and after"
    ));
    found.advise(
        "path",
        format!(
            "Plan with {}; the operator's contract should name peak, sustained rate and burst",
            to_rate(bucket.sustained_bps as u64)
        ),
    );
    Some(found)
}
