//! An outage of the path in the middle of a run.
//!
//! We would see: nothing arriving for several round trips, with retransmission timeouts, between times
//! of full rate. Refuted by: no timeout (the sender had nothing to send). Needs: arrivals, the timeout
//! counters of the kernel. To do: look for a flapping link, a route change or a failover at that time.
//!
//! Source: `limit::path_outage`. Units: seconds. Error: the backed-off timer lengthens an outage, up to
//! twice. Wrong when: a host was stopped meanwhile.
//!
//! # A path that changed
//!
//! The free rate of the path changed in the middle of a run.
//!
//! We would see: levels of the rate well apart, and a full path at the lower of two. Refuted by: a
//! shaper's pattern (no loss before a single step down). Needs: arrivals, RTT, retransmits. To do: measure again; a
//! single figure for this run describes neither part.
//!
//! Source: `limit::rate_levels`. Units: bit/s, seconds. Wrong when: a shaper's peak rate filled the path
//! before its bucket was empty; both readings are given then.
//!
//! # A full way back
//!
//! Acknowledgements that queue and are dropped on the way back.
//!
//! We would see: acknowledgements at a constant rate while the data varies, a share of them lost, and a
//! raised RTT. Refuted by: all acknowledgements arriving. Needs: segment counts of both ends, RTT.
//! To do: free the other direction, or thin the acknowledgements out.
//!
//! Source: RFC 3449. Units: bit/s, shares. Wrong when: see `limit::return_path`.

use super::{DiagnosisCase, build_finding, format_whole_percent, to_rate};
use crate::limit::path_outage::count_timeouts;
use crate::limit::rate_levels::RateLevel;
use longhaul_model::report::v1::ReportFinding;
use longhaul_model::report::v1::plan::RunTransport;
use longhaul_model::units::format_duration;
use std::time::Duration;

const OUTAGE_CONFIDENCE: f64 = 0.9;
const CHANGE_CONFIDENCE: f64 = 0.8;
const RETURN_PATH_CONFIDENCE: f64 = 0.8;

fn format_us(us: u64) -> String {
    format_duration(Duration::from_micros(us))
}

pub fn diagnose_outage(case: &DiagnosisCase) -> Option<ReportFinding> {
    let outages = &case.scene.outages;
    let first = outages.first()?;
    let lengths = outages.iter().map(|outage| outage.length_us());
    let total = lengths.fold(0, u64::saturating_add);
    let again = match outages.len() {
        1 => String::new(),
        count => format!(", {count} times in this run ({} in total)", format_us(total)),
    };
    let summary = format!(
        "Outage: nothing arrived for {} from {} into the run{again}",
        format_us(first.length_us()),
        format_us(first.from_us.saturating_sub(case.scene.segments.from_us())),
    );
    let mut found = build_finding(case, "outage", summary);
    found.confidence_ratio = OUTAGE_CONFIDENCE;
    found.support(format!("{} retransmission timeouts at the sender", count_timeouts(&case.scene)));
    let text = "Look for a link that flaps, a change of the route or a failover at that time";
    found.advise("path", text);
    Some(found)
}

pub fn diagnose_changed_path(case: &DiagnosisCase) -> Option<ReportFinding> {
    let levels = &case.scene.levels;
    let (first, last) = (levels.first()?, levels.last()?);
    if levels.len() < 2 || case.scene.plan.transport != RunTransport::Tcp {
        return None;
    }
    let rates: Vec<String> =
        levels.iter().map(|level| to_rate(level.bps as u64).to_string()).collect();
    let times: Vec<String> = levels[1..].iter().map(|level| format_start(case, level)).collect();
    let reason = if last.bps < first.bps {
        "other traffic arrived, or the capacity fell"
    } else {
        "other traffic left, or the capacity rose"
    };
    let summary = format!(
        "The path changed in the run: it was full at {} (from {}): {reason}",
        rates.join(", then at "),
        times.join(" and "),
    );
    let mut found = build_finding(case, "path_changed", summary);
    found.confidence_ratio = CHANGE_CONFIDENCE;
    if levels.len() == 2 && last.bps < first.bps {
        found.contradict(
            "a shaper that lets a burst pass would look alike, if the path was full before",
        );
    }
    found.advise("initiator", "Measure again: one figure for this run describes neither part");
    Some(found)
}

fn format_start(case: &DiagnosisCase, level: &RateLevel) -> String {
    format_us(level.from_us.saturating_sub(case.scene.segments.from_us()))
}

pub fn diagnose_full_return_path(case: &DiagnosisCase) -> Option<ReportFinding> {
    let full = case.scene.full_return_path?;
    let lost = full.lost_ratio.map_or(String::new(), |ratio| {
        format!("; {} of them did not arrive", format_whole_percent(ratio))
    });
    let summary = format!(
        "The way back is full: {:.0} acknowledgements per second arrive, about {}{lost}",
        full.acks_per_second,
        to_rate(full.rate_bps as u64),
    );
    let mut found = build_finding(case, "return_path_full", summary);
    found.confidence_ratio = RETURN_PATH_CONFIDENCE;
    match full.late_us {
        Some(us) => found.support(format!(
            "acknowledgements arrive {:.0} ms later than without load, which is most of what the RTT rose",
            us / 1e3
        )),
        None => {
            found.support("the acknowledgements arrive at a more constant rate than the data is sent");
        }
    }
    found.advise("path", "Look for a narrow or busy link in the other direction; `longhaul test -R` and `longhaul path --load` measure it");
    Some(found)
}
