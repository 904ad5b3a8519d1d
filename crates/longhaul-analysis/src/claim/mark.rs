//! Checks that the mark is the product of unrounded rate and distance, and that it exceeds the
//! previous mark by the stated gain.
//!
//! Source: the contest's metric, rate times terrestrial distance. Units: bit·m/s. Error: the
//! printed digits. Wrong when: the printed distance is not the credited one.

use super::figure::{Figure, Of};
use super::{Checks, Problem, Reader};
use longhaul_model::report::v1::claim::{Mark, Verdict};

pub struct Figures {
    value: Figure,
    rate: Option<Figure>,
    distance: Option<Figure>,
    previous: Option<Figure>,
    gain: Option<Figure>,
}

impl Figures {
    pub fn read(mark: &Mark, reader: &Reader) -> Result<Figures, Problem> {
        Ok(Figures {
            value: reader.read("value", &mark.value, Of::BitMetresPerSecond)?,
            rate: reader.maybe("rate", mark.rate.as_ref(), Of::BitsPerSecond)?,
            distance: reader.maybe("distance", mark.distance.as_ref(), Of::Metres)?,
            previous: reader.maybe("previous", mark.previous.as_ref(), Of::BitMetresPerSecond)?,
            gain: reader.maybe("gain", mark.gain.as_ref(), Of::Ratio)?,
        })
    }
}

/// Checks the mark. `measured`: the most precise rate of a transfer; `total`: the whole distance.
pub fn check(
    mark: &Figures,
    (measured, total): (Option<&Figure>, Option<&Figure>),
    to: &mut Checks,
) {
    let rate = mark.rate.as_ref().or(measured);
    let distance = mark.distance.as_ref().or(total);
    if let (Some(rate), Some(distance)) = (rate, distance) {
        let finer = measured.filter(|finer| relative(finer) < relative(rate) / 2.0);
        product(mark, (rate, distance), finer, to);
    }
    gain(mark, to);
}

/// Returns half of the last digit as a ratio of the value.
fn relative(figure: &Figure) -> f64 {
    (figure.span.high - figure.span.low) / (2.0 * figure.value)
}

fn product(
    mark: &Figures,
    (rate, distance): (&Figure, &Figure),
    finer: Option<&Figure>,
    to: &mut Checks,
) {
    let made = rate.value * distance.value;
    let span = rate.span.times(distance.span);
    let factors = format!("{} by {}", rate.text, distance.text);
    let own = &mark.value;
    if !span.meets(own.span) {
        let text = format!("{factors} is {}, and not {}", own.like(made), own.text);
        let needs = format!(
            "{} needs {} at that rate, or {} over that distance",
            own.text,
            distance.like(own.value / rate.value),
            rate.like(own.value / distance.value),
        );
        to.add("mark", Verdict::Differs, text).remedy = Some(needs);
        return;
    }
    if let Some(finer) = finer.filter(|finer| !finer.span.times(distance.span).meets(own.span)) {
        let exact = finer.value * distance.value;
        let text = format!(
            "a rounded rate was multiplied: {factors} is {}, but the rate was {}, and that is {} \
             ({:+.2} %)",
            own.like(made),
            finer.text,
            own.like(exact),
            100.0 * (exact / own.value - 1.0),
        );
        let remedy = "multiply bytes, seconds and metres as they were measured, and round once";
        to.add("mark", Verdict::Differs, text).remedy = Some(remedy.to_owned());
        return;
    }
    if own.span.holds(made) {
        let text = format!("{factors} is {}, as printed", own.like(made));
        to.add("mark", Verdict::Agrees, text);
    } else {
        let text = format!(
            "{factors} is {}, and {} is printed: a factor had more digits than are printed, or the \
             mark was rounded twice",
            own.like(made),
            own.text,
        );
        to.add("mark", Verdict::Loose, text);
    }
}

fn gain(mark: &Figures, to: &mut Checks) {
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
    let ratio = mark.value.span.over(previous.span);
    let Some(gain) = &mark.gain else {
        to.add("gain", Verdict::Agrees, over);
        return;
    };
    let said = gain.span.plus(super::span::Span {
        low: 1.0,
        high: 1.0,
    });
    let (verdict, word) = if said.meets(ratio) {
        (Verdict::Agrees, "as printed")
    } else {
        (Verdict::Differs, "and printed is")
    };
    to.add("gain", verdict, format!("{over}, {word}: {}", gain.text));
}
