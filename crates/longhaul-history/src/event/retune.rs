//! Cause: the settings of the transfers no longer fit the path.
//!
//! We would see: a throughput that fell while available bandwidth rose or stayed, and runs that a
//! window now limits. Refuted by: a limit of the path, of an application or of a CPU; random loss
//! that came with the event; less available bandwidth; windows that were themselves changed at the
//! event.
//! Needs: available bandwidth before and after, the limiters of the runs. To do: `longhaul tune`,
//! and use its recommendation.
//!
//! Source: SLAC to CESNET, June 2003: 8 streams of 1 MiB fitted the old route and not the new one.
//! Units: bit/s. Wrong when: estimates of available bandwidth are too high by more than stated.

use super::cause_selection::{MIN_BEST_SCORE, weight};
use super::event_case::EventCase;
use super::event_format;
use longhaul_model::report::v1::ReportFinding;
use longhaul_model::report::v1::analysis::Limiter;
use longhaul_model::units::{Bytes, count_of};

/// The minimum ratio of available bandwidth, after to before.
const MIN_AVAILABLE_RATIO: f64 = 0.9;
/// The maximum fraction of the available bandwidth that the throughput now uses.
const MAX_USED_RATIO: f64 = 0.8;

pub fn find_candidate(case: &EventCase) -> Option<ReportFinding> {
    let available = case.available().filter(|_| case.has_fallen())?;
    let used = case.event.after.median / available.after;
    if available.ratio() < MIN_AVAILABLE_RATIO || used > MAX_USED_RATIO {
        return None;
    }
    let way = if available.differs_by(1.1) {
        "rose"
    } else if available.is_within(1.1) {
        "stayed"
    } else {
        "went"
    };
    let text = format!(
        "The setting no longer fits the path: throughput fell from {} to {} while available bandwidth {} from {} to {}{}",
        event_format::format_rate(case.event.before.median),
        event_format::format_rate(case.event.after.median),
        way,
        event_format::format_rate(available.before),
        event_format::format_rate(available.after),
        format_run_setting(case).map_or_else(String::new, |setting| format!(" ({setting})")),
    );
    let mut found = case.candidate("retune", weight::RETUNE, case.event.between_us, text);
    found.confidence_ratio *= rate_limiter_fit(case, &mut found);
    found.support(format!("runs use {:.0} % of the available bandwidth", used * 100.0));
    let advice = found.advise("initiator", "Find windows and streams that fit the path now");
    advice.command = Some(format!("longhaul tune {}", case.event.pair.to));
    advice.expected_bps = Some(available.after as u64);
    Some(found)
}

/// Returns how well the limiter of the runs can be removed by another setting.
fn rate_limiter_fit(case: &EventCase, found: &mut ReportFinding) -> f64 {
    let Some(limiter) = case.frequent_limiter(true) else {
        return 0.8;
    };
    let told = event_format::describe_limiter_since(limiter);
    let fit = match limiter {
        _ if limiter.is_window() => 1.0,
        // Loss that came with the event is a fault of the path: a setting only works around it.
        Limiter::Loss if case.frequent_limiter(false).is_some_and(|before| before != limiter) => {
            0.0
        }
        Limiter::Loss | Limiter::Ramp => 0.85,
        Limiter::Unknown => 0.8,
        _ => 0.0,
    };
    found.add_evidence(fit > 0.0, told);
    let changed =
        [super::test_parameter::find_candidate(case), super::host_setting::find_candidate(case)];
    if changed.iter().flatten().any(|c| c.confidence_ratio >= MIN_BEST_SCORE) {
        found.contradict("the setting itself was changed, not the path");
        return fit * 0.5;
    }
    fit
}

/// Formats the setting: `8 streams of 1 MiB`.
fn format_run_setting(case: &EventCase) -> Option<String> {
    let plan = &case.nearest_run(true)?.report.plan;
    let window = plan.receive_buffer_bytes.or(plan.send_buffer_bytes);
    let each = window
        .map_or_else(|| String::from("autotuned windows"), |b| format!("windows of {}", Bytes(b)));
    Some(format!("{}, {each}", count_of(u64::from(plan.streams), "stream")))
}

#[cfg(test)]
mod tests {
    use super::super::event_test_builder::{self, HOUR};
    use super::*;

    fn consistency(available: [f64; 2], limiter: Limiter) -> Option<f64> {
        let mut sketch = event_test_builder::build_goodput_drop();
        sketch.estimate(-HOUR, 622e6, available[0], None).estimate(HOUR, 622e6, available[1], None);
        sketch.run_limited(-HOUR, Limiter::PathCapacity).run_limited(HOUR, limiter);
        sketch.consistency(find_candidate, weight::RETUNE)
    }

    #[test]
    fn more_left_over_and_a_window_as_the_limit() {
        assert_eq!(consistency([200e6, 280e6], Limiter::ReceiveWindow), Some(1.0));
    }

    #[test]
    fn a_full_path_contradicts() {
        assert_eq!(consistency([200e6, 280e6], Limiter::PathCapacity), Some(0.0));
    }

    #[test]
    fn random_loss_that_came_with_the_event_contradicts() {
        assert_eq!(consistency([200e6, 280e6], Limiter::Loss), Some(0.0));
    }

    #[test]
    fn less_left_over_is_no_matter_of_the_setting() {
        assert_eq!(consistency([280e6, 200e6], Limiter::ReceiveWindow), None);
        assert_eq!(consistency([200e6, 160e6], Limiter::ReceiveWindow), None);
    }
}
