//! Confidence interval of a proportion.
//!
//! The score interval. Source: Wilson 1927. Units: ratios.
//! Error: covers the truth in 92 to 98 of 100 cases.
//! Wrong when: the cases are clustered, as losses are: then it is too narrow.

/// Standard deviations of a 95 % interval.
const Z: f64 = 1.959_964;

/// Returns the 95 % interval of the proportion; 0 to 1 without any tries.
pub fn proportion_interval(cases: u64, tries: u64) -> [f64; 2] {
    if tries == 0 {
        return [0.0, 1.0];
    }
    let (n, share) = (tries as f64, cases.min(tries) as f64 / tries as f64);
    let scale = 1.0 + Z * Z / n;
    let centre = (share + Z * Z / (2.0 * n)) / scale;
    let half = Z / scale * (share * (1.0 - share) / n + Z * Z / (4.0 * n * n)).sqrt();
    // The formula gives exactly these ends, but rounding does not.
    let low = if cases == 0 { 0.0 } else { centre - half };
    let high = if cases >= tries { 1.0 } else { centre + half };
    [low.clamp(0.0, 1.0), high.clamp(0.0, 1.0)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_intervals_are_met() {
        for (cases, tries, want) in [
            (0, 10, [0.0, 0.2775]),
            (1, 10, [0.0179, 0.4042]),
            (10, 10, [0.7225, 1.0]),
            (5, 100, [0.0215, 0.1118]),
            (0, 0, [0.0, 1.0]),
        ] {
            let found = proportion_interval(cases, tries);
            for (a, b) in found.iter().zip(want) {
                assert!((a - b).abs() < 5e-5, "{cases} of {tries}: {found:?}");
            }
        }
    }
}
