//! Cuts a run into slots of time, with the losses of all streams together.
//!
//! Source: the intervals of the stream with the most of them. Units: microseconds, bytes, segments.
//! Error: the time between two samples. Wrong when: streams are sampled at very different times.

use super::run_reading::RunView;
use super::stream_intervals::SampleInterval;
use std::ops::Range;

/// The parameters of the slots.
pub(super) struct LossSlotTuning;

impl LossSlotTuning {
    /// Blocks, or slots, lose nearly all the time if this share of them loses.
    pub(super) const LOSING_RATIO: f64 = 0.9;
    /// A slot has a queue only if it holds so many segments: bursts and delayed acknowledgements raise
    /// the RTT by fewer.
    const SLOT_QUEUE_SEGMENTS: f64 = 6.0;
    /// The slots after a loss that belong to its episode.
    const EPISODE_SLOTS: usize = 2;
    /// The payload of a segment, unless it is known.
    pub(super) const USUAL_MSS: u64 = 1448;
}

/// A time slot, all streams together.
#[derive(Debug, Clone, Copy)]
pub(super) struct LossSlot {
    pub from_us: u64,
    pub to_us: u64,
    pub bytes: f64,
    pub lost: f64,
    /// The congestion windows of all streams at its beginning.
    pub window_bytes: f64,
    pub queued: bool,
    /// The higher of this slot's reading and the previous one.
    pub rtt_us: Option<u64>,
}

impl LossSlot {
    pub fn seconds(&self) -> f64 {
        (self.to_us - self.from_us) as f64 / 1e6
    }
}

/// Returns the intervals of the stream with the most of them, with the losses of all streams.
pub(super) fn build_slots(run: &RunView) -> Vec<LossSlot> {
    let Some(grid) = run.streams.iter().max_by_key(|s| s.len()) else {
        return Vec::new();
    };
    let losses: Vec<Vec<(u64, f64)>> = run.streams.iter().map(|s| accumulate_losses(s)).collect();
    let lost_by = |at: u64| losses.iter().map(|points| read_cumulative(points, at)).sum::<f64>();
    let queue_us = LossSlotTuning::SLOT_QUEUE_SEGMENTS * run.segment_us(run.level_bps);
    let mut before_us = None;
    let mut slots = Vec::with_capacity(grid.len());
    for interval in grid {
        let (from_us, to_us) = (interval.from_us, interval.to_us);
        let seconds = interval.length_us() as f64 / 1e6;
        let rtt_us = interval.rtt_us.max(before_us);
        slots.push(LossSlot {
            from_us,
            to_us,
            bytes: run.segments.rate_between_bps(from_us, to_us) * seconds / 8.0,
            lost: lost_by(to_us) - lost_by(from_us),
            window_bytes: run.streams.iter().map(|s| find_window_bytes(s, from_us)).sum(),
            queued: rtt_us.is_some_and(|rtt| {
                let rise_us = rtt.saturating_sub(run.idle_rtt_us.unwrap_or(0)) as f64;
                run.is_rtt_inflated(rtt as f64) && rise_us >= queue_us
            }),
            rtt_us,
        });
        before_us = interval.rtt_us;
    }
    slots
}

fn accumulate_losses(stream: &[SampleInterval]) -> Vec<(u64, f64)> {
    let mut sum = 0.0;
    let grown = stream.iter().map(|i| {
        sum += i.retransmitted_segments.unwrap_or(0) as f64;
        (i.to_us, sum)
    });
    grown.collect()
}

/// Returns the congestion window of a stream as last read before this time; 0 if it was not.
pub(super) fn find_window_bytes(stream: &[SampleInterval], at_us: u64) -> f64 {
    let before = stream.partition_point(|interval| interval.to_us <= at_us);
    let tcp = before.checked_sub(1).and_then(|last| stream[last].tcp);
    tcp.map_or(0.0, |tcp| tcp.cwnd_bytes as f64)
}

fn read_cumulative(points: &[(u64, f64)], at: u64) -> f64 {
    points.partition_point(|p| p.0 <= at).checked_sub(1).map_or(0.0, |i| points[i].1)
}

pub(super) fn compute_slot_rate(held: &[LossSlot]) -> f64 {
    let seconds: f64 = held.iter().map(LossSlot::seconds).sum();
    if seconds > 0.0 { held.iter().map(|s| s.bytes).sum::<f64>() * 8.0 / seconds } else { 0.0 }
}

/// Returns the slots of each loss episode, which ends when two slots in a row lose nothing.
pub(super) fn list_loss_episodes(slots: &[LossSlot]) -> Vec<Range<usize>> {
    let mut episodes: Vec<Range<usize>> = Vec::new();
    for number in (0..slots.len()).filter(|number| slots[*number].lost >= 1.0) {
        let end = slots.len().min(number + 1 + LossSlotTuning::EPISODE_SLOTS);
        match episodes.last_mut() {
            Some(last) if number < last.end => last.end = end,
            _ => episodes.push(number..end),
        }
    }
    episodes
}

pub(super) fn is_losing_all_the_time(slots: &[LossSlot]) -> bool {
    let losing = slots.iter().filter(|slot| slot.lost >= 1.0).count();
    losing as f64 >= LossSlotTuning::LOSING_RATIO * slots.len() as f64
}

/// Returns slots of 100 ms that lose, with these bytes and RTTs.
#[cfg(test)]
pub(super) fn build_losing_slots(bytes: &[f64], rtt_us: impl Fn(usize) -> u64) -> Vec<LossSlot> {
    let slots = bytes.iter().enumerate().map(|(number, bytes)| LossSlot {
        from_us: number as u64 * 100_000,
        to_us: (number as u64 + 1) * 100_000,
        bytes: *bytes,
        lost: 1.0,
        window_bytes: 0.0,
        queued: false,
        rtt_us: Some(rtt_us(number)),
    });
    slots.collect()
}
