//! Cause: random loss on the path, as the rates of bulk runs show it.
//!
//! We would see: bulk runs at the rate that their losses allow on a path that they do not fill: they leave
//! hardly any queue where they filled one before, or as much is available as they reached before. Bursts
//! of others hide that from a single run: they raise its RTT, so that its losses look like those of a full
//! queue. Refuted by: a queue as long as before while less is available, or a rate that the losses do not
//! explain. Needs: bulk runs before and after. To do: look for errors on the links.
//!
//! Source: the loss bound of Mathis 1997 and RFC 9438. Units: bit/s, microseconds.
//! Error: the bound is right within a factor of 2.
//! Wrong when: a policer with a small bucket came: it has no queue either.

use super::cause_selection::weight;
use super::change_evidence::EvidenceReport;
use super::event_case::EventCase;
use super::{event_format, transfer_limiter};
use crate::change_detection::compute_retransmit_ratio;
use longhaul_analysis::limit::loss_response::loss_bound_bps;
use longhaul_analysis::stats::median;
use longhaul_model::report::v1::analysis::Limiter;
use longhaul_model::report::v1::{ReportFinding, ThroughputReport};

/// Consistency, because no run is said to be limited by loss.
const RATES_ONLY_CONSISTENCY: f64 = 0.8;
/// The queue since the event, as a share of the one before, that shows a path that is no longer full.
const MAX_QUEUE_RATIO: f64 = 0.5;
/// Losses explain rates within these multiples of their bound.
const BOUND_RATIOS: std::ops::RangeInclusive<f64> = 0.5..=2.0;

pub fn find_candidate(case: &EventCase) -> Option<ReportFinding> {
    let is_named_by_runs = case.frequent_limiter(true) == Some(Limiter::Loss);
    if case.is_worse() != Some(true) || case.transfer().is_some() || is_named_by_runs {
        return None;
    }
    let median_of = |figure: fn(&EvidenceReport<ThroughputReport>) -> Option<f64>, after: bool| {
        let runs = case.evidence.throughput.iter();
        median(runs.filter(|run| case.is_on_side(run.at_us, after)).filter_map(figure))
    };
    let [before_bps, after_bps] = [median_of(read_goodput, false)?, median_of(read_goodput, true)?];
    let [before_us, after_us] =
        [median_of(compute_queue_us, false)?, median_of(compute_queue_us, true)?];
    let bound_bps = median_of(compute_loss_bound_bps, true)?;
    let is_queue_gone = after_us <= MAX_QUEUE_RATIO * before_us;
    let free_bps = case.median_available_since().filter(|bps| *bps >= before_bps);
    if after_bps >= before_bps
        || !BOUND_RATIOS.contains(&(after_bps / bound_bps))
        || !(is_queue_gone || free_bps.is_some())
    {
        return None;
    }
    let text = format!(
        "Random loss: bulk runs reach {}, and their losses allow about {}",
        event_format::format_rate(after_bps),
        event_format::format_rate(bound_bps),
    );
    let between_us = case.event.between_us;
    let mut found =
        case.candidate(transfer_limiter::LOSS_CAUSE, weight::TRANSFER, between_us, text);
    found.confidence_ratio *= RATES_ONLY_CONSISTENCY;
    let [before, after] = [before_us, after_us].map(event_format::format_delay_us);
    found.add_evidence(is_queue_gone, format!("queue under load {before} before, {after} since"));
    found.supports.extend(free_bps.map(|bps| {
        format!("{} are available since: the path is not full", event_format::format_rate(bps))
    }));
    found.contradict("a policer with a small bucket looks the same");
    found.advise("path", "Check the error counters of every interface on the path");
    Some(found)
}

fn read_goodput(run: &EvidenceReport<ThroughputReport>) -> Option<f64> {
    run.direction()?.1.goodput_bps.map(|bps| bps as f64)
}

/// Returns the mean time in a queue during the run.
fn compute_queue_us(run: &EvidenceReport<ThroughputReport>) -> Option<f64> {
    let (observation, analysis) = run.direction()?;
    let idle_us = observation.idle_rtt_us?;
    Some(analysis.rtt_us?.mean.saturating_sub(idle_us) as f64)
}

/// Returns the rate that the losses of the run allow all its streams together.
fn compute_loss_bound_bps(run: &EvidenceReport<ThroughputReport>) -> Option<f64> {
    let (observation, analysis) = run.direction()?;
    let rtt_s = observation.idle_rtt_us? as f64 / 1e6;
    let segment_bytes = analysis.totals.mean_segment_bytes? as f64;
    let one_bps = loss_bound_bps(segment_bytes, rtt_s, compute_retransmit_ratio(analysis)?)?;
    Some(one_bps * observation.streams.len() as f64)
}

#[cfg(test)]
mod tests {
    use super::super::event_test_builder::{self, EvidenceBuilder, HOUR};
    use super::*;
    use longhaul_model::report::v1::analysis::LoadedRtt;
    use longhaul_model::report::v1::quantity::PathQuantity;

    /// Runs over 85 ms that fell from 4.4 to 1.7 Mbit/s and lose 0.9 % of their segments, with these RTTs
    /// under load before and after.
    fn build_runs(loaded_ms: [u64; 2], limiter: Limiter) -> EvidenceBuilder {
        let levels = [4_400_000, 1_700_000];
        let mut sketch = event_test_builder::build_level_step(
            PathQuantity::Goodput,
            levels[0] as f64,
            levels[1] as f64,
        );
        for ((at, ms), bps) in [-HOUR, HOUR].into_iter().zip(loaded_ms).zip(levels) {
            sketch.run(at, |report| {
                report.analysis.goodput_bps = Some(bps);
                report.observation.idle_rtt_us = Some(85_000);
                report.observation.streams = vec![event_test_builder::build_stream(1448)];
                let rtt = LoadedRtt { min: 85_000, mean: ms * 1000, max: ms * 1000, stddev: 0 };
                report.analysis.rtt_us = Some(rtt);
                report.analysis.limited_by = limiter;
                report.analysis.totals.data_segments_sent = Some(1000);
                report.analysis.totals.retransmitted_segments = Some(9);
                report.analysis.totals.mean_segment_bytes = Some(1448);
            });
        }
        sketch
    }

    fn find_by(sketch: &EvidenceBuilder) -> Option<f64> {
        sketch.consistency(find_candidate, weight::TRANSFER)
    }

    #[test]
    fn a_queue_that_has_gone_and_a_rate_that_losses_allow_are_random_loss() {
        assert_eq!(
            find_by(&build_runs([112, 93], Limiter::PathCapacity)),
            Some(RATES_ONLY_CONSISTENCY)
        );
    }

    #[test]
    fn others_who_fill_the_queue_are_no_random_loss() {
        let mut sketch = build_runs([112, 105], Limiter::PathCapacity);
        assert_eq!(find_by(&sketch), None);
        sketch.estimate(HOUR, 6e6, 2e6, None);
        assert_eq!(find_by(&sketch), None);
    }

    #[test]
    fn as_much_left_as_runs_reached_before_is_no_full_path() {
        let mut sketch = build_runs([112, 105], Limiter::PathCapacity);
        sketch.estimate(HOUR, 6e6, 5e6, None);
        assert_eq!(find_by(&sketch), Some(RATES_ONLY_CONSISTENCY));
    }

    #[test]
    fn runs_that_name_loss_themselves_need_no_second_candidate() {
        assert_eq!(find_by(&build_runs([112, 93], Limiter::Loss)), None);
    }
}
