//! The scale on which a quantity has even noise, and the differences that matter on it.
//!
//! Source: rates and times by ratio (8 %), shares by the arcsine of the root (Anscombe 1948).
//! Units: natural logarithm, radian, count.
//! Error: none. Wrong when: a share is of few packets: its noise is then not even.

use longhaul_model::report::v1::quantity::{PathQuantity, QuantityScale};

/// The minimum rate, because the logarithm needs a floor.
const MIN_RATE: f64 = 1e-3;

/// Converts a value to its scale.
pub fn scale_value(value: f64, scale: QuantityScale) -> f64 {
    match scale {
        QuantityScale::Ratio => value.max(MIN_RATE).ln(),
        QuantityScale::Share => value.clamp(0.0, 1.0).sqrt().asin(),
        QuantityScale::Count => value,
    }
}

/// Returns the minimum lasting difference.
///
/// The RTT floor has little noise, and 3 % of it is a detour; a share must grow from zero to 0.1 %,
/// or from 1 to 1.7 %; one hop counts.
pub fn min_lasting_difference(quantity: PathQuantity) -> f64 {
    match (quantity, quantity.scale()) {
        (PathQuantity::RttFloor, _) => 1.03_f64.ln(),
        (_, QuantityScale::Ratio) => 1.08_f64.ln(),
        (_, QuantityScale::Share) => 0.03,
        (_, QuantityScale::Count) => 0.5,
    }
}

/// Returns the minimum difference of a sudden change.
pub fn min_sudden_difference(quantity: PathQuantity) -> f64 {
    match quantity.scale() {
        QuantityScale::Ratio => 1.15_f64.ln(),
        QuantityScale::Share => 0.06,
        QuantityScale::Count => 0.5,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_measurable_leaves_the_scale() {
        for scale in [QuantityScale::Ratio, QuantityScale::Share, QuantityScale::Count] {
            for value in [0.0, 1e-300, 0.5, 1.0, 7.0, 1e300] {
                assert!(scale_value(value, scale).is_finite(), "{value} on {scale:?}");
            }
        }
    }
}
