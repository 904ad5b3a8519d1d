//! Derives the properties of the whole run before single intervals are judged.
//!
//! The intervals of all streams, the sum of their arrivals, the idle RTT, the level of the rate,
//! and a token bucket if there was one.
//!
//! Source: both ends' samples. Units: bit/s, microseconds. Error: that of the samples' spacing.
//! Wrong when: streams take different routes (one idle RTT for all).

use super::policer_fit::{self, PolicerFit};
use super::shaper_fit::{self, ShaperFit};
use super::stream_intervals::{self, SampleInterval};
use crate::stats::quantile::{median, quantile, sort_finite};
use crate::stats::robust_scale::mad_scale;
use crate::throughput::arrival_timeline::{ArrivalBin, RunArrivals};
use crate::throughput::loaded_rtt;
use longhaul_model::report::v1::analysis::SteadySpan;
use longhaul_model::report::v1::observation::{StreamEnd, ThroughputObservation};
use longhaul_model::report::v1::plan::ThroughputPlan;

/// A standing queue exceeds the idle RTT by this time and this share of it.
const QUEUE_US: f64 = 2000.0;
const QUEUE_RATIO: f64 = 0.1;
/// The level of the rate: all but the fastest tenth of the intervals stay below.
const LEVEL_QUANTILE: f64 = 0.9;
/// A rate whose intervals scatter less than this is flat: its limit is constant.
const FLAT_RATIO: f64 = 0.04;
/// The minimum number of intervals to see flatness.
const MIN_FLAT_INTERVALS: usize = 8;
/// The minimum ratio of host drops to retransmitted segments for the drops to explain them.
const HOST_DROP_RATIO: f64 = 0.2;

pub struct RunView<'a> {
    pub plan: &'a ThroughputPlan,
    pub observation: &'a ThroughputObservation,
    pub arrivals: RunArrivals,
    /// One list per stream of the observation, in its order.
    pub streams: Vec<Vec<SampleInterval<'a>>>,
    pub steady: Option<SteadySpan>,
    pub idle_rtt_us: Option<u64>,
    /// The rate that all streams together reached and kept.
    pub level_bps: f64,
    /// Scatter of the interval rates of the steady part, as a share of their median.
    pub scatter_ratio: Option<f64>,
    /// The steady part scatters less than `FLAT_RATIO`.
    pub flat: bool,
    pub bucket: Option<ShaperFit>,
    pub policer: Option<PolicerFit>,
}

impl<'a> RunView<'a> {
    pub fn of(plan: &'a ThroughputPlan, observation: &'a ThroughputObservation) -> RunView<'a> {
        let arrivals = RunArrivals::of(observation);
        let idle_rtt_us = loaded_rtt::find_idle_rtt_us(observation);
        let least_us = idle_rtt_us.unwrap_or(0);
        let streams: Vec<_> = observation
            .streams
            .iter()
            .map(|s| stream_intervals::split_stream(s, least_us))
            .collect();
        let rates = sort_finite(arrivals.rates_bps());
        let mut run = RunView {
            plan,
            observation,
            steady: crate::throughput::ramp_detection::find_steady_span(&arrivals, plan.warm_up_us),
            level_bps: quantile(&rates, LEVEL_QUANTILE).unwrap_or(0.0),
            scatter_ratio: None,
            flat: false,
            bucket: shaper_fit::find_shaper(&arrivals),
            policer: None,
            arrivals,
            streams,
            idle_rtt_us,
        };
        run.policer = policer_fit::find_policer(&run);
        run.settle_bucket();
        run.scatter_ratio = run.compute_scatter();
        run.flat = run.scatter_ratio.is_some_and(|r| r < FLAT_RATIO);
        run
    }

    /// Makes the part after the knee the steady part. A step without a standing queue, or one that
    /// a policer explains, is not a shaper.
    fn settle_bucket(&mut self) {
        if self.policer.is_some() || !self.is_queued_after_knee() {
            self.bucket = None;
        }
        if let (Some(bucket), None) = (self.bucket, self.plan.warm_up_us) {
            let to_us = self.arrivals.to_us();
            self.steady = Some(SteadySpan {
                from_us: bucket.knee_us,
                to_us,
            });
            self.level_bps = bucket.sustained_bps;
        }
    }

    /// Returns true if RTTs after the knee show a queue, since a shaper queues the excess.
    fn is_queued_after_knee(&self) -> bool {
        let Some(bucket) = self.bucket else {
            return false;
        };
        let after = self
            .streams
            .iter()
            .flatten()
            .filter(|i| i.from_us >= bucket.knee_us);
        let readings: Vec<bool> = after
            .filter_map(|i| Some(self.is_rtt_inflated(i.rtt_us? as f64)))
            .collect();
        let queued = readings.iter().filter(|q| **q).count();
        queued * 2 >= readings.len() && !readings.is_empty()
    }

    fn compute_scatter(&self) -> Option<f64> {
        let span = self.steady?;
        let bins = self.arrivals.within(span.from_us, span.to_us);
        let rates: Vec<f64> = bins.iter().map(ArrivalBin::rate_bps).collect();
        let level = median(rates.iter().copied()).unwrap_or(0.0);
        let told = rates.len() >= MIN_FLAT_INTERVALS && level > 0.0;
        mad_scale(&rates)
            .filter(|_| told)
            .map(|scatter| scatter / level)
    }

    /// Returns true if this RTT includes a queue.
    pub fn is_rtt_inflated(&self, rtt_us: f64) -> bool {
        self.idle_rtt_us
            .is_some_and(|idle| rtt_us - idle as f64 >= self.queue_threshold_us())
    }

    pub fn queue_threshold_us(&self) -> f64 {
        QUEUE_US.max(QUEUE_RATIO * self.idle_rtt_us.unwrap_or(0) as f64)
    }

    /// Returns the intervals of all streams in the steady part (or in the whole run).
    pub fn judged_intervals(&self) -> impl Iterator<Item = &SampleInterval<'a>> {
        self.streams.iter().flatten().filter(|i| self.is_judged(i))
    }

    pub fn is_judged(&self, interval: &SampleInterval) -> bool {
        !interval.draining && self.steady.is_none_or(|span| interval.to_us > span.from_us)
    }

    pub fn is_bbr(&self) -> bool {
        let named = |end: &StreamEnd| {
            end.congestion_control
                .as_deref()
                .map(|n| n.starts_with("bbr"))
        };
        self.observation
            .streams
            .iter()
            .any(|s| named(&s.sender) == Some(true))
    }

    pub fn retransmitted_segments(&self) -> u64 {
        let grown = self
            .streams
            .iter()
            .flatten()
            .filter_map(|i| i.retransmitted_segments);
        grown.fold(0, u64::saturating_add)
    }

    /// Returns the payload segments sent, from counters or from bytes over segment size.
    pub fn sent_segments(&self) -> Option<u64> {
        let streams = &self.observation.streams;
        let counts = streams.iter().map(|s| {
            let tcp = crate::throughput::run_totals::last_tcp_info(&s.sender)?;
            tcp.data_segments_out
                .or_else(|| s.sender.bytes.checked_div(tcp.mss_bytes))
        });
        let counts: Option<Vec<u64>> = counts.collect();
        counts
            .filter(|c| !c.is_empty())
            .map(|c| c.into_iter().fold(0, u64::saturating_add))
    }

    /// Returns the share of the sent segments that were retransmitted.
    pub fn loss_ratio(&self) -> Option<f64> {
        let sent = self.sent_segments().filter(|n| *n > 0)?;
        Some((self.retransmitted_segments() as f64 / sent as f64).min(1.0))
    }

    /// Returns the packets that the two hosts themselves dropped, by their own counters.
    pub fn host_drops(&self) -> u64 {
        let ends = &self.observation.ends;
        let counts = [&ends.sender.interface, &ends.receiver.interface];
        let dropped = counts
            .into_iter()
            .flatten()
            .filter(|(name, _)| is_drop_counter(name))
            .map(|(_, grown)| *grown);
        dropped.fold(0, u64::saturating_add)
    }

    /// Returns true if the hosts' own drops explain the retransmissions.
    pub fn is_dropped_by_hosts(&self) -> bool {
        let lost = self.retransmitted_segments() as f64;
        let dropped = self.host_drops() as f64;
        dropped > 0.0 && dropped >= HOST_DROP_RATIO * lost
    }
}

/// Matches the names that drivers give to counters of received but dropped packets.
pub fn is_drop_counter(name: &str) -> bool {
    const WORDS: [&str; 6] = [
        "drop",
        "missed",
        "no_buffer",
        "discards",
        "fifo",
        "over_errors",
    ];
    WORDS.iter().any(|word| name.contains(word))
}
