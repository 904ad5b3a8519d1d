//! Downsampling of series: bucket lengths and aggregation.

use longhaul_model::report::v1::series::{SeriesBucket, SeriesPoint};

pub const HOUR_US: i64 = 3_600_000_000;

/// Bucket lengths in seconds that divide hours, days and weeks evenly.
const SPANS_S: [i64; 19] = [
    1, 5, 10, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200, 86_400,
    172_800, 604_800, 2_419_200,
];

/// Returns the shortest bucket length that covers `first_us` to `last_us` with at most `at_most`
/// buckets, which start at multiples of it. Two buckets are always allowed.
pub fn choose_span_us(first_us: i64, last_us: i64, at_most: u32) -> i64 {
    let at_most = i64::from(at_most.max(2));
    let buckets = |span: i64| {
        let (first, last) = (first_us.div_euclid(span), last_us.div_euclid(span));
        last.saturating_sub(first).saturating_add(1)
    };
    let spans = SPANS_S.map(|span| span * 1_000_000);
    let longer = std::iter::successors(spans.last().copied(), |span| span.checked_mul(2));
    let mut spans = spans.into_iter().chain(longer);
    spans.find(|&span| buckets(span) <= at_most).unwrap_or(i64::MAX)
}

/// Aggregates values in time order into buckets of equal length, with one bucket's values in
/// memory. Spans without a value get no bucket.
#[derive(Debug)]
pub struct BucketBuilder {
    span_us: i64,
    index: i64,
    values: Vec<f64>,
    done: Vec<SeriesBucket>,
}

impl BucketBuilder {
    pub fn new(span_us: i64) -> Self {
        BucketBuilder { span_us, index: 0, values: Vec::new(), done: Vec::new() }
    }

    pub fn push(&mut self, point: SeriesPoint) {
        let place = point.at_us.div_euclid(self.span_us);
        if place != self.index {
            self.close_bucket();
            self.index = place;
        }
        self.values.push(point.value);
    }

    pub fn finish(mut self) -> Vec<SeriesBucket> {
        self.close_bucket();
        self.done
    }

    fn close_bucket(&mut self) {
        let begin_us = self.index * self.span_us;
        let bucket = bucket_from_values(begin_us, self.span_us, &mut self.values);
        self.done.extend(bucket);
        self.values.clear();
    }
}

/// Returns the values of one span as a bucket, or `None` without values. Sorts the values.
pub fn bucket_from_values(at_us: i64, span_us: i64, values: &mut [f64]) -> Option<SeriesBucket> {
    values.sort_by(f64::total_cmp);
    let (min, max) = (*values.first()?, *values.last()?);
    let middle = values.len() / 2;
    let median = if values.len() % 2 == 1 {
        values[middle]
    } else {
        f64::midpoint(values[middle - 1], values[middle])
    };
    Some(SeriesBucket {
        at_us,
        duration_us: span_us as u64,
        samples: u32::try_from(values.len()).unwrap_or(u32::MAX),
        min,
        median,
        max,
    })
}

/// Merges sorted buckets into longer ones with exact extremes; the median is the median of the
/// medians, weighted by samples.
pub fn widen_buckets(buckets: &[SeriesBucket], span_us: i64) -> Vec<SeriesBucket> {
    let place = |bucket: &SeriesBucket| bucket.at_us.div_euclid(span_us);
    buckets
        .chunk_by(|a, b| place(a) == place(b))
        .map(|group| {
            let least = |least: f64, bucket: &SeriesBucket| least.min(bucket.min);
            let most = |most: f64, bucket: &SeriesBucket| most.max(bucket.max);
            SeriesBucket {
                at_us: place(&group[0]) * span_us,
                duration_us: span_us as u64,
                samples: group.iter().map(|bucket| bucket.samples).sum(),
                min: group.iter().fold(f64::INFINITY, least),
                median: weighted_median(group),
                max: group.iter().fold(f64::NEG_INFINITY, most),
            }
        })
        .collect()
}

fn weighted_median(group: &[SeriesBucket]) -> f64 {
    let mut medians: Vec<(f64, u64)> =
        group.iter().map(|bucket| (bucket.median, u64::from(bucket.samples))).collect();
    medians.sort_by(|a, b| a.0.total_cmp(&b.0));
    let half = medians.iter().map(|(_, samples)| samples).sum::<u64>() / 2;
    let mut below = 0;
    let found = medians.iter().find(|(_, samples)| {
        below += samples;
        below > half
    });
    found.or(medians.last()).map_or(0.0, |(median, _)| *median)
}

#[cfg(test)]
mod tests {
    use super::super::ingest_limits::TIME_END_US;
    use super::*;
    use proptest::prelude::*;

    fn gathered(values: impl IntoIterator<Item = (i64, f64)>, span_us: i64) -> Vec<SeriesBucket> {
        let mut gather = BucketBuilder::new(span_us);
        for (at_us, value) in values {
            gather.push(SeriesPoint { at_us, value });
        }
        gather.finish()
    }

    #[test]
    fn a_year_in_a_thousand_points_is_by_half_days() {
        assert_eq!(choose_span_us(0, 365 * 24 * HOUR_US, 1000), 12 * HOUR_US);
        assert_eq!(choose_span_us(0, 365 * 24 * HOUR_US, 8761), HOUR_US);
        assert_eq!(choose_span_us(0, 59_000_000, 60), 1_000_000);
    }

    #[test]
    fn a_bucket_keeps_extremes_and_has_the_middle_of_an_even_number() {
        let values = [(0, 4.0), (1, 1.0), (2, 9.0), (3, 2.0), (HOUR_US, 7.0)];
        let found = gathered(values, HOUR_US);
        let first = SeriesBucket {
            at_us: 0,
            duration_us: HOUR_US as u64,
            samples: 4,
            min: 1.0,
            median: 3.0,
            max: 9.0,
        };
        assert_eq!(found.len(), 2);
        assert_eq!(found[0], first);
        assert_eq!((found[1].at_us, found[1].median), (HOUR_US, 7.0));
    }

    proptest! {
        #[test]
        fn buckets_are_never_more_than_asked_for(
            a in 0..TIME_END_US, b in 0..TIME_END_US, at_most in 2_u32..5000,
        ) {
            let (first, last) = (a.min(b), a.max(b));
            let span = choose_span_us(first, last, at_most);
            let buckets = last.div_euclid(span) - first.div_euclid(span) + 1;
            prop_assert!(buckets <= i64::from(at_most));
        }

        #[test]
        fn widening_keeps_counts_and_extremes(
            values in prop::collection::btree_map(0_i64..90 * HOUR_US, -1e9_f64..1e9, 1..300),
        ) {
            let direct = gathered(values.clone(), 12 * HOUR_US);
            let widened = widen_buckets(&gathered(values, HOUR_US), 12 * HOUR_US);
            prop_assert_eq!(direct.len(), widened.len());
            for (a, b) in direct.iter().zip(&widened) {
                prop_assert_eq!((a.at_us, a.samples, a.min, a.max), (b.at_us, b.samples, b.min, b.max));
                prop_assert!(b.min <= b.median && b.median <= b.max);
            }
        }
    }
}
