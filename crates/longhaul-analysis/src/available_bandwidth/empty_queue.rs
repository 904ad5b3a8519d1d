//! The share of small probes that find the queue of the narrow link empty.
//!
//! Probes at random times sample the time average of the queue (PASTA, Wolff 1982). Those that
//! found it empty share the minimum delay, within the noise of the clocks. The width of the noise
//! follows from the delays: it ends where the density falls off.
//!
//! Source: the idea of Forecaster (Neginhal et al. 2006), with known capacity and measured noise.
//! Units: shares of time, seconds. Error: from blocks of neighbouring probes, plus hidden queues.
//! Wrong when: more than one hop queues (the share is then a lower bound), or queues are shorter
//! than the noise.

use super::train_reading::{ReceivedPacket, TrainReading};
use crate::stats::{mean_and_deviation, median, quantile, sort_finite};
use longhaul_model::report::v1::available::TrainPurpose;

/// The parameters of the empty-queue method.
struct EmptyQueueTuning;

impl EmptyQueueTuning {
    /// The minimum number of probes for a share.
    const MIN_PROBES: usize = 60;
    /// The number of blocks of neighbouring probes, for the error.
    const BLOCKS: usize = 20;
    /// A probe this soon after another (in times between batches) may have met a running timer.
    const CLEAR_OF_BATCH: f64 = 1.3;
    /// The minimum width of the noise.
    const MIN_NOISE_S: f64 = 1.5e-6;
    /// The noise ends where the density falls to this share of its initial value.
    const SPARSE_RATIO: f64 = 0.4;
    const MARGIN: f64 = 1.3;
    /// The minimum width in bits: a twentieth of a full-size packet, which hides little.
    const MIN_NOISE_BITS: f64 = 600.0;
    /// A tail of noise: the minimum number of probes, the minimum ratio to the density of the next
    /// stretch, and the maximum number of stretches.
    const MIN_TAIL_PROBES: f64 = 8.0;
    const STEEP_RATIO: f64 = 2.5;
    const MAX_STRETCHES: usize = 10;
    /// The maximum ratio of noise to queues.
    const MAX_NOISE_TO_QUEUE: f64 = 0.6;
    /// The maximum ratio of noise to a full-size packet, as an alternative.
    const MAX_NOISE_TO_PACKET: f64 = 0.3;
    const FULL_BITS: f64 = 12_000.0;
    /// Wider noise without batching is that of a busy host …
    const BUSY_HOST_S: f64 = 30e-6;
    /// … and empty shares above this may then be due to it.
    const MAX_EMPTY_RATIO: f64 = 0.6;
    /// Fair queueing: the minimum empty share if the sweep finds less, the maximum one if it finds
    /// more, and the maximum wait in full-size packets.
    const FAIR_EMPTY_RATIO: f64 = 0.85;
    const BUSY_EMPTY_RATIO: f64 = 0.5;
    const FAIR_WAIT_PACKETS: f64 = 1.5;
    /// The maximum plausible clock skew; long queues may look like skew.
    const USUAL_SKEW: f64 = 5e-4;
    /// The maximum skew above which the times cannot come from a clock.
    const MAX_SKEW: f64 = 2e-3;
    const MIN_STRAIGHTNESS: f64 = 0.97;
    /// One of our trains' queues drains within this many times its length, if 15 % are free.
    const DRAIN_FACTOR: f64 = 7.0;
    const MAX_DRAIN_S: f64 = 0.2;
    /// A bucket shows if a burst is early by more packets than this …
    const MIN_CREDIT_PACKETS: f64 = 1.2;
    /// … or, in so few bursts, the first packet by such a part of its time on the link.
    const FEW_BURSTS: usize = 2;
    const PARTLY_EARLY_PACKETS: [f64; 2] = [0.25, 0.85];
    /// The credit of a bucket of two packets.
    const USUAL_CREDIT_PACKETS: f64 = 1.9;
    /// The uncertain share of what the noise hides.
    const HIDDEN_DOUBT: f64 = 0.5;
}

/// The result of the small probes.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct EmptyQueueShare {
    /// The share of time in which the queue was empty, including of our own probes.
    pub empty_ratio: f64,
    /// The standard error of `empty_ratio`.
    pub error_ratio: f64,
    /// The mean queueing delay of the probes that met a queue.
    pub queue_s: f64,
    /// The share of the probes that waited, and the number of independent probes that show it as well.
    pub waiting_ratio: f64,
    pub independent_probes: f64,
    /// The time for which a token bucket hides a queue from small probes; 0 without one.
    pub credit_s: f64,
    /// The delay that one probe in twenty exceeds.
    pub long_queue_s: f64,
    /// The width of the noise.
    pub noise_s: f64,
    /// The rate of our own probes.
    pub probe_bps: f64,
    /// Set if the timestamp error exceeds that of an otherwise idle host.
    pub is_busy_host: bool,
}

impl EmptyQueueShare {
    /// Returns whether the noise is small compared with the queues, or there are hardly any queues.
    ///
    /// Delays caused by a busy host look like a few long queues, and its noise hides the many short
    /// ones. On such a host the result is valid only if most probes meet a queue.
    pub fn is_valid(&self, capacity_bps: f64) -> bool {
        let seen = !self.is_busy_host || self.empty_ratio < EmptyQueueTuning::MAX_EMPTY_RATIO;
        seen && self.noise_s <= EmptyQueueTuning::MAX_NOISE_TO_QUEUE * self.queue_s
            || self.noise_s
                <= EmptyQueueTuning::MAX_NOISE_TO_PACKET * EmptyQueueTuning::FULL_BITS
                    / capacity_bps
    }
}

/// Returns whether trains meet queues that small probes do not: with fair queueing, a flow that is
/// slower than its share waits for at most about one packet of the others.
pub fn is_fair_queue(seen: EmptyQueueShare, capacity_bps: f64, sweep_bps: f64) -> bool {
    if sweep_bps < seen.empty_ratio * capacity_bps {
        return seen.empty_ratio > EmptyQueueTuning::FAIR_EMPTY_RATIO;
    }
    seen.empty_ratio < EmptyQueueTuning::BUSY_EMPTY_RATIO
        && waits_for_one_packet(seen, capacity_bps)
}

/// Returns whether small probes wait for at most about one packet.
pub fn waits_for_one_packet(seen: EmptyQueueShare, capacity_bps: f64) -> bool {
    let packets = seen.long_queue_s * capacity_bps / EmptyQueueTuning::FULL_BITS;
    packets < EmptyQueueTuning::FAIR_WAIT_PACKETS
}

/// Returns an implausible clock skew: the delay of the small probes is a straight and steep line.
/// Queues may be steep, but are never straight.
pub fn find_implausible_skew(readings: &[TrainReading]) -> Option<f64> {
    let points = select_probes(readings, 0.0);
    let count = points.len() as f64;
    if points.len() < EmptyQueueTuning::MIN_PROBES {
        return None;
    }
    let mean = |of: fn(&ReceivedPacket) -> f64| points.iter().map(of).sum::<f64>() / count;
    let (at, delay) = (mean(|p| p.sent_s), mean(ReceivedPacket::delay_s));
    let sum = |of: &dyn Fn(&ReceivedPacket) -> f64| points.iter().map(of).sum::<f64>();
    let times = sum(&|p| (p.sent_s - at).powi(2));
    let delays = sum(&|p| (p.delay_s() - delay).powi(2));
    let both = sum(&|p| (p.sent_s - at) * (p.delay_s() - delay));
    let straight = both * both / (times * delays).max(f64::MIN_POSITIVE);
    Some(both / times).filter(|slope| {
        slope.abs() > EmptyQueueTuning::MAX_SKEW && straight > EmptyQueueTuning::MIN_STRAIGHTNESS
    })
}

/// Measures how often the queue is empty; `None` with too few probes.
pub fn measure_empty_queue(
    readings: &[TrainReading],
    batching_s: f64,
    capacity_bps: f64,
) -> Option<EmptyQueueShare> {
    let points = select_probes(readings, EmptyQueueTuning::CLEAR_OF_BATCH * batching_s);
    if points.len() < EmptyQueueTuning::MIN_PROBES {
        return None;
    }
    let line = DelayLine::below(&points);
    let delays = line.subtract_from(&points);
    let noise = measure_delay_noise(&delays, EmptyQueueTuning::MIN_NOISE_BITS / capacity_bps);
    let count = delays.len() as f64;
    let busy: Vec<f64> = delays.iter().copied().filter(|d| *d > noise.width_s).collect();
    let queue_s = busy.iter().map(|d| d - noise.width_s).sum::<f64>() / busy.len().max(1) as f64;
    let hidden = compute_hidden_share(noise.width_s, queue_s) * busy.len() as f64 / count;
    let empty_ratio = (noise.excess / count - hidden.min(0.3)).clamp(0.0, 1.0);
    let sampling = compute_block_error(&delays, noise.width_s);
    let waiting_ratio = busy.len() as f64 / count;
    let variance = waiting_ratio * (1.0 - waiting_ratio);
    let independent_probes =
        if variance > 0.0 { (variance / sampling.powi(2)).min(count) } else { count };
    // The subtraction of the next stretch may have removed probes of an empty queue.
    let removed = (noise.within - noise.excess).max(0.0) / count;
    let systematic = EmptyQueueTuning::HIDDEN_DOUBT * (hidden + removed);
    let ours = || readings.iter().filter(|r| r.purpose == TrainPurpose::Idle);
    let seconds: f64 = ours().map(TrainReading::sent_span_s).sum();
    let bits: f64 = ours().map(|r| r.packets as f64 * r.bits).sum();
    Some(EmptyQueueShare {
        empty_ratio,
        error_ratio: sampling.hypot(systematic),
        queue_s,
        waiting_ratio,
        independent_probes,
        credit_s: find_bucket_credit_s(readings, line, capacity_bps)
            .filter(|_| batching_s <= 0.0)
            .unwrap_or(0.0),
        long_queue_s: quantile(&sort_finite(delays.iter().copied()), 0.95).unwrap_or(0.0),
        noise_s: noise.width_s,
        probe_bps: if seconds > 0.0 { bits / seconds } else { 0.0 },
        is_busy_host: batching_s <= 0.0 && noise.width_s > EmptyQueueTuning::BUSY_HOST_S,
    })
}

/// Returns all probes by time, except those that came too soon after another or met a queue left by
/// one of our own trains.
fn select_probes(readings: &[TrainReading], clear_s: f64) -> Vec<ReceivedPacket> {
    let delays = readings.iter().flat_map(|r| r.points.iter().map(ReceivedPacket::delay_s));
    let least = delays.fold(f64::MAX, f64::min);
    let mut drained_s = f64::MIN;
    let mut kept = Vec::new();
    for train in readings {
        let Some(last) = train.points.last().filter(|_| train.purpose != TrainPurpose::Idle) else {
            kept.extend(drop_close_probes(
                train.kept.iter().filter(|p| p.sent_s >= drained_s),
                clear_s,
            ));
            continue;
        };
        let queue_s = last.delay_s() - least;
        drained_s = drained_s.max(
            train.sent_s[1]
                + (EmptyQueueTuning::DRAIN_FACTOR * queue_s).min(EmptyQueueTuning::MAX_DRAIN_S),
        );
    }
    kept
}

/// Leaves out probes sent too soon after another. A probe that was sent in time but arrived close
/// behind another met it in the queue: it is kept with the delay expected without the other.
fn drop_close_probes<'a>(
    points: impl Iterator<Item = &'a ReceivedPacket>,
    clear_s: f64,
) -> Vec<ReceivedPacket> {
    let mut kept = Vec::new();
    let mut before: Option<&ReceivedPacket> = None;
    for point in points {
        let gap = |of: fn(&ReceivedPacket) -> f64| before.map_or(f64::MAX, |b| of(point) - of(b));
        if gap(|p| p.sent_s) >= clear_s {
            let close = gap(|p| p.received_s) < clear_s;
            kept.push(ReceivedPacket {
                received_s: point.received_s + if close { clear_s } else { 0.0 },
                ..*point
            });
        }
        before = Some(point);
    }
    kept
}

/// The line through the minimum delays of small probes.
#[derive(Debug, Clone, Copy)]
struct DelayLine {
    from_s: f64,
    least_s: f64,
    skew: f64,
}

impl DelayLine {
    fn below(points: &[ReceivedPacket]) -> DelayLine {
        let usual = EmptyQueueTuning::USUAL_SKEW;
        let skew = find_skew_slope(points).clamp(-usual, usual);
        let level = DelayLine { from_s: points[0].sent_s, least_s: 0.0, skew };
        let least_s = points.iter().map(|point| level.above_s(point)).fold(f64::MAX, f64::min);
        DelayLine { least_s, ..level }
    }

    /// Returns by how much a packet's delay is above the line.
    fn above_s(self, point: &ReceivedPacket) -> f64 {
        point.delay_s() - self.skew * (point.sent_s - self.from_s) - self.least_s
    }

    fn subtract_from(self, points: &[ReceivedPacket]) -> Vec<f64> {
        points.iter().map(|point| self.above_s(point)).collect()
    }
}

/// Returns the time for which a bucket hides a queue: the most by which a burst was less delayed than
/// its bytes take on the link. Two bursts may both meet a bucket that is partly used. `None` without a
/// bucket.
fn find_bucket_credit_s(
    readings: &[TrainReading],
    line: DelayLine,
    capacity_bps: f64,
) -> Option<f64> {
    let probe_bits = readings.iter().find(|r| r.purpose == TrainPurpose::Idle)?.bits;
    let bursts = || readings.iter().filter(|r| r.purpose == TrainPurpose::Burst);
    let packet_s = bursts().next()?.bits / capacity_bps;
    let ahead = |burst: &TrainReading, point: &ReceivedPacket| {
        let bits = burst.bits * (point.index + 1) as f64 - probe_bits;
        (bits / capacity_bps - line.above_s(point)) / packet_s
    };
    let of_settled = bursts().filter_map(|r| Some(ahead(r, r.settled().first()?)));
    let most = of_settled.fold(0.0, f64::max);
    // Without a bucket, shapers that count time let one packet pass at once.
    let is_bucket = most > EmptyQueueTuning::MIN_CREDIT_PACKETS;
    let of_first = bursts().filter_map(|r| Some(ahead(r, r.points.first()?)));
    let [least_early, most_early] = EmptyQueueTuning::PARTLY_EARLY_PACKETS;
    let is_partly_early = (least_early..most_early).contains(&of_first.fold(0.0, f64::max));
    let is_used = bursts().count() <= EmptyQueueTuning::FEW_BURSTS && is_partly_early;
    (is_bucket || is_used).then(|| most.max(EmptyQueueTuning::USUAL_CREDIT_PACKETS) * packet_s)
}

/// Returns the slope of the lower hull's edge at the mean time (Moon, Skelly and Towsley 1999).
fn find_skew_slope(points: &[ReceivedPacket]) -> f64 {
    let mut hull: Vec<(f64, f64)> = Vec::new();
    for (x, y) in points.iter().map(|p| (p.sent_s, p.delay_s())) {
        while let [.., a, b] = hull[..] {
            if (b.0 - a.0) * (y - a.1) <= (b.1 - a.1) * (x - a.0) {
                hull.pop();
            } else {
                break;
            }
        }
        hull.push((x, y));
    }
    let middle = points.iter().map(|p| p.sent_s).sum::<f64>() / points.len() as f64;
    let edge = hull.windows(2).find(|w| w[1].0 >= middle);
    edge.map_or(0.0, |w| if w[1].0 > w[0].0 { (w[1].1 - w[0].1) / (w[1].0 - w[0].0) } else { 0.0 })
}

#[derive(Debug, Clone, Copy)]
struct DelayNoise {
    width_s: f64,
    /// The number of probes within the width.
    within: f64,
    /// That number minus the one in the next stretch of the same length.
    excess: f64,
}

/// Measures the noise. Delays of empty queues cluster within the noise; those of busy ones spread
/// evenly over it and beyond. The noise ends where the probes become much less dense.
fn measure_delay_noise(delays: &[f64], least_s: f64) -> DelayNoise {
    let mut sorted = delays.to_vec();
    sorted.sort_by(f64::total_cmp);
    let count = sorted.len();
    let (first, dense) = (count / 100, (count * 8 / 100).max(12));
    let width = |from: usize, to: usize| (sorted[to] - sorted[from]).max(1e-9);
    let density = (dense - first) as f64 / width(first, dense);
    let look = (count / 25).max(10);
    let end = (dense / 2..count.saturating_sub(look))
        .find(|i| (look as f64 / width(*i, i + look)) < EmptyQueueTuning::SPARSE_RATIO * density)
        .unwrap_or(count - 1);
    let below = |s: f64| sorted.partition_point(|d| *d <= s) as f64;
    // Too narrow a width loses twice what it cuts off; too wide a one loses little.
    let mut width_s =
        (EmptyQueueTuning::MARGIN * sorted[end]).max(EmptyQueueTuning::MIN_NOISE_S).max(least_s);
    // Noise with a tail falls off steeply; queues do not.
    for _ in 0..EmptyQueueTuning::MAX_STRETCHES {
        let near = below(2.0 * width_s) - below(width_s);
        let far = (below(4.0 * width_s) - below(2.0 * width_s)) / 2.0;
        if near < EmptyQueueTuning::MIN_TAIL_PROBES
            || near < EmptyQueueTuning::STEEP_RATIO * far + EmptyQueueTuning::MIN_TAIL_PROBES / 2.0
        {
            break;
        }
        width_s *= EmptyQueueTuning::MARGIN;
    }
    let within = below(width_s);
    DelayNoise { width_s, within, excess: within - (below(2.0 * width_s) - within) }
}

/// Returns the share of the busy probes that count as empty, if queues are exponential.
fn compute_hidden_share(noise_s: f64, queue_s: f64) -> f64 {
    if queue_s <= 0.0 {
        return 0.0;
    }
    (1.0 - (-noise_s / queue_s).exp()).powi(2)
}

fn compute_block_error(delays: &[f64], noise_s: f64) -> f64 {
    let size = (delays.len() / EmptyQueueTuning::BLOCKS).max(1);
    let shares: Vec<f64> = delays
        .chunks(size)
        .map(|block| block.iter().filter(|d| **d <= noise_s).count() as f64 / block.len() as f64)
        .collect();
    let scatter = mean_and_deviation(&shares).map_or(1.0, |(_, deviation)| deviation);
    let floor = 0.5 / delays.len() as f64;
    (scatter / (shares.len() as f64).sqrt()).max(floor)
}

/// Returns the median delay of a probe above the minimum, for display.
pub fn median_delay_s(readings: &[TrainReading]) -> Option<f64> {
    let points = select_probes(readings, 0.0);
    (!points.is_empty()).then(|| median(DelayLine::below(&points).subtract_from(&points))).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_long_queues_behind_a_busy_hosts_noise_are_not_believed() {
        let seen = |noise_s: f64, empty_ratio| EmptyQueueShare {
            empty_ratio,
            error_ratio: 0.02,
            queue_s: 1e-3,
            waiting_ratio: 1.0 - empty_ratio,
            independent_probes: 600.0,
            credit_s: 0.0,
            long_queue_s: 3e-3,
            noise_s,
            probe_bps: 320_000.0,
            is_busy_host: noise_s > EmptyQueueTuning::BUSY_HOST_S,
        };
        let slow = 50e6;
        assert!(!seen(200e-6, 0.97).is_valid(slow));
        assert!(seen(200e-6, 0.2).is_valid(slow));
        // Noise narrower than a third of a packet hides no queue.
        assert!(seen(50e-6, 0.97).is_valid(slow));
        assert!(seen(3e-6, 0.97).is_valid(1e9));
    }
}
