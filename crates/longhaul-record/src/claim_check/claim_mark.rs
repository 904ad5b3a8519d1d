//! Checks that the mark is the product of unrounded rate and distance, and that it exceeds the
//! previous mark by the stated gain.
//!
//! Source: the contest's metric, rate times terrestrial distance. Units: bit·m/s. Error: the
//! printed digits. Wrong when: the printed distance is not the credited one.

use super::claim_figure::{ClaimFigure, FigureKind};
use super::{ClaimChecks, ClaimFieldError, FieldReader};
use crate::published_claim::{ClaimVerdict, ClaimedMark};

pub struct MarkFigures {
    value: ClaimFigure,
    rate: Option<ClaimFigure>,
    distance: Option<ClaimFigure>,
    previous: Option<ClaimFigure>,
    gain: Option<ClaimFigure>,
}

impl MarkFigures {
    pub fn read(mark: &ClaimedMark, reader: &FieldReader) -> Result<MarkFigures, ClaimFieldError> {
        Ok(MarkFigures {
            value: reader.read("value", &mark.value, FigureKind::BitMetresPerSecond)?,
            rate: reader.read_optional("rate", mark.rate.as_ref(), FigureKind::BitsPerSecond)?,
            distance: reader.read_optional(
                "distance",
                mark.distance.as_ref(),
                FigureKind::Metres,
            )?,
            previous: reader.read_optional(
                "previous",
                mark.previous.as_ref(),
                FigureKind::BitMetresPerSecond,
            )?,
            gain: reader.read_optional("gain", mark.gain.as_ref(), FigureKind::Ratio)?,
        })
    }
}

/// Checks the mark. `measured`: the most precise rate of a transfer; `total`: the whole distance.
pub fn check_mark(
    mark: &MarkFigures,
    (measured, total): (Option<&ClaimFigure>, Option<&ClaimFigure>),
    to: &mut ClaimChecks,
) {
    let rate = mark.rate.as_ref().or(measured);
    let distance = mark.distance.as_ref().or(total);
    if let (Some(rate), Some(distance)) = (rate, distance) {
        let finer = measured.filter(|finer| relative_error(finer) < relative_error(rate) / 2.0);
        check_product(mark, (rate, distance), finer, to);
    }
    check_gain(mark, to);
}

/// Returns half of the last digit as a ratio of the value.
fn relative_error(figure: &ClaimFigure) -> f64 {
    (figure.span.high - figure.span.low) / (2.0 * figure.value)
}

fn check_product(
    mark: &MarkFigures,
    (rate, distance): (&ClaimFigure, &ClaimFigure),
    finer: Option<&ClaimFigure>,
    to: &mut ClaimChecks,
) {
    let made = rate.value * distance.value;
    let span = rate.span.times(distance.span);
    let factors = format!("{} by {}", rate.text, distance.text);
    let own = &mark.value;
    if !span.overlaps(own.span) {
        let text = format!(
            "{factors} is {}, and not {}",
            own.format_like(made),
            own.text
        );
        let needs = format!(
            "{} needs {} at that rate, or {} over that distance",
            own.text,
            distance.format_like(own.value / rate.value),
            rate.format_like(own.value / distance.value),
        );
        to.add("mark", ClaimVerdict::Differs, text).remedy = Some(needs);
        return;
    }
    if let Some(finer) = finer.filter(|finer| !finer.span.times(distance.span).overlaps(own.span)) {
        let exact = finer.value * distance.value;
        let text = format!(
            "a rounded rate was multiplied: {factors} is {}, but the rate was {}, and that is {} \
             ({:+.2} %)",
            own.format_like(made),
            finer.text,
            own.format_like(exact),
            100.0 * (exact / own.value - 1.0),
        );
        let remedy = "multiply bytes, seconds and metres as they were measured, and round once";
        to.add("mark", ClaimVerdict::Differs, text).remedy = Some(remedy.to_owned());
        return;
    }
    if own.span.contains(made) {
        let text = format!("{factors} is {}, as printed", own.format_like(made));
        to.add("mark", ClaimVerdict::Agrees, text);
    } else {
        let text = format!(
            "{factors} is {}, and {} is printed: a factor had more digits than are printed, or the \
             mark was rounded twice",
            own.format_like(made),
            own.text,
        );
        to.add("mark", ClaimVerdict::Loose, text);
    }
}

fn check_gain(mark: &MarkFigures, to: &mut ClaimChecks) {
    let Some(previous) = &mark.previous else {
        return;
    };
    let gained = mark.value.value / previous.value - 1.0;
    let over = format!(
        "{} is {:+.1} % beside {}",
        mark.value.text,
        100.0 * gained,
        previous.text
    );
    let ratio = mark.value.span.divided(previous.span);
    let Some(gain) = &mark.gain else {
        to.add("gain", ClaimVerdict::Agrees, over);
        return;
    };
    let said = gain.span.plus(super::figure_interval::FigureInterval {
        low: 1.0,
        high: 1.0,
    });
    let (verdict, word) = if said.overlaps(ratio) {
        (ClaimVerdict::Agrees, "as printed")
    } else {
        (ClaimVerdict::Differs, "and printed is")
    };
    to.add("gain", verdict, format!("{over}, {word}: {}", gain.text));
}
