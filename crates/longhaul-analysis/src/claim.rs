//! Checks the figures of a published claim against each other and against physical limits.
//!
//! A printed figure is an interval, given by its precision; two figures that must be equal agree if
//! their intervals overlap. Differences that rounding explains are therefore not reported.

mod distance;
mod figure;
mod mark;
pub mod places;
mod slip;
mod span;
#[cfg(test)]
mod tests;
mod volume;
mod window;

pub(crate) use distance::LIGHT;
use figure::{Figure, Of};
use longhaul_model::report::v1::claim::{Check, Checked, Claim, SCHEMA, Verdict};
use longhaul_model::units::ParseUnitError;
use places::Places;
use span::Span;
use std::fmt;

/// A field that cannot be parsed as a figure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The field's name in the claim, such as `transfers.1.rate`.
    pub field: String,
    pub source: ParseUnitError,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} cannot be read", self.field)
    }
}

impl std::error::Error for Problem {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.source)
    }
}

/// Parses fields and knows their names for errors.
struct Reader(String);

impl Reader {
    fn read(&self, field: &str, text: &str, of: Of) -> Result<Figure, Problem> {
        Figure::parse(text, of).map_err(|source| Problem {
            field: format!("{}.{field}", self.0),
            source,
        })
    }

    fn maybe(&self, field: &str, text: Option<&String>, of: Of) -> Result<Option<Figure>, Problem> {
        text.map(|text| self.read(field, text, of)).transpose()
    }
}

/// The results so far.
#[derive(Default)]
struct Checks(Vec<Check>);

impl Checks {
    fn add(&mut self, check: &str, verdict: Verdict, text: String) -> &mut Check {
        self.0.push(Check {
            check: check.to_owned(),
            verdict,
            text,
            remedy: None,
        });
        // The element was just added.
        let last = self.0.len() - 1;
        &mut self.0[last]
    }

    /// Checks that parts add up to a printed whole; their sum is shown in the unit of `like`.
    fn add_up(
        &mut self,
        (name, parts): (&str, &[&Figure]),
        (of, whole): (&str, &Figure),
        like: &Figure,
    ) {
        let sum = parts
            .iter()
            .fold(Span::NOTHING, |sum, it| sum.plus(it.span));
        let value: f64 = parts.iter().map(|it| it.value).sum();
        let (verdict, word) = if sum.meets(whole.span) {
            (Verdict::Agrees, "as")
        } else {
            (Verdict::Differs, "and")
        };
        let text = format!(
            "the {} {name} add up to {}, {word} the {of} is printed: {}",
            parts.len(),
            like.like(value),
            whole.text,
        );
        self.add(name, verdict, text);
    }
}

/// Compares all figures of a claim that must agree.
pub fn check(claim: &Claim, places: &dyn Places) -> Result<Checked, Problem> {
    let mut checks = Checks::default();
    let mut rates = Vec::new();
    for (transfer, number) in claim.transfers.iter().zip(1..) {
        let reader = Reader(format!("transfers.{number}"));
        let figures = volume::Figures::read(transfer, &reader)?;
        volume::check(&figures, &mut checks);
        volume::streams(&figures, &mut checks);
        rates.extend(figures.rate);
    }
    let at = Reader("distance".to_owned());
    let distance = claim.distance.as_ref();
    let distance = distance
        .map(|it| distance::Figures::read(it, &at))
        .transpose()?;
    if let Some(figures) = &distance {
        distance::check(figures, places, &mut checks);
    }
    let total = distance.as_ref().and_then(distance::Figures::total);
    let top = Reader("claim".to_owned());
    let rtt = top.maybe("rtt", claim.rtt.as_ref(), Of::Seconds)?;
    if let (Some(total), Some(rtt)) = (total, &rtt) {
        distance::light(total, rtt, &mut checks);
    }
    if let Some(mark) = &claim.mark {
        let figures = mark::Figures::read(mark, &Reader("mark".to_owned()))?;
        mark::check(&figures, (rates.first(), total), &mut checks);
    }
    carried(claim, &rates, &mut checks)?;
    Ok(Checked {
        schema: SCHEMA.to_owned(),
        claim: claim.clone(),
        checks: checks.0,
    })
}

/// Checks windows and links.
fn carried(claim: &Claim, rates: &[Figure], checks: &mut Checks) -> Result<(), Problem> {
    for (window, number) in claim.windows.iter().zip(1..) {
        window::check(window, &Reader(format!("windows.{number}")), checks)?;
    }
    for (link, number) in claim.links.iter().zip(1..) {
        let rate = window::link(link, &Reader(format!("links.{number}")), checks)?;
        let fastest = rates.iter().max_by(|a, b| a.value.total_cmp(&b.value));
        if let (Some(rate), Some(fastest)) = (rate, fastest) {
            window::room(fastest, link, &rate, checks);
        }
    }
    Ok(())
}
