//! Checks the figures of a published claim against each other and against physical limits.
//!
//! A printed figure is an interval, given by its precision; two figures that must be equal agree if
//! their intervals overlap. Differences that rounding explains are therefore not reported.

mod claim_distance;
mod claim_figure;
mod claim_mark;
mod claim_volume;
mod claim_window;
mod figure_interval;
#[cfg(test)]
mod tests;
mod unit_slip;

use crate::airport_table::AirportTable;
use crate::published_claim::{CheckedClaim, ClaimCheck, ClaimVerdict, PublishedClaim, SCHEMA};
pub(crate) use claim_distance::LIGHT_IN_FIBRE_MPS;
use claim_figure::{ClaimFigure, FigureKind};
use figure_interval::FigureInterval;
use longhaul_model::units::ParseUnitError;
use std::fmt;

/// A field that cannot be parsed as a figure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimFieldError {
    /// The field's name in the claim, such as `transfers.1.rate`.
    pub field: String,
    pub source: ParseUnitError,
}

impl fmt::Display for ClaimFieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} cannot be read", self.field)
    }
}

impl std::error::Error for ClaimFieldError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.source)
    }
}

/// Parses fields and knows their names for errors.
struct FieldReader(String);

impl FieldReader {
    fn read(
        &self,
        field: &str,
        text: &str,
        of: FigureKind,
    ) -> Result<ClaimFigure, ClaimFieldError> {
        ClaimFigure::parse(text, of).map_err(|source| ClaimFieldError {
            field: format!("{}.{field}", self.0),
            source,
        })
    }

    fn read_optional(
        &self,
        field: &str,
        text: Option<&String>,
        of: FigureKind,
    ) -> Result<Option<ClaimFigure>, ClaimFieldError> {
        text.map(|text| self.read(field, text, of)).transpose()
    }
}

/// The results so far.
#[derive(Default)]
struct ClaimChecks(Vec<ClaimCheck>);

impl ClaimChecks {
    fn add(&mut self, check: &str, verdict: ClaimVerdict, text: String) -> &mut ClaimCheck {
        self.0.push(ClaimCheck {
            check: check.to_owned(),
            verdict,
            text,
            remedy: None,
        });
        // The element was just added.
        let last = self.0.len() - 1;
        &mut self.0[last]
    }

    /// Checks that parts add up to a printed whole; their sum is shown in the unit of `format_like`.
    fn check_sum(
        &mut self,
        (name, parts): (&str, &[&ClaimFigure]),
        (of, whole): (&str, &ClaimFigure),
        like: &ClaimFigure,
    ) {
        let sum = parts
            .iter()
            .fold(FigureInterval::NOTHING, |sum, it| sum.plus(it.span));
        let value: f64 = parts.iter().map(|it| it.value).sum();
        let (verdict, word) = if sum.overlaps(whole.span) {
            (ClaimVerdict::Agrees, "as")
        } else {
            (ClaimVerdict::Differs, "and")
        };
        let text = format!(
            "the {} {name} add up to {}, {word} the {of} is printed: {}",
            parts.len(),
            like.format_like(value),
            whole.text,
        );
        self.add(name, verdict, text);
    }
}

/// Compares all figures of a claim that must agree.
pub fn check_claim(
    claim: &PublishedClaim,
    places: &AirportTable,
) -> Result<CheckedClaim, ClaimFieldError> {
    let mut checks = ClaimChecks::default();
    let mut rates = Vec::new();
    for (transfer, number) in claim.transfers.iter().zip(1..) {
        let reader = FieldReader(format!("transfers.{number}"));
        let figures = claim_volume::TransferFigures::read(transfer, &reader)?;
        claim_volume::check_volume(&figures, &mut checks);
        claim_volume::check_stream_rates(&figures, &mut checks);
        rates.extend(figures.rate);
    }
    let at = FieldReader("distance".to_owned());
    let distance = claim.distance.as_ref();
    let distance = distance
        .map(|it| claim_distance::DistanceFigures::read(it, &at))
        .transpose()?;
    if let Some(figures) = &distance {
        claim_distance::check_distance(figures, places, &mut checks);
    }
    let total = distance
        .as_ref()
        .and_then(claim_distance::DistanceFigures::total);
    let top = FieldReader("claim".to_owned());
    let rtt = top.read_optional("rtt", claim.rtt.as_ref(), FigureKind::Seconds)?;
    if let (Some(total), Some(rtt)) = (total, &rtt) {
        claim_distance::check_light_speed(total, rtt, &mut checks);
    }
    if let Some(mark) = &claim.mark {
        let figures = claim_mark::MarkFigures::read(mark, &FieldReader("mark".to_owned()))?;
        claim_mark::check_mark(&figures, (rates.first(), total), &mut checks);
    }
    check_windows_and_links(claim, &rates, &mut checks)?;
    Ok(CheckedClaim {
        schema: SCHEMA.to_owned(),
        claim: claim.clone(),
        checks: checks.0,
    })
}

/// Checks windows and links.
fn check_windows_and_links(
    claim: &PublishedClaim,
    rates: &[ClaimFigure],
    checks: &mut ClaimChecks,
) -> Result<(), ClaimFieldError> {
    for (window, number) in claim.windows.iter().zip(1..) {
        claim_window::check_window(window, &FieldReader(format!("windows.{number}")), checks)?;
    }
    for (link, number) in claim.links.iter().zip(1..) {
        let rate = claim_window::check_link(link, &FieldReader(format!("links.{number}")), checks)?;
        let fastest = rates.iter().max_by(|a, b| a.value.total_cmp(&b.value));
        if let (Some(rate), Some(fastest)) = (rate, fastest) {
            claim_window::check_link_capacity(fastest, link, &rate, checks);
        }
    }
    Ok(())
}
