//! Two-sided probability of Student's t.
//!
//! Source: Student's distribution by the incomplete beta function, its continued fraction by Lentz
//! (Abramowitz and Stegun 26.7.1 and 26.5.8). Units: a probability. Error: below one in a million.
//! Wrong when: never, for finite values.
//!
//! # The normal distribution
//!
//! Tail probability of the standard normal distribution.
//!
//! Source: Abramowitz and Stegun 1964, formula 7.1.26. Units: a probability.
//! Error: 1.5e-7. Wrong when: probabilities below that matter.

/// The maximum number of steps of the continued fraction; it converges within a few dozen.
const MAX_STEPS: usize = 300;
const SETTLED: f64 = 1e-10;

/// Returns the probability of a t at least this far from 0 on either side, with `freedom` > 0.
pub fn student_probability(t: f64, freedom: f64) -> f64 {
    if !t.is_finite() {
        return 0.0;
    }
    let x = freedom / (freedom + t * t);
    incomplete_beta(freedom / 2.0, 0.5, x).clamp(0.0, 1.0)
}

/// Returns the regularized incomplete beta function, for 0 < x <= 1.
fn incomplete_beta(a: f64, b: f64, x: f64) -> f64 {
    if x >= 1.0 {
        return 1.0;
    }
    let front =
        (log_gamma(a + b) - log_gamma(a) - log_gamma(b) + a * x.ln() + b * (1.0 - x).ln()).exp();
    if x < (a + 1.0) / (a + b + 2.0) {
        front * evaluate_fraction(a, b, x) / a
    } else {
        1.0 - front * evaluate_fraction(b, a, 1.0 - x) / b
    }
}

/// Evaluates the continued fraction by Lentz, with the ratios kept from zero.
fn evaluate_fraction(a: f64, b: f64, x: f64) -> f64 {
    const TINY: f64 = 1e-300;
    let away = |v: f64| if v.abs() < TINY { TINY } else { v };
    let mut above = 1.0;
    let mut below = 1.0 / away(1.0 - (a + b) * x / (a + 1.0));
    let mut value = below;
    for step in (1..=MAX_STEPS).map(|step| step as f64) {
        let twice = a + 2.0 * step;
        let even = step * (b - step) * x / ((twice - 1.0) * twice);
        let odd = -(a + step) * (a + b + step) * x / (twice * (twice + 1.0));
        let before = value;
        for term in [even, odd] {
            below = 1.0 / away(1.0 + term * below);
            above = away(1.0 + term / above);
            value *= above * below;
        }
        if (value / before - 1.0).abs() < SETTLED {
            break;
        }
    }
    value
}

/// Returns ln Γ(x) by Stirling's series after shifting the argument above 10.
fn log_gamma(x: f64) -> f64 {
    let (mut x, mut shift) = (x, 0.0);
    while x < 10.0 {
        shift += x.ln();
        x += 1.0;
    }
    let series = 1.0 / (12.0 * x) - 1.0 / (360.0 * x.powi(3)) + 1.0 / (1260.0 * x.powi(5));
    (x - 0.5) * x.ln() - x + 0.5 * (2.0 * std::f64::consts::PI).ln() + series - shift
}

/// Returns the probability above `z`.
pub fn upper_tail(z: f64) -> f64 {
    let x = z.abs() / std::f64::consts::SQRT_2;
    let t = 1.0 / (1.0 + 0.327_591_1 * x);
    let coefficients =
        [1.061_405_429, -1.453_152_027, 1.421_413_741, -0.284_496_736, 0.254_829_592];
    let sum = coefficients.iter().fold(0.0, |sum, c| sum * t + c);
    let beyond = sum * t * (-x * x).exp() / 2.0;
    if z >= 0.0 { beyond } else { 1.0 - beyond }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::mean_interval::student_t_975;

    #[test]
    fn probabilities_agree_with_the_printed_table() {
        for (t, freedom, expected) in [
            (12.706, 1.0, 0.05),
            (9.925, 2.0, 0.01),
            (4.604, 4.0, 0.01),
            (3.169, 10.0, 0.01),
            (2.042, 30.0, 0.05),
            (0.0, 5.0, 1.0),
        ] {
            let got = student_probability(t, freedom);
            assert!((got - expected).abs() < 1e-4, "t {t}, {freedom}: {got}");
        }
    }

    #[test]
    fn the_quantile_and_the_probability_are_each_others_inverse() {
        for freedom in [1.0, 3.0, 7.0, 25.0, 400.0] {
            let got = student_probability(student_t_975(freedom), freedom);
            assert!((got - 0.05).abs() < 5e-4, "{freedom}: {got}");
        }
    }
}

#[cfg(test)]
mod normal_distribution_tests {
    use super::*;

    #[test]
    fn known_shares_are_met() {
        for (z, share) in
            [(0.0, 0.5), (1.0, 0.158_655), (1.96, 0.024_998), (2.326_348, 0.01), (-1.644_854, 0.95)]
        {
            assert!((upper_tail(z) - share).abs() < 1e-6, "{z}");
        }
    }
}
