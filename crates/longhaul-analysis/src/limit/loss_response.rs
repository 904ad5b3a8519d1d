//! Computes the rate that congestion control reaches at a given loss ratio.
//!
//! Source: Mathis 1997; RFC 9438 section 5.1 (C = 0.4, β = 0.7). Units: bit/s of payload.
//! Error: a factor of two is usual. Wrong when: losses are not independent of the rate.

/// Mathis: √(3/2), for one acknowledgement per segment.
const MATHIS_FACTOR: f64 = 1.22;
/// RFC 9438, equation 6, with C = 0.4 and β = 0.7.
const CUBIC_FACTOR: f64 = 1.054;
/// CUBIC, RFC 9438: C, the growth of its curve in segments/s³.
pub const CUBIC_C: f64 = 0.4;
/// CUBIC, RFC 9438: β, the factor of the window after a loss.
pub const CUBIC_BETA: f64 = 0.7;
/// Random losses leave a scatter of the rate of at least this over the root of the number of windows or
/// losses that it sums: in simulations of Reno and CUBIC (1 to 16 streams, 2 to 100 ms, losses of 10^-5 to
/// 0.03) the smallest was 0.12, and half of them exceeded 0.3.
const RANDOM_SCATTER: f64 = 0.1;

/// The windows at which random losses come scatter by at least this share of their mean: in simulations of
/// CUBIC (5 to 300 ms, losses of 10^-5 to 0.01) by 0.27 to 0.58, of Reno by 0.35 to 0.39.
pub const RANDOM_WINDOW_SCATTER: f64 = 0.25;

/// Returns the least scatter, as a share of the rate, that random losses leave in a sum of so many windows or
/// losses.
pub fn compute_min_random_scatter(parts: f64) -> f64 {
    RANDOM_SCATTER / parts.sqrt()
}

/// Returns the seconds in which CUBIC grows a window back that had so many segments before a loss: K of RFC
/// 9438, section 4.2.
pub fn compute_cubic_cycle_s(segments: f64) -> f64 {
    (segments * (1.0 - CUBIC_BETA) / CUBIC_C).cbrt()
}

/// Returns the rate of one stream at this loss ratio (lost over sent segments); `None` without
/// loss.
pub fn loss_bound_bps(mss_bytes: f64, rtt_s: f64, loss_ratio: f64) -> Option<f64> {
    let mathis = mathis_bps(mss_bytes, rtt_s, loss_ratio)?;
    Some(mathis.max(cubic_bps(mss_bytes, rtt_s, loss_ratio)?))
}

/// Returns the rate of Reno at this loss by Mathis; `None` without loss.
pub fn mathis_bps(mss_bytes: f64, rtt_s: f64, loss_ratio: f64) -> Option<f64> {
    let known = mss_bytes > 0.0 && rtt_s > 0.0 && loss_ratio > 0.0;
    known.then(|| MATHIS_FACTOR * 8.0 * mss_bytes / (rtt_s * loss_ratio.sqrt()))
}

/// Returns CUBIC's own response to this loss by RFC 9438; `None` without loss.
pub fn cubic_bps(mss_bytes: f64, rtt_s: f64, loss_ratio: f64) -> Option<f64> {
    let known = mss_bytes > 0.0 && rtt_s > 0.0 && loss_ratio > 0.0;
    known.then(|| CUBIC_FACTOR * 8.0 * mss_bytes / (loss_ratio.powf(0.75) * rtt_s.powf(0.25)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cubic_grows_a_large_window_back_in_seconds() {
        // RFC 9438 with W_max = 400 and 12,500 segments (1 Gbit/s over 150 ms).
        for (segments, seconds) in [(400.0, 6.69), (12_500.0, 21.1)] {
            let got = compute_cubic_cycle_s(segments);
            assert!((got / seconds - 1.0).abs() < 0.01, "{segments}: {got}");
        }
    }

    #[test]
    fn loss_bounds_follow_mathis_at_home_and_cubic_far_away() {
        // (mss, rtt s, loss, expected Mbit/s, which)
        let table = [
            (1460.0, 0.040, 0.00136, 9.66, "Mathis, as measured at 40 ms"),
            (1460.0, 0.172, 0.001, 3.40, "CUBIC"),
            (8960.0, 0.172, 0.000_001, 3711.0, "CUBIC"),
        ];
        for (mss, rtt, loss, expected, which) in table {
            let got = loss_bound_bps(mss, rtt, loss).unwrap() / 1e6;
            assert!((got / expected - 1.0).abs() < 0.02, "{which}: {got} not {expected}");
        }
        assert_eq!(loss_bound_bps(1460.0, 0.04, 0.0), None);
    }
}
