//! Available bandwidth from one end: TCP paced at different rates, and the sender's RTT.
//!
//! A paced stream whose rate is below the available bandwidth leaves the queue of the narrow link
//! empty; above it the queue grows, and the RTT with it. The first step is unlimited; the next ones
//! halve the range between the highest rate without and the lowest rate with a queue. Only the
//! second half of a step counts.
//!
//! Source: self-induced congestion as in pathload (Jain and Dovrolis, SIGCOMM 2002), with TCP in
//! place of trains and TCP_INFO in place of one-way delays. Units: bit/s of IP packets, µs. Error:
//! the range that is left, and 5 % at each end for pacing and headers. Wrong when: other traffic
//! yields to TCP (too high); the queue is shorter than the noise of the RTT (too high); the queue is
//! on the way back (too low); the window or the CPU limits the sender (a lower bound, and said so).

use longhaul_model::report::v1::ReportCaveat;
use longhaul_model::report::v1::available::{
    AvailableEstimate, AvailableObservation, DirectionProbing, EstimateVerdict, MethodEstimate,
    PacedStep,
};
use longhaul_model::report::v1::observation::{StreamEnd, StreamSample, ThroughputObservation};

/// The parameters of the search.
struct PacedSearchTuning;

impl PacedSearchTuning {
    const MAX_STEPS: usize = 8;
    /// The search ends when the range is at most this share of its upper end.
    const RANGE_RATIO: f64 = 0.06;
    /// A rise of the median RTT beyond both is a queue.
    const RISE_RATIO: f64 = 0.1;
    const MIN_RISE_US: u64 = 1000;
    /// A rate of retransmits above this is congestion without a visible queue.
    const RETRANSMIT_RATIO: f64 = 0.005;
    /// A step that carries less than this share of its rate did not reach it.
    const REACHED_RATIO: f64 = 0.9;
    /// The error of pacing and of the size of headers.
    const RATE_ERROR: f64 = 0.05;
}

/// The headers of a TCP segment with timestamps, in IPv4.
const HEADER_BYTES: u64 = 52;

/// The rate of the next step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PacedRate {
    Unlimited,
    /// Of all streams together.
    Bps(u64),
}

/// Summarises the second half of a step that this end has sent.
pub fn read_paced_step(rate: PacedRate, at_us: u64, seen: &ThroughputObservation) -> PacedStep {
    let ends: Vec<&StreamEnd> = seen.streams.iter().map(|stream| &stream.sender).collect();
    let halves = ends.iter().map(|end| second_half(end)).collect::<Vec<_>>();
    let mut rtts: Vec<u64> = halves
        .iter()
        .flat_map(|half| half.iter().filter_map(|it| Some(it.tcp.as_ref()?.rtt_us)))
        .collect();
    rtts.sort_unstable();
    let least =
        halves.iter().flat_map(|half| half.iter().filter_map(|it| it.tcp.as_ref()?.rtt_min_us));
    let mss = ends.iter().find_map(|end| end.mss_bytes).map_or(1448, u64::from).max(1);
    let payload_bps: f64 = halves.iter().filter_map(|half| acknowledged_bps(half)).sum();
    PacedStep {
        rate_bps: match rate {
            PacedRate::Unlimited => None,
            PacedRate::Bps(bps) => Some(bps),
        },
        at_us,
        duration_us: seen.elapsed_us,
        sent_bytes: ends.iter().map(|end| end.bytes).sum(),
        delivered_bps: (payload_bps * (mss + HEADER_BYTES) as f64 / mss as f64) as u64,
        rtt_min_us: least.min(),
        rtt_median_us: rtts.get(rtts.len() / 2).copied(),
        retransmits: halves
            .iter()
            .map(|half| grown(half, |tcp| Some(tcp.retransmitted_segments)))
            .sum(),
        segments: halves.iter().map(|half| grown(half, |tcp| tcp.data_segments_out)).sum(),
    }
}

/// Returns the samples of the second half of the time in which this end sent. The last sample of a
/// run may be taken much later, when all data has arrived.
fn second_half(end: &StreamEnd) -> &[StreamSample] {
    let ended = end.started_us.saturating_add(end.duration_us);
    let middle = end.started_us.saturating_add(end.duration_us / 2);
    let place = |us: u64| end.samples.partition_point(|sample| sample.at_us < us);
    &end.samples[place(middle)..place(ended)]
}

/// Returns the growth of a counter between the first and the last reading.
fn grown(
    samples: &[StreamSample],
    count: impl Fn(&longhaul_model::report::v1::observation::TcpReading) -> Option<u64>,
) -> u64 {
    let mut counts = samples.iter().filter_map(|sample| count(sample.tcp.as_ref()?));
    let first = counts.next();
    first.zip(counts.last()).map_or(0, |(first, last)| last.saturating_sub(first))
}

fn acknowledged_bps(samples: &[StreamSample]) -> Option<f64> {
    let mut read = samples.iter().filter_map(|it| Some((it.at_us, it.tcp.as_ref()?.bytes_acked?)));
    let first = read.next()?;
    let last = read.next_back()?;
    let seconds = last.0.checked_sub(first.0).filter(|us| *us > 0)? as f64 / 1e6;
    Some(last.1.saturating_sub(first.1) as f64 * 8.0 / seconds)
}

/// The range of the available bandwidth that the steps leave.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
struct RateRange {
    /// The highest rate without a queue.
    low_bps: f64,
    /// The lowest rate with a queue; absent: none had one.
    high_bps: Option<f64>,
    /// A step reached neither its rate nor a queue.
    sender_limited: bool,
}

impl RateRange {
    fn of(steps: &[PacedStep], idle_rtt_us: Option<u64>) -> RateRange {
        let base = steps.iter().filter_map(|step| step.rtt_min_us).chain(idle_rtt_us).min();
        let mut range = RateRange::default();
        for step in steps {
            let delivered = step.delivered_bps as f64;
            if is_congested(step, base) {
                // A queue shows that at least what was carried is too much, or what was requested.
                let rate = step.rate_bps.map_or(delivered, |bps| (bps as f64).min(delivered));
                range.high_bps = Some(range.high_bps.map_or(rate, |high| high.min(rate)));
            } else {
                let reached = |bps| delivered >= PacedSearchTuning::REACHED_RATIO * bps as f64;
                range.sender_limited |= !step.rate_bps.is_some_and(reached);
                range.low_bps = range.low_bps.max(delivered);
            }
        }
        // Noise may put a rate without a queue above one with a queue.
        if let Some(high) = range.high_bps {
            range.low_bps = range.low_bps.min(high);
        }
        range
    }
}

fn is_congested(step: &PacedStep, base_rtt_us: Option<u64>) -> bool {
    let rise =
        step.rtt_median_us.zip(base_rtt_us).map_or(0, |(rtt, base)| rtt.saturating_sub(base));
    let noise = base_rtt_us.map_or(0.0, |base| base as f64 * PacedSearchTuning::RISE_RATIO);
    let lost = step.retransmits as f64 > PacedSearchTuning::RETRANSMIT_RATIO * step.segments as f64;
    lost || (rise > PacedSearchTuning::MIN_RISE_US && rise as f64 > noise)
}

/// Returns the rate of the next step; `None` if the search is over.
pub fn choose_paced_rate(steps: &[PacedStep], idle_rtt_us: Option<u64>) -> Option<PacedRate> {
    if steps.is_empty() {
        return Some(PacedRate::Unlimited);
    }
    let range = RateRange::of(steps, idle_rtt_us);
    let high = range.high_bps.filter(|high| *high > 0.0)?;
    let is_narrow = high - range.low_bps <= PacedSearchTuning::RANGE_RATIO * high;
    let is_over = steps.len() >= PacedSearchTuning::MAX_STEPS || range.sender_limited || is_narrow;
    (!is_over).then(|| PacedRate::Bps((f64::midpoint(range.low_bps, high)) as u64))
}

/// Concludes from the steps of one direction.
pub(super) fn estimate_from_paced_steps(
    probing: &DirectionProbing,
    observation: &AvailableObservation,
) -> AvailableEstimate {
    let mut range = RateRange::of(&probing.paced_steps, observation.idle_rtt_us);
    if observation.loopback {
        // There is no link, so what queues is the host.
        let carried = probing.paced_steps.iter().map(|step| step.delivered_bps).max();
        range = RateRange { low_bps: carried.unwrap_or(0) as f64, ..RateRange::default() };
    }
    let segments: u64 = probing.paced_steps.iter().map(|step| step.segments).sum();
    let retransmits: u64 = probing.paced_steps.iter().map(|step| step.retransmits).sum();
    let below = |bps: f64| (bps * (1.0 - PacedSearchTuning::RATE_ERROR)) as u64;
    let above = |bps: f64| (bps * (1.0 + PacedSearchTuning::RATE_ERROR)) as u64;
    let (verdict, available, interval) = match range.high_bps {
        _ if range.low_bps == 0.0 => (EstimateVerdict::Disturbed, None, None),
        None => (EstimateVerdict::SenderLimited, None, None),
        Some(high) => (
            EstimateVerdict::Estimated,
            Some(f64::midpoint(range.low_bps, high) as u64),
            Some([below(range.low_bps), above(high)]),
        ),
    };
    AvailableEstimate {
        verdict,
        // The path carried this much.
        capacity_bps: (verdict == EstimateVerdict::SenderLimited).then_some(range.low_bps as u64),
        available_bps: available,
        available_interval_bps: interval,
        methods: vec![MethodEstimate {
            name: "paced_tcp".to_owned(),
            available_bps: available,
            interval_bps: interval,
            weight_ratio: if available.is_some() { 1.0 } else { 0.0 },
            invalid: match verdict {
                EstimateVerdict::Estimated => None,
                EstimateVerdict::SenderLimited => Some("no rate made a queue".to_owned()),
                _ => Some("every rate made a queue".to_owned()),
            },
        }],
        probe_bytes: probing.probe_bytes,
        duration_us: probing.duration_us,
        loss_ratio: if segments == 0 { 0.0 } else { retransmits as f64 / segments as f64 },
        flags: vec!["uncooperative".to_owned()],
        ..AvailableEstimate::default()
    }
}

/// Returns the caveat of every estimate from one end.
pub(super) fn one_end_caveat() -> ReportCaveat {
    let text = "measured from one end, by the RTT of paced TCP: traffic that yields to TCP counts as \
                free, queues of less than 1 ms or 10 % of the RTT stay unseen, and a queue on the \
                way back looks like one on the way there; run `longhaul serve` there for probe \
                trains";
    ReportCaveat::new("one_end_available", text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use longhaul_model::report::v1::observation::TcpReading;

    #[test]
    fn a_sample_from_after_the_sending_time_does_not_lower_the_rate() {
        let sample = |at_us, acknowledged| StreamSample {
            at_us,
            tcp: Some(TcpReading { bytes_acked: Some(acknowledged), ..TcpReading::default() }),
            ..StreamSample::default()
        };
        let sending = (0..20).map(|n| sample(n * 100_000, n * 100_000));
        let end = StreamEnd {
            duration_us: 2_000_000,
            samples: sending.chain([sample(3_000_000, 1_900_000)]).collect(),
            ..StreamEnd::default()
        };
        assert_eq!(acknowledged_bps(second_half(&end)), Some(8e6));
    }

    /// A step over a link with a capacity, constant other traffic and a queue of 50 ms.
    fn simulate_step(rate: PacedRate, free_bps: u64, sender_bps: u64) -> PacedStep {
        let wanted = match rate {
            PacedRate::Unlimited => sender_bps,
            PacedRate::Bps(bps) => bps.min(sender_bps),
        };
        let queued_us = if wanted > free_bps { 40_000 } else { 0 };
        PacedStep {
            rate_bps: match rate {
                PacedRate::Unlimited => None,
                PacedRate::Bps(bps) => Some(bps),
            },
            at_us: 0,
            duration_us: 2_000_000,
            sent_bytes: 1,
            delivered_bps: wanted.min(free_bps),
            rtt_min_us: Some(20_000),
            rtt_median_us: Some(20_300 + queued_us),
            retransmits: 0,
            segments: 1000,
        }
    }

    fn search(free_bps: u64, sender_bps: u64) -> DirectionProbing {
        let mut probing = DirectionProbing::default();
        while let Some(rate) = choose_paced_rate(&probing.paced_steps, Some(20_000)) {
            probing.paced_steps.push(simulate_step(rate, free_bps, sender_bps));
            assert!(probing.paced_steps.len() <= PacedSearchTuning::MAX_STEPS);
        }
        probing
    }

    fn conclude(probing: &DirectionProbing) -> AvailableEstimate {
        estimate_from_paced_steps(probing, &AvailableObservation::default())
    }

    #[test]
    fn a_loopback_has_no_available_bandwidth() {
        let probing = search(70_000_000, 10_000_000_000);
        let observation = AvailableObservation { loopback: true, ..Default::default() };
        let estimate = estimate_from_paced_steps(&probing, &observation);
        assert_eq!((estimate.available_bps, estimate.capacity_bps), (None, Some(70_000_000)));
    }

    #[test]
    fn the_range_closes_around_the_free_rate() {
        for free_bps in [3_000_000, 70_000_000, 4_000_000_000] {
            let estimate = conclude(&search(free_bps, 10_000_000_000));
            assert_eq!(estimate.verdict, EstimateVerdict::Estimated);
            let [low, high] = estimate.available_interval_bps.expect("an interval");
            assert!((low..=high).contains(&free_bps), "{free_bps}: {low} to {high}");
            assert!(high - low < free_bps / 5, "{free_bps}: {low} to {high}");
            assert_eq!(estimate.flags, ["uncooperative"]);
        }
    }

    #[test]
    fn a_sender_that_makes_no_queue_gives_a_lower_bound() {
        let probing = search(1_000_000_000, 200_000_000);
        assert_eq!(probing.paced_steps.len(), 1);
        let estimate = conclude(&probing);
        assert_eq!(estimate.verdict, EstimateVerdict::SenderLimited);
        assert_eq!((estimate.available_bps, estimate.capacity_bps), (None, Some(200_000_000)));
    }

    #[test]
    fn loss_without_a_queue_is_congestion_too() {
        let mut step = simulate_step(PacedRate::Unlimited, 1_000_000, 900_000);
        assert!(!is_congested(&step, Some(20_000)));
        step.retransmits = 20;
        assert!(is_congested(&step, Some(20_000)));
    }

    #[test]
    fn nothing_is_estimated_if_every_rate_makes_a_queue() {
        let mut probing = DirectionProbing::default();
        while let Some(rate) = choose_paced_rate(&probing.paced_steps, Some(1000)) {
            probing.paced_steps.push(simulate_step(rate, 0, 50_000_000));
        }
        let estimate = conclude(&probing);
        assert_eq!((estimate.verdict, estimate.available_bps), (EstimateVerdict::Disturbed, None));
    }
}
