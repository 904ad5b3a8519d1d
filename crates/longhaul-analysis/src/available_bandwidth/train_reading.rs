//! The usable part of one train.
//!
//! A train is left out, with a reason, if its clock stepped, its times run backwards or stand
//! still, its sender was held up, or too much of it was lost. From the rest, packets that a
//! batching receiver delayed are removed: the last packet of a batch has waited least.
//!
//! Source: docs/methods/available-bandwidth.md; the signature of batches is that of Prasad, Jain
//! and Dovrolis (PAM 2004). Units: seconds from the run's own zeros, bits of IP.
//! Error: a kept packet waited at most one gap between packets.
//! Wrong when: the receiver releases batches at moments that depend on the queue.

use crate::stats::median;
use longhaul_model::report::v1::available::{ProbeTrain, TrainPurpose};

/// The parameters of the checks of a train.
struct TrainReadingTuning;

impl TrainReadingTuning {
    /// The maximum step of the receiver's wall clock within a train.
    const MAX_CLOCK_STEP_NS: u64 = 20_000;
    /// The maximum pause of the sender, as a share of the train.
    const MAX_PAUSE_RATIO: f64 = 0.25;
    /// Trains with fewer packets are not checked for pauses.
    const MIN_PACKETS_FOR_PAUSE: usize = 10;
    /// The maximum loss at which the strain is used.
    const MAX_LOST_RATIO: f64 = 0.02;
    /// The maximum share of reordered packets or decreasing times; above it the clock is wrong.
    const MAX_BACKWARD_RATIO: f64 = 0.1;
    /// The maximum plausible variation of the delay within a train.
    const MAX_DELAY_SPREAD_S: f64 = 10.0;
    /// A gap between arrivals ends a batch if it is at least this long, and this share of the mean gap.
    const MIN_BATCH_GAP_S: f64 = 1.2e-6;
    const BATCH_GAP_RATIO: f64 = 0.15;
    /// The ratio of batches to packets above which the receiver does not batch.
    const UNBATCHED_RATIO: f64 = 0.95;
    /// The number of packets that the buckets of tbf and htb at their usual sizes let pass at once.
    const UNTIMED_PACKETS: usize = 4;
    /// The minimum number of packets that must remain without these.
    const MIN_SETTLED_PACKETS: usize = 5;
}

/// The minimum number of batches for a rate.
pub const MIN_BATCHES: usize = 4;

/// A packet that arrived.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ReceivedPacket {
    pub index: usize,
    pub sent_s: f64,
    pub received_s: f64,
}

impl ReceivedPacket {
    /// The one-way delay up to a constant offset of the run.
    pub fn delay_s(&self) -> f64 {
        self.received_s - self.sent_s
    }
}

/// The usable part of one train.
#[derive(Debug, Clone, PartialEq)]
pub struct TrainReading {
    pub index: u32,
    pub purpose: TrainPurpose,
    /// The size of one packet in bits.
    pub bits: f64,
    pub packets: usize,
    pub lost: usize,
    /// All packets that arrived, in sending order.
    pub points: Vec<ReceivedPacket>,
    /// The packets with a reliable time.
    pub kept: Vec<ReceivedPacket>,
    /// The time between batches; absent if the receiver does not batch.
    pub batching_s: Option<f64>,
    /// The send times of the first and the last packet.
    pub sent_s: [f64; 2],
    pub micro_burst_packets: usize,
    /// The number of first packets that a token bucket may have passed at once.
    untimed_packets: usize,
}

/// The common zeros of both clocks, so that differences stay exact.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClockZeros {
    pub sent_ns: u64,
    pub received_ns: u64,
}

/// Reads a train, or returns the reason why it is unusable.
pub fn read_train(train: &ProbeTrain, zero: ClockZeros) -> Result<TrainReading, String> {
    check_train_fields(train)?;
    let (points, backward) = list_received_packets(train, zero);
    let lost = train.received_ns.iter().filter(|t| t.is_none()).count();
    if points.is_empty() {
        return Err(String::from("no packet of it arrived"));
    }
    if backward as f64 > TrainReadingTuning::MAX_BACKWARD_RATIO * points.len() as f64 {
        return Err(String::from("its receive timestamps go backwards"));
    }
    check_plausible_times(&points)?;
    let sent = |ns: u64| ns_to_seconds(train.sent_at_ns - zero.sent_ns) + ns_to_seconds(ns);
    let mut reading = TrainReading {
        index: train.index,
        purpose: train.purpose,
        bits: f64::from(train.packet_bytes) * 8.0,
        packets: train.sent_ns.len(),
        lost,
        kept: Vec::new(),
        batching_s: None,
        sent_s: [sent(train.sent_ns[0]), sent(train.sent_ns[train.sent_ns.len() - 1])],
        micro_burst_packets: train.micro_burst_packets.max(1) as usize,
        untimed_packets: TrainReadingTuning::UNTIMED_PACKETS,
        points,
    };
    check_sender_pauses(train, &reading)?;
    reading.set_batches();
    Ok(reading)
}

fn ns_to_seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

fn check_train_fields(train: &ProbeTrain) -> Result<(), String> {
    if let Some(why) = &train.spoilt {
        return Err(why.clone());
    }
    if train.sent_ns.is_empty() || train.sent_ns.len() != train.received_ns.len() {
        return Err(String::from("its send and receive timestamps do not match"));
    }
    if train.packet_bytes == 0 {
        return Err(String::from("its packet size is zero"));
    }
    if train
        .clock_step_ns
        .is_some_and(|ns| ns.unsigned_abs() > TrainReadingTuning::MAX_CLOCK_STEP_NS)
    {
        return Err(String::from("the receiver's clock stepped during it"));
    }
    if train.sent_ns.windows(2).any(|w| w[1] < w[0]) {
        return Err(String::from("its send timestamps go backwards"));
    }
    Ok(())
}

/// Returns the packets that arrived in order, and the number of those that did not.
fn list_received_packets(train: &ProbeTrain, zero: ClockZeros) -> (Vec<ReceivedPacket>, usize) {
    let sent_at = ns_to_seconds(train.sent_at_ns - zero.sent_ns);
    let received_at = ns_to_seconds(train.received_at_ns - zero.received_ns);
    let (mut kept, mut backward) = (Vec::new(), 0);
    let mut latest = 0u64;
    let times = train.sent_ns.iter().zip(&train.received_ns).enumerate();
    for (index, (sent, received)) in times {
        let Some(received) = *received else {
            continue;
        };
        if received < latest {
            backward += 1;
            continue;
        }
        latest = received;
        kept.push(ReceivedPacket {
            index,
            sent_s: sent_at + ns_to_seconds(*sent),
            received_s: received_at + ns_to_seconds(received),
        });
    }
    (kept, backward)
}

fn check_plausible_times(points: &[ReceivedPacket]) -> Result<(), String> {
    let delays = || points.iter().map(ReceivedPacket::delay_s);
    let spread = delays().fold(f64::MIN, f64::max) - delays().fold(f64::MAX, f64::min);
    if spread > TrainReadingTuning::MAX_DELAY_SPREAD_S {
        return Err(String::from("its delays spread over more than 10 s"));
    }
    let (first, last) = (points[0], points[points.len() - 1]);
    if points.len() >= TrainReadingTuning::MIN_PACKETS_FOR_PAUSE
        && last.received_s <= first.received_s
    {
        return Err(String::from("its receive timestamps do not advance"));
    }
    Ok(())
}

/// Checks that paced and back-to-back trains left without a pause.
fn check_sender_pauses(train: &ProbeTrain, reading: &TrainReading) -> Result<(), String> {
    if train.purpose == TrainPurpose::Idle
        || reading.packets < TrainReadingTuning::MIN_PACKETS_FOR_PAUSE
    {
        return Ok(());
    }
    let widest = train.sent_ns.windows(2).map(|w| ns_to_seconds(w[1] - w[0]));
    let widest = widest.fold(0.0, f64::max);
    let length = reading.sent_span_s().max(reading.received_span_s());
    if widest > TrainReadingTuning::MAX_PAUSE_RATIO * length {
        return Err(String::from("its sender was delayed during it"));
    }
    Ok(())
}

impl TrainReading {
    pub fn sent_span_s(&self) -> f64 {
        self.sent_s[1] - self.sent_s[0]
    }

    pub fn received_span_s(&self) -> f64 {
        self.points[self.points.len() - 1].received_s - self.points[0].received_s
    }

    pub fn is_lossy(&self) -> bool {
        self.lost as f64 > TrainReadingTuning::MAX_LOST_RATIO * self.packets as f64
    }

    /// The IP rate at which the train left.
    pub fn sent_bps(&self) -> Option<f64> {
        let span = self.sent_span_s();
        (span > 0.0 && self.packets > 1).then(|| self.bits * (self.packets - 1) as f64 / span)
    }

    /// The kept packets without the first ones, which a link with a small token bucket passes faster
    /// than its rate; all of them if few remain.
    pub fn settled(&self) -> &[ReceivedPacket] {
        let at = self.kept.partition_point(|point| point.index < self.untimed_packets);
        let settled = &self.kept[at..];
        if settled.len() < TrainReadingTuning::MIN_SETTLED_PACKETS { &self.kept } else { settled }
    }

    /// The IP rate at which the settled packets arrived.
    pub fn received_bps(&self) -> Option<f64> {
        compute_packet_rate(self.settled(), self.bits)
    }

    /// The growth of the delay per second of sending, between the means of both ends, and the
    /// seconds between them.
    pub fn strain(&self) -> Option<(f64, f64)> {
        let kept = self.settled();
        let part = (kept.len() / 10).max(2);
        if kept.len() < 2 * part {
            return None;
        }
        let mean = |of: &[ReceivedPacket], value: fn(&ReceivedPacket) -> f64| {
            of.iter().map(value).sum::<f64>() / of.len() as f64
        };
        let (head, tail) = (&kept[..part], &kept[kept.len() - part..]);
        let seconds = mean(tail, |p| p.sent_s) - mean(head, |p| p.sent_s);
        let grown = mean(tail, ReceivedPacket::delay_s) - mean(head, ReceivedPacket::delay_s);
        (seconds > 0.0).then(|| (grown / seconds, seconds))
    }

    fn set_batches(&mut self) {
        let sound: Vec<ReceivedPacket> =
            self.points.iter().copied().filter(|p| self.is_sound(p)).collect();
        let count = sound.len();
        if self.purpose == TrainPurpose::Idle || count < 2 {
            self.kept = sound;
            return;
        }
        let mean_gap = (sound[count - 1].received_s - sound[0].received_s) / (count - 1) as f64;
        let least =
            TrainReadingTuning::MIN_BATCH_GAP_S.max(TrainReadingTuning::BATCH_GAP_RATIO * mean_gap);
        let ends: Vec<usize> = (0..count - 1)
            .filter(|i| sound[i + 1].received_s - sound[*i].received_s >= least)
            .collect();
        let batches = ends.len() + 1;
        if batches < MIN_BATCHES && count >= 2 * MIN_BATCHES {
            // The train is too short for its batches: none of its times is reliable.
            return;
        }
        // The first packets come at once through a token bucket, which is not a batch.
        let at_once = TrainReadingTuning::UNTIMED_PACKETS.max(self.count_packets_at_once());
        let untimed = at_once.min(count - 1);
        let later = 1 + ends.iter().filter(|at| **at >= untimed).count();
        if later as f64 >= TrainReadingTuning::UNBATCHED_RATIO * (count - untimed) as f64 {
            self.kept = sound;
            self.untimed_packets = at_once;
            return;
        }
        // The last batch ended by the timer and not by the next batch, so its last packet waited.
        self.kept = ends.iter().map(|i| sound[*i]).collect();
        let distances = self.kept.windows(2).map(|w| w[1].received_s - w[0].received_s);
        self.batching_s = median(distances);
    }

    /// Returns the number of first packets of a burst that came before its delay began to grow.
    fn count_packets_at_once(&self) -> usize {
        let (first, last) = (self.points[0], self.points[self.points.len() - 1]);
        let packet_s = (last.delay_s() - first.delay_s()) / last.index.max(1) as f64;
        let grows = |point: &ReceivedPacket| point.delay_s() - first.delay_s() > 0.5 * packet_s;
        match self.points.iter().find(|point| grows(point)) {
            Some(point) if self.purpose == TrainPurpose::Burst && packet_s > 0.0 => point.index,
            _ => 0,
        }
    }

    /// Returns whether the send time is reliable: of packets sent in one call, only the last one's
    /// is.
    fn is_sound(&self, point: &ReceivedPacket) -> bool {
        (point.index + 1).is_multiple_of(self.micro_burst_packets)
            || point.index + 1 == self.packets
    }
}

/// Returns the rate between the first and the last of the points.
pub fn compute_packet_rate(points: &[ReceivedPacket], bits: f64) -> Option<f64> {
    let (first, last) = (points.first()?, points.last()?);
    let span = last.received_s - first.received_s;
    (span > 0.0).then(|| bits * (last.index - first.index) as f64 / span)
}
