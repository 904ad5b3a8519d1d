//! The skew of two clocks from one-way delays: a line under the delays of each direction.
//!
//! The offset of the clocks is part of every one-way delay, positive in one direction and negative
//! in the other, so a skew tilts the lower envelopes of both directions in opposite senses. The
//! line of a direction is the edge of its lower convex hull above which the sum of distances is
//! smallest, the one over the mean time.
//!
//! Source: Moon, Skelly and Towsley 1999 (the line); Zhang, Liu and Xia 2002 (the hull); the mean of
//! both directions is our own. Units: nanoseconds; 10⁻⁶.
//! Error: half the disagreement of the two directions, plus the height over the lines of the lowest
//! twentieth of the delays, divided by the duration.
//! Wrong when: the route changes within the run, a queue fills evenly in both directions, a clock is
//! set, or its frequency changes.

use crate::stats::{quantile, sort_finite};

/// The minimum number of packets, and their duration.
const MIN_POINTS: usize = 20;
const MIN_DURATION_NS: f64 = 2e9;
/// The share of the delays that is near the line.
const NEAR_SHARE: f64 = 0.05;

/// A time and the delay of a packet at this time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct DelayPoint {
    pub at_ns: f64,
    pub delay_ns: f64,
}

/// The skew of the far clock.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct ClockSkew {
    pub ppm: f64,
    pub error_ppm: f64,
}

impl ClockSkew {
    /// Returns the slope of the delays in the forward direction; zero if it may be none.
    pub(super) fn forward_slope(self) -> f64 {
        if self.ppm.abs() > self.error_ppm { self.ppm / 1e6 } else { 0.0 }
    }
}

/// A line under the delays of a direction.
#[derive(Debug, Clone, Copy, PartialEq)]
struct DelayFloor {
    slope: f64,
    /// The lowest twentieth of the delays above the line.
    near_ns: f64,
}

/// Estimates the skew from both directions, in the order of time; `None` for few packets or a short
/// time.
pub(super) fn estimate_skew(forward: &[DelayPoint], reverse: &[DelayPoint]) -> Option<ClockSkew> {
    let duration = forward.last()?.at_ns - forward.first()?.at_ns;
    if forward.len() < MIN_POINTS || duration < MIN_DURATION_NS {
        return None;
    }
    let (there, back) = (fit_floor(forward)?, fit_floor(reverse)?);
    let disagreement = f64::midpoint(there.slope, back.slope).abs();
    let tilt = f64::midpoint(there.near_ns, back.near_ns) / duration;
    Some(ClockSkew {
        ppm: (there.slope - back.slope) / 2.0 * 1e6,
        error_ppm: (disagreement + tilt) * 1e6,
    })
}

fn fit_floor(points: &[DelayPoint]) -> Option<DelayFloor> {
    let hull = lower_hull(points);
    let mean = points.iter().map(|point| point.at_ns).sum::<f64>() / points.len() as f64;
    let edge = hull.windows(2).find(|edge| edge[1].at_ns >= mean)?;
    let slope = (edge[1].delay_ns - edge[0].delay_ns) / (edge[1].at_ns - edge[0].at_ns);
    let above = |point: &DelayPoint| {
        point.delay_ns - edge[0].delay_ns - slope * (point.at_ns - edge[0].at_ns)
    };
    let near_ns = quantile(&sort_finite(points.iter().map(above)), NEAR_SHARE)?;
    slope.is_finite().then_some(DelayFloor { slope, near_ns })
}

/// Returns the corners of the lower convex hull of points in the order of time.
fn lower_hull(points: &[DelayPoint]) -> Vec<DelayPoint> {
    let mut hull: Vec<DelayPoint> = Vec::new();
    for &point in points {
        while let [.., a, b] = hull.as_slice() {
            let run = (b.at_ns - a.at_ns) * (point.delay_ns - a.delay_ns);
            let rise = (b.delay_ns - a.delay_ns) * (point.at_ns - a.at_ns);
            if run > rise {
                break;
            }
            hull.pop();
        }
        match hull.last() {
            // Of two packets at the same time, the lower one counts.
            Some(last) if last.at_ns >= point.at_ns => {
                if point.delay_ns < last.delay_ns {
                    hull.pop();
                    hull.push(point);
                }
            }
            _ => hull.push(point),
        }
    }
    hull
}

#[cfg(test)]
mod tests {
    use super::*;
    use longhaul_model::splitmix::SplitMix64;

    fn points(delays: impl IntoIterator<Item = (f64, f64)>) -> Vec<DelayPoint> {
        let point = |(at_ns, delay_ns)| DelayPoint { at_ns, delay_ns };
        delays.into_iter().map(point).collect()
    }

    #[test]
    fn the_hull_has_the_lowest_corners() {
        let hull =
            lower_hull(&points([(0.0, 2.0), (1.0, 5.0), (2.0, 1.0), (3.0, 9.0), (4.0, 3.0)]));
        assert_eq!(hull, points([(0.0, 2.0), (2.0, 1.0), (4.0, 3.0)]));
    }

    /// Draws the delays of both directions of 200 packets in 20 s, with queues up to 5 ms.
    fn draw_delays(seed: u64, skew_ppm: f64) -> (Vec<DelayPoint>, Vec<DelayPoint>) {
        let mut random = SplitMix64::new(seed);
        let mut queue = || -(1.0 - random.unit()).ln() * 500e3;
        let mut draw = |base: f64, slope: f64| {
            points((0..200).map(|number| {
                let at = f64::from(number) * 100e6;
                (at, base + slope * at / 1e6 + queue())
            }))
        };
        let forward = draw(30e6, skew_ppm);
        (forward, draw(-10e6, -skew_ppm))
    }

    #[test]
    fn the_skew_is_within_its_error_on_paths_with_queues() {
        for skew_ppm in [-80.0, -5.0, 0.0, 20.0, 300.0] {
            let within = (0..100).filter(|seed| {
                let (forward, reverse) = draw_delays(*seed, skew_ppm);
                let skew = estimate_skew(&forward, &reverse).expect("enough packets");
                assert!(skew.error_ppm < 20.0, "{skew:?}");
                (skew.ppm - skew_ppm).abs() <= skew.error_ppm
            });
            assert!(within.count() >= 90, "{skew_ppm}");
        }
    }

    #[test]
    fn a_queue_that_fills_in_both_directions_is_no_skew() {
        let rising = |number: i32| (f64::from(number) * 1e8, f64::from(number) * 1e5);
        let delays = points((0..100).map(rising));
        let skew = estimate_skew(&delays, &delays).expect("enough packets");
        assert!(skew.forward_slope().abs() < 1e-12);
    }

    #[test]
    fn few_packets_have_no_skew() {
        let short = points((0..19).map(|number| (f64::from(number) * 1e9, 1e6)));
        assert_eq!(estimate_skew(&short, &short), None);
        assert_eq!(estimate_skew(&[], &[]), None);
    }
}
