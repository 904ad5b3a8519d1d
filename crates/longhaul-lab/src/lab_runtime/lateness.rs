//! The release lateness of packets: the timing error of the emulated path.
//!
//! Source: the clock at each write, minus the time at which the packet was due. Units: nanoseconds
//! in buckets an eighth of an octave wide, so quantiles are right within 9 %.

use std::time::Duration;

const BUCKETS_PER_OCTAVE: f64 = 8.0;
/// Up to 2^36 ns, more than a minute.
const BUCKETS: usize = 36 * 8;

/// A histogram of lateness.
#[derive(Debug, Clone)]
pub struct LatenessHistogram {
    buckets: Box<[u64; BUCKETS]>,
    count: u64,
    sum_ns: u64,
    max_ns: u64,
}

impl Default for LatenessHistogram {
    fn default() -> Self {
        LatenessHistogram { buckets: Box::new([0; BUCKETS]), count: 0, sum_ns: 0, max_ns: 0 }
    }
}

impl LatenessHistogram {
    pub(crate) fn add(&mut self, late_ns: u64) {
        let octaves = (late_ns.max(1) as f64).log2();
        let bucket = (octaves * BUCKETS_PER_OCTAVE) as usize;
        self.buckets[bucket.min(BUCKETS - 1)] += 1;
        self.count += 1;
        self.sum_ns += late_ns;
        self.max_ns = self.max_ns.max(late_ns);
    }

    pub fn count(&self) -> u64 {
        self.count
    }

    pub fn mean(&self) -> Option<Duration> {
        self.sum_ns.checked_div(self.count).map(Duration::from_nanos)
    }

    /// Returns the upper edge of the bucket that contains the 99th percentile.
    pub fn p99(&self) -> Option<Duration> {
        let wanted = self.count - self.count / 100;
        let mut counted = 0;
        let bucket = self.buckets.iter().position(|count| {
            counted += count;
            counted >= wanted && wanted > 0
        })?;
        let edge = ((bucket + 1) as f64 / BUCKETS_PER_OCTAVE).exp2();
        Some(Duration::from_nanos((edge as u64).min(self.max_ns)))
    }

    pub fn max(&self) -> Option<Duration> {
        (self.count > 0).then(|| Duration::from_nanos(self.max_ns))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_within_a_bucket_of_the_truth() {
        let mut lateness = LatenessHistogram::default();
        assert_eq!(lateness.p99(), None);
        for late_us in 1..=1000 {
            lateness.add(late_us * 1000);
        }
        let p99 = lateness.p99().expect("a thousand values").as_nanos() as f64;
        assert!((p99 / 990_000.0 - 1.0).abs() < 0.1, "{p99}");
        assert_eq!(lateness.max(), Some(Duration::from_millis(1)));
        assert_eq!(lateness.mean(), Some(Duration::from_nanos(500_500)));
    }
}
