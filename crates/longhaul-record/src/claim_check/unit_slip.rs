//! Finds the slip in a unit or a decimal point that would make two figures agree.
//!
//! Source: the slips of published claims: bits for bytes, GiB for GB, a misplaced decimal point.

use super::claim_figure::FigureInterval;

/// The factors from the meant value to the printed one; the first is no slip.
const UNIT_SLIPS: &[(f64, &str)] = &[
    (1.0, ""),
    (8.0, "bytes are called bits"),
    (0.125, "bits are called bytes"),
    (1.024, "the unit is a power of 1024 (KiB)"),
    (1.048_576, "the unit is a power of 1024 (MiB)"),
    (1.073_741_824, "the unit is a power of 1024 (GiB)"),
    (1.099_511_627_776, "the unit is a power of 1024 (TiB)"),
];
const POINT_SLIPS: &[(f64, &str)] = &[
    (1.0, ""),
    (10.0, "the point stands one digit too far left"),
    (100.0, "the point stands two digits too far left"),
    (1000.0, "the point or prefix is off by 1000 (too small)"),
    (0.1, "the point stands one digit too far right"),
    (0.01, "the point stands two digits too far right"),
    (0.001, "the point or prefix is off by 1000 (too large)"),
];

/// Returns the simplest slip that turns `printed` into `meant`.
pub fn explain_slip(printed: FigureInterval, meant: FigureInterval) -> Option<String> {
    let pairs =
        UNIT_SLIPS.iter().flat_map(|unit| POINT_SLIPS.iter().map(move |point| (unit, point)));
    let fitting = pairs.filter(|((unit, _), (point, _))| {
        let moved = printed.scaled(unit * point);
        moved.overlaps(meant)
    });
    let texts = fitting.map(|((_, unit), (_, point))| {
        let texts = [*unit, *point].into_iter().filter(|text| !text.is_empty());
        texts.collect::<Vec<_>>()
    });
    // One slip is more likely than two.
    Some(texts.min_by_key(Vec::len)?.join(" and "))
}
