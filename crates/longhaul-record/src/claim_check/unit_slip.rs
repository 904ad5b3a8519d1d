//! Finds the slip in a unit or a decimal point that would make two figures agree.
//!
//! Source: the slips of published claims: bits for bytes, GiB for GB, a misplaced decimal point.

use super::figure_interval::FigureInterval;

/// A possible slip: the factor from the meant value to the printed one.
struct UnitSlip {
    factor: f64,
    text: &'static str,
}

const UNIT_SLIPS: &[UnitSlip] = &[
    UnitSlip {
        factor: 1.0,
        text: "",
    },
    UnitSlip {
        factor: 8.0,
        text: "bytes are called bits",
    },
    UnitSlip {
        factor: 0.125,
        text: "bits are called bytes",
    },
    UnitSlip {
        factor: 1.024,
        text: "the unit is a power of 1024 (KiB)",
    },
    UnitSlip {
        factor: 1.048_576,
        text: "the unit is a power of 1024 (MiB)",
    },
    UnitSlip {
        factor: 1.073_741_824,
        text: "the unit is a power of 1024 (GiB)",
    },
    UnitSlip {
        factor: 1.099_511_627_776,
        text: "the unit is a power of 1024 (TiB)",
    },
];
const POINT_SLIPS: &[UnitSlip] = &[
    UnitSlip {
        factor: 1.0,
        text: "",
    },
    UnitSlip {
        factor: 10.0,
        text: "the point stands one digit too far left",
    },
    UnitSlip {
        factor: 100.0,
        text: "the point stands two digits too far left",
    },
    UnitSlip {
        factor: 1000.0,
        text: "the point or prefix is off by 1000 (too small)",
    },
    UnitSlip {
        factor: 0.1,
        text: "the point stands one digit too far right",
    },
    UnitSlip {
        factor: 0.01,
        text: "the point stands two digits too far right",
    },
    UnitSlip {
        factor: 0.001,
        text: "the point or prefix is off by 1000 (too large)",
    },
];

/// Returns the simplest slip that turns `printed` into `meant`.
pub fn explain_slip(printed: FigureInterval, meant: FigureInterval) -> Option<String> {
    let mut all: Vec<(&UnitSlip, &UnitSlip)> = UNIT_SLIPS
        .iter()
        .flat_map(|unit| POINT_SLIPS.iter().map(move |point| (unit, point)))
        .collect();
    // One slip is more likely than two.
    all.sort_by_key(|(unit, point)| {
        [unit, point]
            .iter()
            .filter(|it| !it.text.is_empty())
            .count()
    });
    let found = all
        .into_iter()
        .find(|(unit, point)| printed.scaled(unit.factor * point.factor).overlaps(meant))?;
    let texts = [found.0.text, found.1.text];
    let texts: Vec<&str> = texts.into_iter().filter(|text| !text.is_empty()).collect();
    Some(texts.join(" and "))
}
