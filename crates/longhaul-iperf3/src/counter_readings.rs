//! The streams' counters of this end, read every second.

use longhaul_model::report::v1::observation::UdpCounts;
use longhaul_probe::engine::EndRun;
use std::time::Duration;

/// The maximum number of readings; beyond it, every other one is removed.
const MAX_READINGS: usize = 240;
const FIRST_SPACING: Duration = Duration::from_secs(1);

/// A reading of all streams; those on which this end receives come first.
#[derive(Debug, Clone, Default)]
pub(crate) struct CounterReading {
    /// Time since payload may flow.
    pub at: Duration,
    pub bytes: Vec<u64>,
    pub datagrams: Vec<UdpCounts>,
}

impl CounterReading {
    pub fn take(
        at: Duration,
        receiver: Option<&EndRun>,
        sender: Option<&EndRun>,
    ) -> CounterReading {
        let mut reading = CounterReading {
            at,
            ..CounterReading::default()
        };
        for run in receiver.into_iter().chain(sender) {
            let progress = run.progress();
            reading.bytes.extend(progress.stream_bytes);
            reading.datagrams.extend(progress.stream_datagrams);
        }
        reading
    }

    pub fn total_bytes(&self) -> u64 {
        self.bytes.iter().sum()
    }
}

/// The readings of one test.
#[derive(Debug)]
pub(crate) struct CounterReadings {
    /// The end of the omitted part.
    omit: Duration,
    spacing: Duration,
    /// The reading at the end of the omitted part.
    pub begin: Option<CounterReading>,
    pub readings: Vec<CounterReading>,
}

impl CounterReadings {
    pub fn new(omit: Duration) -> CounterReadings {
        CounterReadings {
            omit,
            spacing: FIRST_SPACING,
            begin: None,
            readings: Vec::new(),
        }
    }

    /// Returns the time of the next reading.
    pub fn due(&self) -> Duration {
        let Some(begin) = &self.begin else {
            return self.omit;
        };
        self.readings.last().map_or(begin.at, |last| last.at) + self.spacing
    }

    /// Stores `reading` if one is due.
    pub fn record(&mut self, reading: &CounterReading) {
        if reading.at < self.due() {
            return;
        }
        if self.begin.is_none() {
            self.begin = Some(self.first_counted(reading));
            return;
        }
        self.readings.push(reading.clone());
        if self.readings.len() > MAX_READINGS {
            let mut odd = false;
            self.readings.retain(|_| {
                odd = !odd;
                !odd
            });
            self.spacing *= 2;
        }
    }

    /// Returns the reading at which counting begins, given the first one at hand.
    fn first_counted(&self, reading: &CounterReading) -> CounterReading {
        if self.omit.is_zero() {
            return zero_reading(reading);
        }
        reading.clone()
    }

    /// Stores the last reading, due or not.
    pub fn finish(&mut self, reading: CounterReading) {
        if self.begin.is_none() {
            // There was no earlier reading; a test that ends in its omitted time counts nothing.
            self.begin = Some(self.first_counted(&reading));
        }
        // A remainder that is too short is merged with the reading before it.
        let least = reading.at.saturating_sub(self.spacing / 4);
        self.readings.retain(|kept| kept.at < least);
        self.readings.push(reading);
    }
}

/// Returns zero counters for the streams of `like`.
fn zero_reading(like: &CounterReading) -> CounterReading {
    CounterReading {
        at: Duration::ZERO,
        bytes: vec![0; like.bytes.len()],
        datagrams: vec![UdpCounts::default(); like.datagrams.len()],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(at_ms: u64) -> CounterReading {
        CounterReading {
            at: Duration::from_millis(at_ms),
            bytes: vec![at_ms * 10],
            datagrams: vec![UdpCounts::default()],
        }
    }

    #[test]
    fn a_long_test_keeps_few_readings_and_the_last_one() {
        let mut course = CounterReadings::new(Duration::ZERO);
        for second in 0..5000 {
            course.record(&reading(second * 1000));
        }
        course.finish(reading(5_000_000));
        assert!(course.readings.len() <= MAX_READINGS + 1);
        let times: Vec<_> = course.readings.iter().map(|kept| kept.at).collect();
        assert!(times.is_sorted());
        assert_eq!(times.last(), Some(&Duration::from_secs(5000)));
    }

    #[test]
    fn a_test_that_is_over_before_anybody_looked_counts_whole() {
        let mut course = CounterReadings::new(Duration::ZERO);
        course.finish(reading(3));
        assert_eq!(course.begin.expect("from nothing").bytes, [0]);
        assert_eq!(course.readings[0].bytes, [30]);
    }

    #[test]
    fn what_is_omitted_is_where_counting_begins() {
        let mut course = CounterReadings::new(Duration::from_secs(1));
        course.record(&reading(900));
        assert!(course.begin.is_none());
        course.record(&reading(1010));
        course.finish(reading(2010));
        assert_eq!(course.begin.expect("begun").bytes, [10_100]);
        assert_eq!(course.readings.len(), 1);
    }
}
