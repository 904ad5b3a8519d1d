//! The results of the trains of one direction, separately for each method.
//!
//! Source: docs/methods/available-bandwidth.md. Units: bit/s of IP, seconds. Error: in each part.
//! Wrong when: most trains are left out; the reasons are kept.

use super::capacity::{self, TrainDispersion};
use super::empty_queue::{self, EmptyQueueShare};
use super::rate_sweep::TrainStrain;
use super::train_reading::{self, ClockZeros, TrainReading};
use longhaul_model::report::v1::available::{ProbeTrain, TrainPurpose};

/// The error of a kernel's receive timestamp without batching.
const STAMP_S: f64 = 0.7e-6;
/// The error of packets that each waited for a timer, as a ratio of the time between batches.
const TIMER_SCATTER: f64 = 0.2;

/// All readings of one direction and each method's result.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct TrainEvidence {
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
            empty_queue::measure_empty_queue(&self.readings, batching_s, d.capacity_bps)
        });
        let noise_s = self.dispersion.map_or(0.0, |d| d.noise_s);
        self.data = self
            .readings
            .iter()
            .filter(|r| r.purpose == TrainPurpose::Sweep && !r.is_lossy())
            .filter_map(|r| build_train_strain(r, batching_s, noise_s))
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

fn build_train_strain(
    reading: &TrainReading,
    batching_s: f64,
    noise_s: f64,
) -> Option<TrainStrain> {
    let (strain, seconds) = reading.strain()?;
    let rate_bps = reading.sent_bps()?;
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
