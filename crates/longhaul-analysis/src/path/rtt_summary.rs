//! Summarizes round-trip times and loss of echoes.
//!
//! Source: Wilson 1927 for the interval of the loss. Units: ns, ratios.
//! Error: that of the clock that took the times, which the observation names.
//! Wrong when: the remote host answers echoes later than it receives data: then all times are high.

use crate::stats::proportion;
use crate::stats::quantile::quantile;
use longhaul_model::report::v1::path::{PathRtt, RoundTripSeries};

/// Summarizes the answered probes; `None` if none was answered.
pub fn summarize_rtt(echoes: &RoundTripSeries) -> Option<PathRtt> {
    let mut times: Vec<f64> =
        echoes.echoes.iter().filter_map(|echo| echo.rtt_ns).map(|ns| ns as f64).collect();
    times.sort_by(f64::total_cmp);
    let answered = u32::try_from(times.len()).unwrap_or(u32::MAX);
    let (least, most) = (times.first()?, times.last()?);
    let mean = times.iter().sum::<f64>() / f64::from(answered);
    let lost = echoes.sent.saturating_sub(answered);
    // At least as many were sent as answered.
    let sent = echoes.sent.max(answered);
    Some(PathRtt {
        sent,
        answered,
        min_ns: *least as u64,
        avg_ns: mean.round() as u64,
        max_ns: *most as u64,
        stddev_ns: compute_deviation(&times, mean).round() as u64,
        median_ns: quantile(&times, 0.5)?.round() as u64,
        loss_ratio: f64::from(lost) / f64::from(sent),
        loss_interval_ratio: proportion::proportion_interval(lost.into(), sent.into()),
        duplicates: echoes.duplicates,
        reordered: echoes.reordered,
    })
}

/// Returns the standard deviation, divisor n − 1; 0 for a single value.
fn compute_deviation(times: &[f64], mean: f64) -> f64 {
    let squares: f64 = times.iter().map(|t| (t - mean).powi(2)).sum();
    let degrees = times.len().saturating_sub(1).max(1);
    (squares / degrees as f64).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;
    use longhaul_model::report::v1::path::{ProbeEcho, ProbeProtocol};

    fn echoes(rtts_us: &[Option<u64>]) -> RoundTripSeries {
        RoundTripSeries {
            protocol: ProbeProtocol::Icmp,
            clock: String::from("kernel"),
            packet_bytes: 84,
            sent: rtts_us.len() as u32,
            echoes: rtts_us
                .iter()
                .map(|us| ProbeEcho { at_us: 0, rtt_ns: us.map(|us| us * 1000), ttl: None })
                .collect(),
            duplicates: 1,
            reordered: 2,
            discarded: 0,
        }
    }

    /// The three pings from San Jose to Lulea in the record submission of 12 September 2004.
    #[test]
    fn the_pings_of_the_record_are_summed_up() {
        let rtt = summarize_rtt(&echoes(&[Some(436_593), Some(436_647), Some(436_626)])).unwrap();
        assert_eq!((rtt.sent, rtt.answered), (3, 3));
        assert_eq!([rtt.min_ns, rtt.max_ns], [436_593_000, 436_647_000]);
        assert_eq!([rtt.avg_ns, rtt.median_ns], [436_622_000, 436_626_000]);
        // The submission has 0.027 ms, also with the divisor n − 1.
        assert_eq!(rtt.stddev_ns / 1000, 27);
        assert!(rtt.loss_ratio.abs() < f64::EPSILON);
        assert_eq!((rtt.duplicates, rtt.reordered), (1, 2));
    }

    #[test]
    fn loss_has_an_interval_and_no_answer_is_no_round_trip() {
        let rtt = summarize_rtt(&echoes(&[Some(5), None, Some(7), None])).unwrap();
        assert!((rtt.loss_ratio - 0.5).abs() < f64::EPSILON);
        let [low, high] = rtt.loss_interval_ratio;
        assert!(low > 0.1 && high < 0.9, "{low} {high}");
        assert_eq!(summarize_rtt(&echoes(&[None, None])), None);
        assert_eq!(summarize_rtt(&echoes(&[])), None);
    }

    #[test]
    fn more_answers_than_probes_are_no_negative_loss() {
        let mut garbled = echoes(&[Some(5), Some(6)]);
        garbled.sent = 1;
        let rtt = summarize_rtt(&garbled).unwrap();
        assert!(rtt.loss_ratio.abs() < f64::EPSILON);
    }
}
