//! Responsiveness under load, and when a direction of the test is over.
//!
//! # Responsiveness
//!
//! Round trips per minute (RPM) while load-generating connections fill the path.
//!
//! Foreign probes give the durations of TCP handshake, TLS handshake and request on connections of
//! their own, self probes that of a request on a load-generating connection. Of each, the mean of
//! the fastest 95 % over the last four intervals counts. RPM is the mean of 60 s / (mean of the three
//! foreign durations) and 60 s / (self duration).
//!
//! A direction has two stages: until the goodput is stable, then until the RPM is. A value is stable
//! when the standard deviation of its last four is below 5 % of the last one; goodput is averaged
//! over four intervals first. The first stage ends after half of the maximum time at the latest.
//!
//! Source: draft-ietf-ippm-responsiveness-09. Units: round trips per minute. Error: see the
//! confidence. Wrong when: a host is short of CPU time; the time of its HTTP and TLS counts too.

use super::phase_probes::{NANOS_PER_MINUTE, TRIMMED};
use crate::stats::sort_finite;
use crate::{RunConclusion, VERSION};
use longhaul_model::report::v1::ReportCaveat;
use longhaul_model::report::v1::load::{
    ConfidenceGrade, DirectionResponsiveness, LoadAnalysis, LoadPlan, ResponsivenessObservation,
    ResponsivenessRun,
};

/// The number of intervals of a moving average, and of values that are compared (MAD).
const WINDOW: usize = 4;
/// The relative standard deviation of stable values (SDT).
const TOLERANCE: f64 = 0.05;
const MICROS_PER_MINUTE: f64 = NANOS_PER_MINUTE / 1e3;

/// Draws all conclusions from a test of responsiveness.
pub(super) fn conclude_responsiveness(
    plan: &LoadPlan,
    observation: &ResponsivenessObservation,
) -> RunConclusion<LoadAnalysis> {
    let conclude =
        |run: &Option<ResponsivenessRun>| run.as_ref().map(|it| judge_direction(plan, it));
    let analysis = LoadAnalysis {
        version: VERSION,
        download: conclude(&observation.download),
        upload: conclude(&observation.upload),
        ..LoadAnalysis::default()
    };
    let runs = [("download", &observation.download), ("upload", &observation.upload)];
    let errors = runs.into_iter().filter_map(|(name, run)| {
        let why = run.as_ref()?.error.as_ref()?;
        let text = format!("the {name} ended early: {why}");
        Some(ReportCaveat::new(ReportCaveat::PEER_LOST, text))
    });
    RunConclusion { analysis, findings: Vec::new(), caveats: errors.collect() }
}

/// Judges a direction, also while it runs: it is over when the confidence in its RPM is high.
pub fn judge_direction(plan: &LoadPlan, run: &ResponsivenessRun) -> DirectionResponsiveness {
    let interval_us = plan.responsiveness.as_ref().map_or(1, |it| it.interval_us.max(1));
    let judge = DirectionJudge { run, interval_us };
    let intervals = run.interval_bytes.len();
    let half = ((plan.load_us / interval_us / 2) as usize).max(2 * WINDOW);
    let saturated = judge.find_saturation().filter(|count| *count <= half);
    let first_stage = saturated.unwrap_or(half).min(intervals);
    let rpm_values = (first_stage + 1..=intervals).map(|until| judge.measure_until(until).rpm);
    let rpm_values: Vec<Option<f64>> = rpm_values.collect();
    let latest: Option<Vec<f64>> = rpm_values.iter().rev().take(WINDOW).rev().copied().collect();
    let measured = judge.measure_until(intervals);
    let round = |value: Option<f64>| value.map(|it| it.round().min(f64::from(u32::MAX)) as u32);
    let whole = |value: Option<f64>| value.map(|it| it.round() as u64);
    DirectionResponsiveness {
        round_trips_per_minute: round(measured.rpm),
        foreign_round_trips_per_minute: round(measured.foreign_rpm),
        self_round_trips_per_minute: round(measured.self_rpm),
        confidence: grade(rpm_values.len(), latest.is_some_and(|it| is_stable(&it))),
        tcp_us: whole(measured.tcp_us),
        tls_us: whole(measured.tls_us),
        http_us: whole(measured.http_us),
        self_http_us: whole(measured.self_http_us),
        foreign_probes: measured.foreign_probes as u32,
        self_probes: measured.self_probes as u32,
        capacity_bps: judge.compute_capacity_bps(),
        capacity_confidence: grade(intervals, saturated.is_some()),
    }
}

fn grade(intervals: usize, is_stable: bool) -> ConfidenceGrade {
    match (is_stable, intervals >= WINDOW) {
        (true, _) => ConfidenceGrade::High,
        (false, true) => ConfidenceGrade::Medium,
        (false, false) => ConfidenceGrade::Low,
    }
}

/// Returns whether the values are enough, and their standard deviation is within the tolerance of
/// the last one.
fn is_stable(values: &[f64]) -> bool {
    let mean = values.iter().sum::<f64>() / values.len().max(1) as f64;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    let deviation = (squares / values.len().max(1) as f64).sqrt();
    values.len() >= WINDOW && values.last().is_some_and(|last| deviation < TOLERANCE * last)
}

/// Returns the mean of the smallest 95 %; `None` without values.
fn trimmed_mean(values: impl Iterator<Item = u64>) -> Option<f64> {
    let ascending = sort_finite(values.map(|value| value as f64));
    let kept = ((ascending.len() as f64 * TRIMMED) as usize).max(1);
    Some(ascending.get(..kept)?.iter().sum::<f64>() / kept as f64)
}

struct DirectionJudge<'a> {
    run: &'a ResponsivenessRun,
    interval_us: u64,
}

/// The responsiveness at one interval.
struct IntervalResponsiveness {
    rpm: Option<f64>,
    foreign_rpm: Option<f64>,
    self_rpm: Option<f64>,
    tcp_us: Option<f64>,
    tls_us: Option<f64>,
    http_us: Option<f64>,
    self_http_us: Option<f64>,
    foreign_probes: usize,
    self_probes: usize,
}

impl DirectionJudge<'_> {
    /// Returns the number of intervals after which the goodput was stable for the first time.
    fn find_saturation(&self) -> Option<usize> {
        let sums = self.run.interval_bytes.windows(WINDOW).map(|it| it.iter().sum::<u64>() as f64);
        let averages: Vec<f64> = sums.collect();
        let place = averages.windows(WINDOW).position(is_stable)?;
        Some(place + 2 * WINDOW - 1)
    }

    /// Returns the goodput of the last intervals.
    fn compute_capacity_bps(&self) -> Option<u64> {
        let latest = self.run.interval_bytes.iter().rev().take(WINDOW);
        let time_us = latest.len() as u64 * self.interval_us;
        let bits = latest.map(|bytes| u128::from(*bytes) * 8).sum::<u128>();
        (bits * 1_000_000).checked_div(u128::from(time_us)).map(|bps| bps as u64)
    }

    /// Computes the responsiveness of the probes that ended in the window before this interval.
    fn measure_until(&self, interval: usize) -> IntervalResponsiveness {
        let until_us = interval as u64 * self.interval_us;
        let from_us = interval.saturating_sub(WINDOW) as u64 * self.interval_us;
        let is_counted = |ended_us: u64| ended_us > from_us && ended_us <= until_us;
        let foreign = self.run.foreign_probes.iter().filter(|it| is_counted(it.ended_us));
        let own = self.run.self_probes.iter().filter(|it| is_counted(it.ended_us));
        let tcp_us = trimmed_mean(foreign.clone().map(|it| it.tcp_us));
        let tls_us = trimmed_mean(foreign.clone().map(|it| it.tls_us));
        let http_us = trimmed_mean(foreign.clone().map(|it| it.http_us));
        let self_http_us = trimmed_mean(own.clone().map(|it| it.http_us));
        let per_minute = |us: f64| MICROS_PER_MINUTE / us.max(1.0);
        let sum_us = tcp_us.zip(tls_us).zip(http_us).map(|((tcp, tls), http)| tcp + tls + http);
        let foreign_rpm = sum_us.map(|sum_us| per_minute(sum_us / 3.0));
        let self_rpm = self_http_us.map(per_minute);
        IntervalResponsiveness {
            rpm: foreign_rpm.zip(self_rpm).map(|(foreign, own)| f64::midpoint(foreign, own)),
            foreign_rpm,
            self_rpm,
            tcp_us,
            tls_us,
            http_us,
            self_http_us,
            foreign_probes: foreign.count(),
            self_probes: own.count(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ConfidenceGrade::{High, Low, Medium};
    use longhaul_model::report::v1::load::{ForeignProbe, ResponsivenessPlan, SelfProbe};

    fn plan() -> LoadPlan {
        LoadPlan {
            forward: false,
            steps: Vec::new(),
            probe_interval_us: 20_000,
            probe_bytes: 6000,
            idle_us: 1_000_000,
            load_us: 20_000_000,
            responsiveness: Some(ResponsivenessPlan {
                config_url: "https://far/.well-known/nq".to_owned(),
                interval_us: 1_000_000,
                connections: 16,
            }),
        }
    }

    /// Returns a run with these interval bytes and one probe pair in each interval, whose durations
    /// are the microseconds that `delay` returns.
    fn run(bytes: &[u64], delay: impl Fn(u64) -> u64) -> ResponsivenessRun {
        let intervals = 0..bytes.len() as u64;
        let foreign = |at: u64| {
            let us = delay(at);
            ForeignProbe { ended_us: at * 1_000_000 + 1, tcp_us: us, tls_us: us, http_us: us }
        };
        let own = |at: u64| SelfProbe { ended_us: at * 1_000_000 + 1, http_us: 2 * delay(at) };
        ResponsivenessRun {
            interval_bytes: bytes.to_vec(),
            foreign_probes: intervals.clone().map(foreign).collect(),
            self_probes: intervals.map(own).collect(),
            ..ResponsivenessRun::default()
        }
    }

    #[test]
    fn the_slowest_twentieth_is_trimmed() {
        // goresponsiveness drops floor(5 %), here one of 20.
        assert_eq!(trimmed_mean((1..=20).rev()), Some(10.0));
        assert_eq!(trimmed_mean(1..=19), Some(9.5));
        assert_eq!(trimmed_mean([7].into_iter()), Some(7.0));
        assert_eq!(trimmed_mean([].into_iter()), None);
    }

    #[test]
    fn both_kinds_of_probes_weigh_one_half() {
        let mut seen = run(&[1000; 4], |_| 100_000);
        seen.foreign_probes.iter_mut().for_each(|it| {
            (it.tcp_us, it.tls_us, it.http_us) = (20_000, 30_000, 40_000);
        });
        seen.self_probes.iter_mut().for_each(|it| it.http_us = 120_000);
        let found = judge_direction(&plan(), &seen);
        // 60 s / 30 ms, 60 s / 120 ms, and their mean.
        assert_eq!(found.foreign_round_trips_per_minute, Some(2000));
        assert_eq!(found.self_round_trips_per_minute, Some(500));
        assert_eq!(found.round_trips_per_minute, Some(1250));
        assert_eq!(found.capacity_bps, Some(8000));
    }

    #[test]
    fn a_window_is_stable_within_five_percent_of_its_last_value() {
        assert!(is_stable(&[1.0; 4]));
        // Standard deviation 0.1118 of 10, then 1.118 of 10.
        assert!(is_stable(&[9.7, 9.8, 9.9, 10.0]));
        assert!(!is_stable(&[7.0, 8.0, 9.0, 10.0]));
        assert!(!is_stable(&[1.0; 3]));
        assert!(!is_stable(&[0.0; 4]));
    }

    #[test]
    fn confidence_is_high_when_goodput_and_then_delay_are_stable() {
        let grades = |count: usize, delay: &dyn Fn(u64) -> u64| {
            let found = judge_direction(&plan(), &run(&vec![1000; count], delay));
            (found.capacity_confidence, found.confidence)
        };
        assert_eq!(grades(3, &|_| 10_000), (Low, Low));
        assert_eq!(grades(6, &|_| 10_000), (Medium, Low));
        assert_eq!(grades(7, &|_| 10_000), (High, Low));
        assert_eq!(grades(10, &|_| 10_000), (High, Low));
        assert_eq!(grades(11, &|_| 10_000), (High, High));
        assert_eq!(grades(11, &|at| 10_000 << at), (High, Medium));
    }

    #[test]
    fn the_second_stage_begins_at_half_time_if_the_goodput_is_not_stable() {
        let growing: Vec<u64> = (0..14).map(|at| 1000 << at).collect();
        let found = judge_direction(&plan(), &run(&growing, |_| 10_000));
        assert_eq!((found.capacity_confidence, found.confidence), (Medium, High));
    }
}
