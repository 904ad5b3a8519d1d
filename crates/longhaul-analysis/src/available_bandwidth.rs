//! The capacity of the path and its available bandwidth.
//!
//! The train schedule selects the next trains from the results so far; the conclusion analyses a
//! finished run. Neither uses a clock or a socket. Read in this order: readings (the usable part of
//! a train), the methods (capacity, empty queue, rate sweep), their fusion, the estimate.
//!
//! Source: docs/methods/available-bandwidth.md names them. Units: bit/s of IP packets.
//! Error: given with each figure, as an interval. Wrong when: the flags of the estimate say so.
//!
//! # Timing resolution
//!
//! The maximum capacity that these hosts can resolve.
//!
//! A burst must be long compared with the receiver's batches and stamps, and its size is limited.
//!
//! Source: docs/methods/available-bandwidth.md. Units: seconds, bit/s of IP. Error: that of the
//! observed batching. Wrong when: the batching changes with the load.
//!
//! # Train evidence
//!
//! The results of the trains of one direction, separately for each method.
//!
//! Source: docs/methods/available-bandwidth.md. Units: bit/s of IP, seconds. Error: in each part.
//! Wrong when: most trains are left out; the reasons are kept.

mod available_findings;
mod bucket_detection;
mod capacity;
mod direction_estimate;
mod empty_queue;
mod fusion;
mod hidden_queue;
mod paced_tcp;
mod probe_schedule;
mod rate_sweep;

/// The maximum number of packets in a train.
const MAX_TRAIN_PACKETS: u32 = 2500;
/// The minimum length of a train in times between batches.
const TRAIN_BATCHES: f64 = 20.0;
/// The parameters of the resolution of rates.
struct TimingResolutionTuning;

impl TimingResolutionTuning {
    /// The minimum length in time: timestamps have errors of some microseconds.
    const MIN_SPAN_S: f64 = 400e-6;
    const LIGHT_BATCHES: f64 = 8.0;
    const LIGHT_SPAN_S: f64 = 100e-6;
    /// A burst may use this fraction of the byte budget.
    const BURST_PART: u64 = 12;
}

/// Returns the minimum duration of a burst that stands out from the noise.
fn min_burst_span_s(batching_s: f64) -> f64 {
    (TRAIN_BATCHES * batching_s).max(TimingResolutionTuning::MIN_SPAN_S)
}

/// Light mode has no bytes for more packets; its intervals are wider.
const LIGHT_PACKETS: u32 = 10;

/// Returns the capacity at which the longest burst is just long enough.
fn max_resolvable_bps(batching_s: f64, plan: &AvailablePlan) -> f64 {
    let (packets, span_s) = if plan.mode == AvailableMode::Light {
        let span_s = (TimingResolutionTuning::LIGHT_BATCHES * batching_s)
            .max(TimingResolutionTuning::LIGHT_SPAN_S);
        (u64::from(LIGHT_PACKETS), span_s)
    } else {
        let affordable = plan.most_bytes
            / TimingResolutionTuning::BURST_PART
            / u64::from(plan.packet_bytes.max(1));
        (u64::from(MAX_TRAIN_PACKETS).min(affordable), min_burst_span_s(batching_s))
    };
    packets as f64 * f64::from(plan.packet_bytes) * 8.0 / span_s
}

/// The error of a kernel's receive timestamp without batching.
const STAMP_S: f64 = 0.7e-6;
/// The error of packets that each waited for a timer, as a ratio of the time between batches.
const TIMER_SCATTER: f64 = 0.2;

/// All readings of one direction and each method's result.
#[derive(Debug, Clone, PartialEq, Default)]
struct TrainEvidence {
    /// In order of time.
    pub readings: Vec<TrainReading>,
    /// Trains left out, with the reason.
    pub dropped: Vec<(u32, String)>,
    pub dispersion: Option<TrainDispersion>,
    pub emptiness: Option<EmptyQueueShare>,
    pub data: Vec<TrainStrain>,
    pub sent: usize,
    pub lost: usize,
    /// The skew of the receiver's clock relative to the sender's, if it is implausible.
    pub skew: Option<f64>,
}

impl TrainEvidence {
    pub fn of(trains: &[ProbeTrain]) -> TrainEvidence {
        let zero = ClockZeros {
            sent_ns: trains.iter().map(|t| t.sent_at_ns).min().unwrap_or(0),
            received_ns: trains.iter().map(|t| t.received_at_ns).min().unwrap_or(0),
        };
        let mut evidence = TrainEvidence::default();
        // Sorted, so that the order of the input does not matter.
        let mut ordered: Vec<&ProbeTrain> = trains.iter().collect();
        ordered.sort_by_key(|t| (t.sent_at_ns, t.index));
        for train in ordered {
            evidence.sent += train.sent_ns.len();
            evidence.lost += train.received_ns.iter().filter(|t| t.is_none()).count();
            match train_reading::read_train(train, zero) {
                Ok(reading) => evidence.readings.push(reading),
                Err(why) => evidence.dropped.push((train.index, why)),
            }
        }
        evidence.skew = empty_queue::find_implausible_skew(&evidence.readings);
        if evidence.skew.is_none() {
            evidence.run_methods();
        }
        evidence
    }

    fn run_methods(&mut self) {
        let batching_s = capacity::find_batching_s(&self.readings);
        self.dispersion = capacity::estimate_dispersion(&self.readings);
        self.emptiness = self.dispersion.and_then(|d| {
            let link_bps = d.pair_bps.unwrap_or(d.capacity_bps);
            empty_queue::measure_empty_queue(&self.readings, batching_s, link_bps)
        });
        let noise_s = self.dispersion.map_or(0.0, |d| d.noise_s);
        let credit_s = self.dispersion.map_or(0.0, |d| d.credit_s);
        self.data = self
            .readings
            .iter()
            .filter(|r| r.purpose == TrainPurpose::Sweep && !r.is_lossy())
            .filter_map(|r| build_train_strain(r, batching_s, noise_s, credit_s))
            .collect();
    }

    pub fn loss_ratio(&self) -> f64 {
        if self.sent == 0 {
            return 0.0;
        }
        self.lost as f64 / self.sent as f64
    }

    /// Returns the number of bursts that are long enough to exceed the noise.
    pub fn count_long_bursts(&self, least_s: f64) -> usize {
        let bursts = self.readings.iter().filter(|r| r.purpose == TrainPurpose::Burst);
        bursts.filter(|r| !r.kept.is_empty() && r.received_span_s() >= least_s).count()
    }
}

/// Returns the growth of a train's delay that the credit of a small token bucket hid after its head.
fn compute_hidden_growth_s(reading: &TrainReading, grown_s: f64, credit_s: f64) -> f64 {
    let head = reading.settled().first().map_or(0, |point| point.index) as f64;
    let spent_s = head / reading.packets as f64 * (grown_s + credit_s);
    let hidden_s = (credit_s - spent_s).max(0.0);
    if grown_s > 0.5 * hidden_s { hidden_s } else { 0.0 }
}

fn build_train_strain(
    reading: &TrainReading,
    batching_s: f64,
    noise_s: f64,
    credit_s: f64,
) -> Option<TrainStrain> {
    let (strain, seconds) = reading.strain()?;
    let rate_bps = reading.sent_bps()?;
    let strain = strain + compute_hidden_growth_s(reading, strain * seconds, credit_s) / seconds;
    let stamp_s = match reading.batching_s {
        Some(batch_s) => (reading.bits / rate_bps).min(batch_s) * 0.3 + STAMP_S,
        None => (TIMER_SCATTER * batching_s + STAMP_S).max(noise_s),
    };
    let at_each_end = (reading.kept.len() / 10).max(2) as f64;
    Some(TrainStrain {
        rate_bps,
        strain,
        seconds,
        noise: stamp_s * (2.0 / at_each_end).sqrt() / seconds,
    })
}

#[cfg(test)]
mod tests;
mod train_reading;

use crate::RunConclusion;
use capacity::TrainDispersion;
use empty_queue::EmptyQueueShare;
use longhaul_model::report::v1::ReportCaveat;
use longhaul_model::report::v1::available::{
    AvailableAnalysis, AvailableEstimate, AvailableMode, AvailableObservation, AvailablePlan,
    DirectionProbing, FallbackMethod, ProbeTrain, TrainPurpose,
};
use rate_sweep::TrainStrain;
use train_reading::{ClockZeros, TrainReading};

pub use paced_tcp::{PacedRate, choose_paced_rate, read_paced_step};
pub use probe_schedule::{ModeBudget, PriorPathFacts, ProbeSchedule, budget_of_mode};

/// Analyses a run.
pub fn conclude_available(
    plan: &AvailablePlan,
    observation: &AvailableObservation,
) -> RunConclusion<AvailableAnalysis> {
    let mut conclusion = RunConclusion {
        analysis: AvailableAnalysis { version: crate::VERSION, ..AvailableAnalysis::default() },
        ..RunConclusion::default()
    };
    let sides = [(&observation.forward, "forward"), (&observation.reverse, "reverse")];
    let [forward, reverse] = sides.map(|(probing, word)| {
        let probing = probing.as_ref()?;
        if plan.uncooperative == Some(FallbackMethod::PacedTcp) {
            conclusion.caveats.push(paced_tcp::one_end_caveat());
            return Some(paced_tcp::estimate_from_paced_steps(probing, observation));
        }
        Some(conclude_direction(plan, probing, observation.loopback, word, &mut conclusion))
    });
    if observation.loopback {
        let text = "both ends are the same host with no link between them: the rates are those of the host";
        conclusion.caveats.push(ReportCaveat::new("loopback", text));
    }
    conclusion.analysis.forward = forward;
    conclusion.analysis.reverse = reverse;
    conclusion
}

fn conclude_direction(
    plan: &AvailablePlan,
    probing: &DirectionProbing,
    loopback: bool,
    word: &str,
    conclusion: &mut RunConclusion<AvailableAnalysis>,
) -> AvailableEstimate {
    let direction = direction_estimate::estimate_direction(plan, probing, loopback);
    conclusion.findings.extend(available_findings::list_findings(&direction, word));
    conclusion.caveats.extend(available_findings::list_caveats(&direction, plan, word));
    direction.estimate
}
