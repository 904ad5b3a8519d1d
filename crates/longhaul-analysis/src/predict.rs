//! Predicts goodput for windows and streams on a path, from theory and a round model.
//!
//! - [`round_model`]: streams of one kind over one drop-tail queue, one step per round trip;
//!   [`stream_model`] models a single stream
//! - [`measured_comparison`]: interpretation of the differences from a measured scan
//! - [`mod@scan_derivation`]: parameters of the path and the hosts, derived from a scan
//!
//! Source: see the parts. Units: bit/s of payload, bytes, microseconds.
//! Error: against ns-3 and the lab, see docs/methods/prediction.md.
//! Wrong when: others share the path, the link is no drop-tail queue, or a limit was not specified.
//!
//! # Cubic model
//!
//! CUBIC's window, as Linux grows and cuts it.
//!
//! In addition to RFC 9438: growth of at least 5 % per round trip before the first loss, of at most
//! half per round trip, and of one segment per hundred round trips above the curve. Slow start ends
//! early (HyStart): when acknowledgements arrive back to back for half a round trip, or when the
//! RTT has grown.
//!
//! Source: RFC 9438; Linux, net/ipv4/tcp_cubic.c; Ha, Rhee 2011 for HyStart. Units: segments, s.
//! Error: see docs/methods/prediction.md. Wrong when: a kernel was built with other constants.
//!
//! # Closed forms
//!
//! Closed forms: upper bounds of the goodput.
//!
//! Window × streams / RTT; the link less headers; the CPU; the loss response of the congestion
//! control, for each stream.
//!
//! Source: Mathis 1997; RFC 9438 section 5.1; Hacker, Athey, Noble 2002. Units: bit/s of payload.
//! Error: the bound of loss is right to about 30 % (fixtures/ns3).
//! Wrong when: losses come in bursts, or the streams cause them.
//!
//! # BBR model
//!
//! BBR version 1: a rate learned from deliveries and probed up and down, a window of twice the BDP.
//!
//! Source: Cardwell, Cheng, Gunn, Yeganeh, Jacobson 2016; Linux, net/ipv4/tcp_bbr.c (gains,
//! lengths). Units: segments, seconds. Error: see docs/methods/prediction.md.
//! Wrong when: losses exceed 15 % or acknowledgements come in clumps.

pub mod measured_comparison;
pub mod round_model;
pub mod scan_derivation;
pub mod stream_model;

pub use scan_derivation::derive_plan_from_scan;

use crate::limit::limit_bounds::window_bound_bps;
use crate::limit::loss_response::{CUBIC_BETA, CUBIC_C, loss_bound_bps, mathis_bps};
use longhaul_model::report::v1::analysis::{Limiter, RateBound};
use longhaul_model::report::v1::predict::{
    PredictionAnalysis, PredictionCell, PredictionObservation, PredictionPath, PredictionPlan,
};
use longhaul_model::report::v1::scan::TransferSetting;
use longhaul_model::units::{Bytes, Rate, count_of, format_duration};
use round_model::{ModelPath, SimulationResult};
use std::time::Duration;
use stream_model::StreamRound;

/// The maximum number of cells of one prediction.
pub const MAX_CELLS: usize = 4096;
/// The maximum number of streams of a cell.
pub const MAX_STREAMS: u32 = 1024;
/// The congestion controls that are modelled.
pub const MODELLED: [&str; 3] = ["reno", "cubic", "bbr"];
/// Round trips that are modelled, in microseconds.
pub const RTT_US: std::ops::RangeInclusive<u64> = 10..=60_000_000;
/// Transfers that are modelled, in microseconds.
pub const TIME_US: std::ops::RangeInclusive<u64> = 1_000..=86_400_000_000;
/// Rates that are modelled, in bit/s.
pub const CAPACITY_BPS: std::ops::RangeInclusive<u64> = 1_000..=100_000_000_000_000;
/// The maximum loss ratio: a higher loss carries no transfer.
pub const MAX_LOSS_RATIO: f64 = 0.5;
/// A goodput at or above this ratio of a bound is limited by it.
const AT_BOUND_RATIO: f64 = 0.97;

/// Checks that the plan can be predicted; the error names the value and the allowed range.
pub fn check_plan(plan: &PredictionPlan) -> Result<(), String> {
    let within = |name: &str, value: u64, range: std::ops::RangeInclusive<u64>| {
        if range.contains(&value) {
            return Ok(());
        }
        let (least, most) = range.into_inner();
        Err(format!("{name} {value} is outside what is modelled ({least} to {most})"))
    };
    within("capacity_bps", plan.path.capacity_bps, CAPACITY_BPS)?;
    within("rtt_us", plan.path.rtt_us, RTT_US)?;
    within("mss_bytes", plan.path.mss_bytes.into(), 1..=65_535)?;
    within("header_bytes", plan.path.header_bytes.into(), 0..=1_000)?;
    within("time_us", plan.time_us, TIME_US)?;
    let cells = [
        plan.windows_bytes.len(),
        plan.streams.len(),
        plan.congestion_controls.len(),
        plan.loss_ratios.len(),
        plan.buffers_bytes.len(),
    ];
    let cells = cells.iter().fold(1usize, |all, n| all.saturating_mul(*n));
    within("cells", cells as u64, 1..=MAX_CELLS as u64)?;
    for streams in &plan.streams {
        within("streams", (*streams).into(), 1..=MAX_STREAMS.into())?;
    }
    for window in plan.windows_bytes.iter().flatten() {
        within("windows_bytes", *window, 1..=u64::MAX)?;
    }
    let mut asked = plan.congestion_controls.iter();
    if let Some(name) = asked.find(|name| !MODELLED.contains(&name.as_str())) {
        let known = MODELLED.join(", ");
        return Err(format!("{name} is not modelled ({known} are)"));
    }
    match plan.loss_ratios.iter().find(|p| !(0.0..=MAX_LOSS_RATIO).contains(*p)) {
        Some(p) => Err(format!("loss_ratio {p} is outside 0 to {MAX_LOSS_RATIO}")),
        None => Ok(()),
    }
}

/// Predicts all cells, table by table: queue, loss, congestion control, window, streams. A plan
/// that [`check_plan`] refuses has no cells.
pub fn predict_goodput(
    plan: &PredictionPlan,
    observation: &PredictionObservation,
) -> PredictionAnalysis {
    let mut analysis =
        PredictionAnalysis { version: crate::VERSION, ..PredictionAnalysis::default() };
    if check_plan(plan).is_err() {
        return analysis;
    }
    for &buffer_bytes in &plan.buffers_bytes {
        for &loss_ratio in &plan.loss_ratios {
            for setting in list_settings(plan) {
                analysis.cells.push(predict_cell(plan, setting, loss_ratio, buffer_bytes));
            }
        }
    }
    measured_comparison::compare_with_measured(&mut analysis, plan, observation);
    analysis
}

fn list_settings(plan: &PredictionPlan) -> Vec<TransferSetting> {
    let mut all = Vec::new();
    for congestion_control in &plan.congestion_controls {
        for &window_bytes in &plan.windows_bytes {
            all.extend(plan.streams.iter().map(|&streams| TransferSetting {
                window_bytes,
                streams,
                congestion_control: Some(congestion_control.clone()),
                pacing_bps: None,
            }));
        }
    }
    all
}

fn predict_cell(
    plan: &PredictionPlan,
    setting: TransferSetting,
    loss_ratio: f64,
    buffer_bytes: u64,
) -> PredictionCell {
    let bounds = predict_bounds(plan, &setting, loss_ratio);
    let course = round_model::simulate_setting(
        &ModelPath::of(plan, loss_ratio, buffer_bytes),
        plan,
        &setting,
    );
    let least = bounds.first().map_or(u64::MAX, |b| b.rate_bps);
    let limited_by = find_reached_limiter(&course, &bounds);
    PredictionCell {
        setting,
        loss_ratio,
        buffer_bytes,
        goodput_bps: (course.goodput_bps as u64).min(least),
        limited_by,
        queue_bytes: course.queue_bytes as u64,
        made_loss_ratio: course.made_loss_ratio,
        bounds,
        measured_bps: None,
        disagreement_ratio: None,
        meaning: None,
    }
}

/// Returns the bound that is reached, or else the limiter that keeps the streams below all bounds.
fn find_reached_limiter(course: &SimulationResult, bounds: &[RateBound]) -> Limiter {
    let reached = |b: &&RateBound| {
        b.limiter != Limiter::Loss && course.goodput_bps >= AT_BOUND_RATIO * b.rate_bps as f64
    };
    if let Some(bound) = bounds.iter().find(reached) {
        return bound.limiter;
    }
    if course.climbing {
        return Limiter::Ramp;
    }
    if course.excess_losses >= 0.0 {
        // The streams overflow the queue and then drain it: no other limit exists.
        return Limiter::PathCapacity;
    }
    Limiter::Loss
}

/// Growth of a Reno stream with the same factor, segments per round trip.
const RENO_GROWTH: f64 = 3.0 * (1.0 - CUBIC_BETA) / (1.0 + CUBIC_BETA);
/// Fast convergence: the factor of the peak if a loss came before the last peak was reached again.
const FAST_CONVERGENCE_FACTOR: f64 = f64::midpoint(1.0, CUBIC_BETA);
/// Growth per round trip before any loss, and the maximum at any time.
const FIRST_GROWTH: f64 = 1.05;
const MAX_GROWTH: f64 = 1.5;
/// Growth per round trip above the curve, segments.
const PLATEAU_GROWTH: f64 = 0.01;
/// HyStart: minimum window, maximum spacing of acknowledgements in a train, growth of the RTT.
const HYSTART_MIN_WINDOW: f64 = 16.0;
const TRAIN_SPACING_S: f64 = 0.002;
const DELAY_S: (f64, f64) = (0.004, 0.016);

#[derive(Debug, Clone, Default)]
pub struct CubicModel {
    /// The window before the last loss; 0 if there was none yet.
    peak: f64,
    epoch: Option<CubicEpoch>,
}

#[derive(Debug, Clone)]
struct CubicEpoch {
    began_s: f64,
    /// Time from the beginning to the origin of the curve.
    to_origin_s: f64,
    origin: f64,
    friendly: f64,
}

impl CubicModel {
    /// Returns the window after a loss.
    pub fn cut(&mut self, window: f64) -> f64 {
        self.peak = if window < self.peak { window * FAST_CONVERGENCE_FACTOR } else { window };
        self.epoch = None;
        (window * CUBIC_BETA).max(2.0)
    }

    /// Returns the window after `rounds` round trips of `round_s` without loss.
    pub fn grow(&mut self, window: f64, now_s: f64, round_s: f64, rounds: f64) -> f64 {
        let peak = self.peak;
        let epoch = self.epoch.get_or_insert_with(|| CubicEpoch {
            began_s: now_s,
            to_origin_s: ((peak - window).max(0.0) / CUBIC_C).cbrt(),
            origin: peak.max(window),
            friendly: window,
        });
        epoch.friendly += RENO_GROWTH * rounds;
        let at_s = now_s + round_s * rounds - epoch.began_s - epoch.to_origin_s;
        let curve = epoch.origin + CUBIC_C * at_s.powi(3);
        let mut next = if curve > window {
            curve.min(window * MAX_GROWTH.powf(rounds))
        } else {
            window + PLATEAU_GROWTH * rounds
        };
        if peak == 0.0 {
            next = next.max(window * FIRST_GROWTH.powf(rounds));
        }
        next.max(epoch.friendly)
    }
}

/// The input of HyStart: seconds, segments, and the number of streams that share the path.
#[derive(Debug, Clone, Copy)]
pub struct AckTrain {
    pub rtt_s: f64,
    pub queue_s: f64,
    /// Duration of all streams' segments at the narrow link.
    pub length_s: f64,
    pub segment_s: f64,
    pub streams: f64,
}

/// Returns true if slow start ends here.
pub fn ends_slow_start(window: f64, train: AckTrain) -> bool {
    let delay_s = (train.rtt_s / 8.0).clamp(DELAY_S.0, DELAY_S.1);
    // One acknowledgement covers two segments, and those of the streams alternate.
    let spacing_s = 2.0 * train.segment_s * train.streams;
    let long = train.length_s > train.rtt_s / 2.0 && spacing_s <= TRAIN_SPACING_S;
    window >= HYSTART_MIN_WINDOW && (train.queue_s > delay_s || long)
}

/// The minimum number of losses for a stream to settle at the rate that the loss allows.
const MIN_LOSSES: f64 = 20.0;

/// Returns the window of one stream: granted if requested, the kernel's autotuned maximum
/// otherwise; `None` if it is unbounded.
pub fn window_bytes(plan: &PredictionPlan, setting: &TransferSetting) -> Option<u64> {
    match setting.window_bytes {
        Some(asked) => Some(asked.min(plan.hosts.granted_most_bytes.unwrap_or(u64::MAX))),
        None => plan.hosts.auto_window_bytes,
    }
}

/// Returns the payload rate of the link.
pub fn link_bps(path: &PredictionPath) -> f64 {
    let mss = f64::from(path.mss_bytes);
    path.capacity_bps as f64 * mss / (mss + f64::from(path.header_bytes))
}

/// Returns the bounds in ascending order.
pub fn predict_bounds(
    plan: &PredictionPlan,
    setting: &TransferSetting,
    loss_ratio: f64,
) -> Vec<RateBound> {
    let processor = plan.hosts.processor_bps.map(|rate_bps| RateBound {
        limiter: Limiter::CpuReceiver,
        rate_bps,
        why: String::from("CPU limit of the slower end"),
    });
    let link = RateBound {
        limiter: Limiter::PathCapacity,
        rate_bps: link_bps(&plan.path) as u64,
        why: format!(
            "{} link rate less headers ({} of {} B are payload)",
            Rate::bits_per_second(plan.path.capacity_bps),
            plan.path.mss_bytes,
            plan.path.mss_bytes + plan.path.header_bytes,
        ),
    };
    let mut all = vec![link];
    all.extend(processor);
    all.extend(bound_by_window(plan, setting));
    all.extend(bound_by_loss(plan, setting, loss_ratio));
    all.sort_by(|a, b| a.rate_bps.cmp(&b.rate_bps).then(a.limiter.cmp(&b.limiter)));
    all
}

fn bound_by_window(plan: &PredictionPlan, setting: &TransferSetting) -> Option<RateBound> {
    let window = window_bytes(plan, setting)?;
    let all = window.saturating_mul(setting.streams.into());
    let clipped = match setting.window_bytes {
        Some(asked) if asked > window => format!(" (requested {})", Bytes(asked)),
        Some(_) => String::new(),
        None => String::from(" (autotuned)"),
    };
    Some(RateBound {
        limiter: Limiter::ReceiveWindow,
        rate_bps: window_bound_bps(all, plan.path.rtt_us)?,
        why: format!(
            "{} window{clipped} × {} / {} RTT",
            Bytes(window),
            count_of(u64::from(setting.streams), "stream"),
            format_rtt(plan)
        ),
    })
}

/// Returns the bound of the congestion control at this loss, if the transfer loses often enough to
/// settle there: slow start ends far above, and each loss cuts only a part. BBR does not respond.
fn bound_by_loss(
    plan: &PredictionPlan,
    setting: &TransferSetting,
    loss_ratio: f64,
) -> Option<RateBound> {
    let (mss, rtt_s) = (f64::from(plan.path.mss_bytes), plan.path.rtt_us as f64 / 1e6);
    let one = match setting.congestion_control.as_deref() {
        Some("reno") => mathis_bps(mss, rtt_s, loss_ratio),
        Some("cubic") => loss_bound_bps(mss, rtt_s, loss_ratio),
        _ => None,
    }?;
    let losses = loss_ratio * one / (8.0 * mss) * plan.time_us as f64 / 1e6;
    if losses < MIN_LOSSES {
        return None;
    }
    let what = format!("loss ratio {loss_ratio}, MSS {mss} B, {} RTT", format_rtt(plan));
    Some(RateBound {
        limiter: Limiter::Loss,
        rate_bps: (one * f64::from(setting.streams)) as u64,
        why: format!("{what}, {}", count_of(u64::from(setting.streams), "stream")),
    })
}

fn format_rtt(plan: &PredictionPlan) -> String {
    format_duration(Duration::from_micros(plan.path.rtt_us))
}

/// Gain of the startup phase: 2/ln 2.
const STARTUP_GAIN: f64 = 2.885;
/// Startup ends when the rate has not grown by a quarter for three round trips.
const STARTUP_GROWTH: f64 = 1.25;
const STILL_ROUNDS: f64 = 3.0;
/// Gains of the cycle, one for each round trip.
const CYCLE_GAINS: [f64; 8] = [1.25, 0.75, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0];
/// Window in units of rate × RTT.
const WINDOW_GAIN: f64 = 2.0;
/// Round trips over which the maximum rate is kept.
const RATE_WINDOW: usize = 10;
/// The minimum RTT is probed again after this long, with four segments, for this long.
const PROBE_EVERY_S: f64 = 10.0;
const PROBE_S: f64 = 0.2;
const PROBE_WINDOW: f64 = 4.0;

#[derive(Debug, Clone)]
pub struct BbrModel {
    rates: [f64; RATE_WINDOW],
    at: usize,
    best: f64,
    still: f64,
    phase: BbrPhase,
    probed_s: f64,
}

#[derive(Debug, Clone)]
enum BbrPhase {
    Startup,
    Drain,
    ProbeBandwidth { step: usize },
    ProbeRtt { until_s: f64, window: f64 },
}

impl BbrModel {
    /// Creates the model; `number` staggers the streams' cycles, as chance does.
    pub fn new(number: usize) -> BbrModel {
        BbrModel {
            rates: [0.0; RATE_WINDOW],
            at: number,
            best: 0.0,
            still: 0.0,
            phase: BbrPhase::Startup,
            probed_s: 0.0,
        }
    }

    /// Returns the outstanding segments of the next round.
    pub fn next(&mut self, window: f64, round: StreamRound) -> f64 {
        if let BbrPhase::ProbeRtt { until_s, window } = self.phase {
            if round.now_s < until_s {
                return PROBE_WINDOW;
            }
            self.probed_s = round.now_s;
            self.phase = BbrPhase::ProbeBandwidth { step: 2 };
            return window;
        }
        // The delivery rate of four segments says nothing about the path and is not learned.
        self.learn(round.delivered_per_s);
        let rate = self.rates.iter().copied().fold(0.0, f64::max);
        let path = rate * round.train.rtt_s;
        self.advance_phase(rate, window, path, round);
        let sent = self.gain(round.rounds) * rate;
        let next = window + (sent - round.delivered_per_s) * round.round_s * round.rounds.min(1.0);
        next.clamp(PROBE_WINDOW, (WINDOW_GAIN * path).max(PROBE_WINDOW))
    }

    fn learn(&mut self, delivered_per_s: f64) {
        self.at = (self.at + 1) % RATE_WINDOW;
        self.rates[self.at] = delivered_per_s;
    }

    fn gain(&self, rounds: f64) -> f64 {
        match self.phase {
            BbrPhase::Startup => STARTUP_GAIN,
            BbrPhase::Drain => 1.0 / STARTUP_GAIN,
            // A step of several round trips sees the mean of the cycle.
            BbrPhase::ProbeBandwidth { step } if rounds < 2.0 => CYCLE_GAINS[step],
            BbrPhase::ProbeBandwidth { .. } | BbrPhase::ProbeRtt { .. } => 1.0,
        }
    }

    fn advance_phase(&mut self, rate: f64, window: f64, path: f64, round: StreamRound) {
        match self.phase {
            BbrPhase::Startup => {
                if rate > self.best * STARTUP_GROWTH {
                    (self.best, self.still) = (rate, 0.0);
                } else {
                    self.still += round.rounds;
                }
                if self.still >= STILL_ROUNDS {
                    self.phase = BbrPhase::Drain;
                }
            }
            BbrPhase::Drain if window <= path => {
                self.phase = BbrPhase::ProbeBandwidth { step: self.at % 8 }
            }
            BbrPhase::ProbeBandwidth { .. } if round.now_s - self.probed_s >= PROBE_EVERY_S => {
                let until_s = round.now_s + PROBE_S.max(round.round_s);
                self.phase = BbrPhase::ProbeRtt { until_s, window };
            }
            BbrPhase::ProbeBandwidth { step } => {
                self.phase = BbrPhase::ProbeBandwidth { step: (step + 1) % 8 }
            }
            BbrPhase::Drain | BbrPhase::ProbeRtt { .. } => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_window_comes_back_to_its_peak_after_k_seconds() {
        let mut cubic = CubicModel::default();
        let mut window = cubic.cut(1000.0);
        assert!((window - 700.0).abs() < 1e-9);
        let k = (300.0f64 / 0.4).cbrt();
        let mut now = 0.0;
        while now < k {
            window = cubic.grow(window, now, 0.1, 1.0);
            now += 0.1;
        }
        assert!((window / 1000.0 - 1.0).abs() < 0.01, "{window}");
    }

    #[test]
    fn on_short_paths_it_grows_as_reno_does() {
        let mut cubic = CubicModel::default();
        let mut window = cubic.cut(100.0);
        for round in 0..50 {
            window = cubic.grow(window, f64::from(round) * 1e-4, 1e-4, 1.0);
        }
        assert!((window - (70.0 + 50.0 * RENO_GROWTH)).abs() < 0.1, "{window}");
    }
}
