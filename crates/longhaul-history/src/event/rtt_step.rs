//! Cause: the path became longer or shorter, on whatever route.
//!
//! We would see: the minimum RTT steps up as a rate falls, by enough to explain it.
//! Refuted by: a step the other way. A window-limited rate is proportional to 1 / RTT, so a step of
//! 6 % does not halve it. Needs: minimum RTTs before and after. To do: windows for the new RTT.
//!
//! Units: us. Wrong when: a standing queue is mistaken for the path's delay; hosts became slow.

use super::cause_selection::weight;
use super::event_case::EventCase;
use super::event_format;
use longhaul_model::report::v1::ReportFinding;
use longhaul_model::report::v1::analysis::Limiter;
use longhaul_model::report::v1::quantity::PathQuantity;

/// The step must explain at least this fraction of the change, in logarithms.
const MIN_EXPLAINED_FRACTION: f64 = 0.5;

pub fn find_candidate(case: &EventCase) -> Option<ReportFinding> {
    let step = case.rtt_step().filter(|_| !case.is_quantity(PathQuantity::RttFloor))?;
    let grew = step.after > step.before;
    let [before, after] = step.format(event_format::format_delay_us);
    let span = event_format::format_time_span(step.between_us);
    let text = format!("The min RTT {} from {before} to {after} {span}", step.verb());
    let mut found = case.candidate("rtt_step", weight::RTT, step.between_us, text);
    found.confidence_ratio *= match case.is_worse() {
        None => 0.8,
        Some(worse) if worse != grew => 0.0,
        Some(_) if case.is_quantity(PathQuantity::Goodput) => {
            rate_explained_part(case, step.ratio(), &mut found)
        }
        Some(_) => 0.5,
    };
    if case.is_worse() == Some(true) && case.frequent_limiter(true).is_some_and(Limiter::is_window)
    {
        let text =
            "Request windows of twice the new bandwidth-delay product, or leave them to autotuning";
        found.advise("initiator", text);
    }
    Some(found)
}

/// Rates the part of the change that the step alone causes in a window-limited rate.
fn rate_explained_part(case: &EventCase, rtt_ratio: f64, found: &mut ReportFinding) -> f64 {
    let by_rtt = 1.0 / rtt_ratio;
    let share = by_rtt.ln() / case.ratio().ln();
    let told = format!(
        "a window-limited rate would change by {}, throughput changed by {}",
        event_format::format_change(by_rtt),
        event_format::format_change(case.ratio())
    );
    let explains = share >= MIN_EXPLAINED_FRACTION;
    found.add_evidence(explains, told);
    if explains { 1.0 } else { 0.5 }
}

#[cfg(test)]
mod tests {
    use super::super::event_test_builder::{self, HOUR};
    use super::*;

    fn consistency(sketch: &event_test_builder::EvidenceBuilder) -> Option<f64> {
        sketch.consistency(find_candidate, weight::RTT)
    }

    fn step(before_us: f64, after_us: f64) -> Option<f64> {
        let mut sketch = event_test_builder::build_goodput_drop();
        sketch.rtt(-HOUR, before_us).rtt(HOUR, after_us);
        consistency(&sketch)
    }

    #[test]
    fn a_way_twice_as_long_halves_what_a_window_allows() {
        assert_eq!(step(80_000.0, 160_000.0), Some(1.0));
    }

    #[test]
    fn a_small_step_does_not_explain_a_large_fall() {
        assert_eq!(step(150_000.0, 160_000.0), Some(0.5));
    }

    #[test]
    fn a_shorter_way_contradicts_a_fall() {
        assert_eq!(step(160_000.0, 80_000.0), Some(0.0));
    }

    #[test]
    fn noise_is_no_step() {
        assert_eq!(step(150_000.0, 151_000.0), None);
        assert_eq!(step(1_000.0, 1_900.0), None);
    }
}
