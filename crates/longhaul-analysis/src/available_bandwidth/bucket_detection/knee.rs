//! The knee of a burst: where its rate changes to a lower one.
//!
//! Compares two lines through arrival times over bytes with a single one; they meet at the knee.
//!
//! Source: two-piece regression with an F test. Units: bytes of IP, bit/s. Error: one packet.
//! Wrong when: cross traffic slows the later half of a burst; several bursts must agree.

use super::TrainReading;
use crate::available_bandwidth::train_reading::ReceivedPacket;

/// The parameters of the knee of one train.
struct KneeTuning;

impl KneeTuning {
    /// The minimum number of packets on each side of the knee.
    const MIN_SIDE_PACKETS: usize = 3;
    /// The minimum ratio of the rates; a smaller step is cross traffic.
    const MIN_RATE_STEP: f64 = 1.15;
    /// The minimum F statistic of the two lines against the single one.
    const MIN_F_STATISTIC: f64 = 20.0;
    /// The assumed error of a timestamp.
    const STAMP_S: f64 = 0.5e-6;
    /// The maximum number of positions tested as the knee; more points are sampled evenly.
    const MAX_KNEE_POSITIONS: usize = 400;
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RateKnee {
    pub peak_bps: f64,
    pub sustained_bps: f64,
    /// The number of bytes that had passed at the change.
    pub at_bytes: f64,
    /// The size of the bucket.
    pub burst_bytes: f64,
    pub packet_bytes: f64,
}

/// A line of arrival time over bytes.
#[derive(Debug, Clone, Copy)]
struct ArrivalLine {
    start_s: f64,
    s_per_byte: f64,
    error: f64,
}

/// Prefix sums from which the line of any range follows in constant time.
struct RegressionSums {
    upto: Vec<[f64; 5]>,
}

impl RegressionSums {
    fn of(points: &[(f64, f64)]) -> RegressionSums {
        let mut upto = vec![[0.0; 5]];
        for (x, y) in points {
            let last = upto[upto.len() - 1];
            let here = [1.0, *x, *y, x * x, x * y];
            upto.push(std::array::from_fn(|i| last[i] + here[i]));
        }
        RegressionSums { upto }
    }

    fn line(&self, points: &[(f64, f64)], from: usize, to: usize) -> ArrivalLine {
        let [n, x, y, xx, xy]: [f64; 5] =
            std::array::from_fn(|i| self.upto[to][i] - self.upto[from][i]);
        let spread = n * xx - x * x;
        let s_per_byte = if spread > 0.0 { (n * xy - x * y) / spread } else { 0.0 };
        let start_s = (y - s_per_byte * x) / n;
        let off = points[from..to].iter().map(|p| (p.1 - start_s - s_per_byte * p.0).powi(2));
        ArrivalLine { start_s, s_per_byte, error: off.sum() }
    }
}

pub fn find_knee(reading: &TrainReading) -> Option<RateKnee> {
    find_knee_in(&list_arrival_points(&reading.kept, reading.bits / 8.0), reading)
}

/// Finds the knee from the packets that arrived, despite loss: for trains that outlast the queue.
pub fn find_knee_by_arrivals(reading: &TrainReading) -> Option<RateKnee> {
    let arrived = reading.points.iter().enumerate();
    let points: Vec<ReceivedPacket> =
        arrived.map(|(index, point)| ReceivedPacket { index, ..*point }).collect();
    find_knee_in(&self::list_arrival_points(&points, reading.bits / 8.0), reading)
}

fn find_knee_in(points: &[(f64, f64)], reading: &TrainReading) -> Option<RateKnee> {
    if points.len() < 2 * KneeTuning::MIN_SIDE_PACKETS + 2 {
        return None;
    }
    let sums = RegressionSums::of(points);
    let whole = sums.line(points, 0, points.len());
    let step = points.len().div_ceil(KneeTuning::MAX_KNEE_POSITIONS);
    let (first, second) = (KneeTuning::MIN_SIDE_PACKETS
        ..=points.len() - KneeTuning::MIN_SIDE_PACKETS)
        .step_by(step)
        .map(|at| (sums.line(points, 0, at), sums.line(points, at, points.len())))
        .min_by(|a, b| (a.0.error + a.1.error).total_cmp(&(b.0.error + b.1.error)))?;
    let freedom = points.len() as f64 - 4.0;
    let floor = points.len() as f64 * KneeTuning::STAMP_S * KneeTuning::STAMP_S;
    let two = (first.error + second.error).max(floor);
    let better = (whole.error - two) / 2.0 / (two / freedom);
    let slows =
        first.s_per_byte > 0.0 && second.s_per_byte > KneeTuning::MIN_RATE_STEP * first.s_per_byte;
    if !slows || better < KneeTuning::MIN_F_STATISTIC {
        return None;
    }
    let at_bytes = (first.start_s - second.start_s) / (second.s_per_byte - first.s_per_byte);
    if !(0.0..reading.packets as f64 * reading.bits / 8.0).contains(&at_bytes) {
        return None;
    }
    let ratio = first.s_per_byte / second.s_per_byte;
    Some(RateKnee {
        peak_bps: 8.0 / first.s_per_byte,
        sustained_bps: 8.0 / second.s_per_byte,
        at_bytes,
        // A packet leaves when its tokens are available, and arrives a transmission time later.
        burst_bytes: at_bytes * (1.0 - ratio) + ratio * reading.bits / 8.0,
        packet_bytes: reading.bits / 8.0,
    })
}

/// Returns the bytes up to and including each packet, and its arrival time.
fn list_arrival_points(kept: &[ReceivedPacket], packet_bytes: f64) -> Vec<(f64, f64)> {
    let Some(first) = kept.first() else {
        return Vec::new();
    };
    let of =
        |p: &ReceivedPacket| ((p.index + 1) as f64 * packet_bytes, p.received_s - first.received_s);
    kept.iter().map(of).collect()
}
