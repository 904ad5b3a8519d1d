//! Finds what clocks a sender whose bytes in flight stay level: acknowledgements, a pacer or the application.
//!
//! New data after a pause begins a burst. An acknowledgement ended the pause if the data follows it at
//! once, compared with the pause and with the time between acknowledgements. The pauses of a pacer are
//! alike, whether an acknowledgement happens to end them or not. A sender with a full buffer pauses longer
//! for acknowledgements, even if a pacer spreads what they release. Other long pauses are the
//! application's.
//!
//! Source: our experiments with iperf3 and nginx, cubic and BBR (docs/methods/captures.md). Units: us, bytes.
//! Error: a sender whose clock changes within the judged time counts whole for one of them.
//! Wrong when: every burst of a pacer follows an acknowledgement because its period divides the RTT.

/// The parameters of the judgement.
struct BurstTuning;

impl BurstTuning {
    /// A pause between bursts, and the part of it, and of the time between two acknowledgements, within
    /// which an acknowledgement released the next burst.
    const PAUSE_US: u64 = 100;
    const RELEASED_RATIO: f64 = 0.1;
    const WAKE_UP_US: u64 = 50;
    /// The maximum number of pauses that are judged together.
    const MAX_PAUSES: usize = 2048;
    /// The minimum ratio of pauses that acknowledgements end to other long ones, if they release all data,
    /// and their minimum share of the time.
    const MOSTLY_RELEASED: u64 = 4;
    const MIN_WAIT_RATIO: f64 = 0.1;
    /// The bursts of a pacer: this time at its rate, or so many segments, and the minimum ratio of bursts to
    /// segments that are not full.
    const PACED_US: u64 = 1200;
    const PACED_SEGMENTS: f64 = 2.5;
    const MOSTLY_FULL: u64 = 4;
    /// The maximum ratio of the longest pause of a pacer to the mean one, and of a pause between the segments
    /// that an acknowledgement released to the usual one. BBR's gains change it by a third.
    const PACED_PAUSE_RATIO: u64 = 4;
    const GAP_RATIO: f64 = 1.5;
}

/// Returns true if an acknowledgement ended a pause of this length: the data follows it at once.
pub(super) fn is_released(length_us: u64, since_ack_us: u64, ack_gap_us: u64) -> bool {
    let release_us = (BurstTuning::RELEASED_RATIO * length_us.min(ack_gap_us) as f64) as u64;
    since_ack_us <= release_us.max(BurstTuning::WAKE_UP_US)
}

/// A pause before new data.
#[derive(Debug, Clone, Copy)]
struct BurstPause {
    length_us: u64,
    /// True: an acknowledgement ended it.
    is_released: bool,
}

/// The clock of a sender.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SendClock {
    Acknowledgements,
    Pacer,
    Application,
}

/// The bursts of some time.
#[derive(Debug, Clone, Default)]
pub(super) struct SendBursts {
    pub bytes: u64,
    /// Segments that the sender could have filled.
    pub short_segments: u64,
    pauses: Vec<BurstPause>,
}

impl SendBursts {
    /// Adds the pause of this length before new data, which came `since_ack_us` after the last
    /// acknowledgement, and this `ack_gap_us` after the one before.
    pub fn add_pause(&mut self, length_us: u64, since_ack_us: u64, ack_gap_us: u64) {
        if length_us < BurstTuning::PAUSE_US || self.pauses.len() >= BurstTuning::MAX_PAUSES {
            return;
        }
        let is_released = is_released(length_us, since_ack_us, ack_gap_us);
        self.pauses.push(BurstPause { length_us, is_released });
    }

    /// Returns the clock of the sender in a time of this length; `None` if it hardly paused.
    pub fn find_clock(&self, length_us: u64, mss_bytes: u64) -> Option<SendClock> {
        let sum = |is_counted: &dyn Fn(&BurstPause) -> bool| {
            self.pauses.iter().filter(|it| is_counted(it)).map(|it| it.length_us).sum::<u64>()
        };
        let paused_us = sum(&|_| true);
        if 2 * paused_us < length_us {
            return None;
        }
        let gap_us = (BurstTuning::GAP_RATIO * self.find_usual_gap_us() as f64) as u64;
        let waited_us = sum(&|it| it.is_released && it.length_us > gap_us);
        let long_us = gap_us.max(BurstTuning::PACED_US);
        let idle_us = sum(&|it| !it.is_released && it.length_us > long_us);
        let is_released = waited_us >= BurstTuning::MOSTLY_RELEASED * idle_us
            && waited_us as f64 >= BurstTuning::MIN_WAIT_RATIO * length_us as f64;
        let count = self.pauses.len() as u64;
        let burst_segments = self.bytes as f64 / count as f64 / mss_bytes as f64;
        let is_short = length_us <= BurstTuning::PACED_US * count
            || burst_segments <= BurstTuning::PACED_SEGMENTS;
        let longest_us = self.pauses.iter().map(|it| it.length_us).max()?;
        let is_full = BurstTuning::MOSTLY_FULL * self.short_segments <= count;
        let is_even =
            longest_us.saturating_mul(count) <= BurstTuning::PACED_PAUSE_RATIO * paused_us;
        Some(if is_released {
            SendClock::Acknowledgements
        } else if is_short && is_even && is_full {
            SendClock::Pacer
        } else {
            SendClock::Application
        })
    }

    /// Returns the bytes over the pauses before them; `None` without a pause.
    pub fn measure_rate_bps(&self) -> Option<u64> {
        let paused_us: u64 = self.pauses.iter().map(|it| it.length_us).sum();
        self.bytes.saturating_mul(8_000_000).checked_div(paused_us)
    }

    /// Returns the median of the pauses that no acknowledgement ended; 0 if they are too few for a pacer.
    fn find_usual_gap_us(&self) -> u64 {
        let own = self.pauses.iter().filter(|it| !it.is_released);
        let mut gaps: Vec<u64> = own.map(|it| it.length_us).collect();
        gaps.sort_unstable();
        let is_rare = BurstTuning::MOSTLY_RELEASED as usize * gaps.len() < self.pauses.len();
        gaps.get(gaps.len() / 2).copied().filter(|_| !is_rare).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MSS: u64 = 1448;

    /// Ten round trips with these pauses before a segment each: the length, and the time since the last
    /// acknowledgement, of which one comes each `ack_gap_us`.
    fn find_clock_of(pauses: &[(u64, u64)], ack_gap_us: u64) -> Option<SendClock> {
        let mut bursts = SendBursts::default();
        let mut length_us = 0;
        for (pause_us, since_ack_us) in pauses.repeat(10) {
            bursts.bytes += MSS;
            bursts.add_pause(pause_us, since_ack_us, ack_gap_us);
            length_us += pause_us;
        }
        bursts.find_clock(length_us, MSS)
    }

    #[test]
    fn even_pauses_are_those_of_a_pacer_even_if_acknowledgements_keep_time_with_it() {
        assert_eq!(find_clock_of(&[(558, 9), (558, 567)], 1116), Some(SendClock::Pacer));
        assert_eq!(find_clock_of(&[(558, 200), (558, 758)], 1116), Some(SendClock::Pacer));
    }

    #[test]
    fn longer_pauses_between_paced_segments_are_waits_of_what_ends_them() {
        let round_trip = |since_ack_us: u64| {
            let mut pauses = vec![(1385, 700); 31];
            pauses.push((20_000, since_ack_us));
            find_clock_of(&pauses, 2770)
        };
        assert_eq!(round_trip(1), Some(SendClock::Acknowledgements));
        assert_eq!(round_trip(1500), Some(SendClock::Application));
    }

    #[test]
    fn data_that_follows_each_acknowledgement_is_released_by_it() {
        assert_eq!(find_clock_of(&[(5000, 20)], 5000), Some(SendClock::Acknowledgements));
        let mut pauses = vec![(4700, 1); 19];
        pauses.push((6100, 700));
        assert_eq!(find_clock_of(&pauses, 90), Some(SendClock::Acknowledgements), "late once");
        assert_eq!(find_clock_of(&[(50, 20)], 50), None, "nothing pauses");
    }
}
