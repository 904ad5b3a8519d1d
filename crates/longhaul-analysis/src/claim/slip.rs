//! Finds the slip in a unit or a decimal point that would make two figures agree.
//!
//! Source: the slips of published claims: bits for bytes, GiB for GB, a misplaced decimal point.

use super::span::Span;

/// A possible slip: the factor from the meant value to the printed one.
struct Slip {
    factor: f64,
    text: &'static str,
}

const UNITS: &[Slip] = &[
    Slip {
        factor: 1.0,
        text: "",
    },
    Slip {
        factor: 8.0,
        text: "bytes are called bits",
    },
    Slip {
        factor: 0.125,
        text: "bits are called bytes",
    },
    Slip {
        factor: 1.024,
        text: "the unit is a power of 1024 (KiB)",
    },
    Slip {
        factor: 1.048_576,
        text: "the unit is a power of 1024 (MiB)",
    },
    Slip {
        factor: 1.073_741_824,
        text: "the unit is a power of 1024 (GiB)",
    },
    Slip {
        factor: 1.099_511_627_776,
        text: "the unit is a power of 1024 (TiB)",
    },
];
const POINTS: &[Slip] = &[
    Slip {
        factor: 1.0,
        text: "",
    },
    Slip {
        factor: 10.0,
        text: "the point stands one digit too far left",
    },
    Slip {
        factor: 100.0,
        text: "the point stands two digits too far left",
    },
    Slip {
        factor: 1000.0,
        text: "the point or prefix is off by 1000 (too small)",
    },
    Slip {
        factor: 0.1,
        text: "the point stands one digit too far right",
    },
    Slip {
        factor: 0.01,
        text: "the point stands two digits too far right",
    },
    Slip {
        factor: 0.001,
        text: "the point or prefix is off by 1000 (too large)",
    },
];

/// Returns the simplest slip that turns `printed` into `meant`.
pub fn explains(printed: Span, meant: Span) -> Option<String> {
    let mut all: Vec<(&Slip, &Slip)> = UNITS
        .iter()
        .flat_map(|unit| POINTS.iter().map(move |point| (unit, point)))
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
        .find(|(unit, point)| printed.by(unit.factor * point.factor).meets(meant))?;
    let texts = [found.0.text, found.1.text];
    let texts: Vec<&str> = texts.into_iter().filter(|text| !text.is_empty()).collect();
    Some(texts.join(" and "))
}
