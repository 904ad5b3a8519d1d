//! The bounded samples of all streams. When they are full, every other sample is removed and the
//! spacing doubles, so that a run of any length keeps evenly spaced samples.

use longhaul_model::report::v1::observation::StreamSample;
use std::time::Duration;

const MAX_STREAM_SAMPLES: usize = 1200;
/// All samples as results fit into 64 MiB, those of a stream into the frame of its result.
const MAX_TOTAL_SAMPLES: usize = 40_000;
/// The minimum number of samples of a stream in any run: fewer would not show a ramp.
const MIN_STREAM_SAMPLES: usize = 4;

/// The samples of each stream; all streams have the same number.
#[derive(Debug)]
pub(super) struct SampleSeries {
    streams: Vec<Vec<StreamSample>>,
    max_samples: usize,
    spacing: Duration,
}

impl SampleSeries {
    pub fn new(streams: usize, spacing: Duration) -> SampleSeries {
        let most =
            (MAX_TOTAL_SAMPLES / streams.max(1)).clamp(MIN_STREAM_SAMPLES, MAX_STREAM_SAMPLES);
        SampleSeries { streams: vec![Vec::new(); streams], max_samples: most, spacing }
    }

    /// The time between samples from now on.
    pub fn spacing(&self) -> Duration {
        self.spacing
    }

    /// Adds one sample of every stream.
    pub fn push(&mut self, samples: impl Iterator<Item = StreamSample>) {
        if self.streams.first().is_some_and(|kept| kept.len() >= self.max_samples) {
            self.thin();
        }
        for (kept, sample) in self.streams.iter_mut().zip(samples) {
            kept.push(sample);
        }
    }

    fn thin(&mut self) {
        for kept in &mut self.streams {
            let mut index = 0_usize;
            kept.retain(|_| {
                index += 1;
                index % 2 == 1
            });
        }
        self.spacing = self.spacing.saturating_mul(2);
    }

    pub fn into_streams(self) -> Vec<Vec<StreamSample>> {
        self.streams
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn however_long_the_run_the_samples_are_bounded_and_even_and_the_first_stays() {
        for (streams, most) in [(1, MAX_STREAM_SAMPLES), (100, 400), (20_000, MIN_STREAM_SAMPLES)] {
            let spacing = Duration::from_millis(100);
            let mut series = SampleSeries::new(streams, spacing);
            for at_us in 0..3_000 {
                let factor = series.spacing().as_millis() as u64 / 100;
                if at_us % factor == 0 && (streams < 1000 || at_us < 20) {
                    let sample = StreamSample { at_us, ..StreamSample::default() };
                    series.push(std::iter::repeat_n(sample, streams));
                }
            }
            let factor = series.spacing().as_millis() as u64 / 100;
            let first = &series.streams[0];
            assert!(first.len() <= most && first.len() >= most / 2);
            assert_eq!(first[0].at_us, 0);
            assert!(
                first[..most / 2].windows(2).all(|pair| pair[1].at_us - pair[0].at_us == factor),
                "{streams} streams"
            );
        }
    }
}
