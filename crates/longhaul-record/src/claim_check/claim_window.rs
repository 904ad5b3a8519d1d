//! Checks that a window fits its intended rate, and that a link has the rate of its kind.
//!
//! A window fits if it is within a tenth of the bandwidth-delay product. Source: RFC 6349 for the
//! product; ITU-T G.707 and ANSI T1.105 for the kinds of links. Units: bytes, bit/s, seconds.
//! Error: windows are rounded to what hosts grant. Wrong when: a window was meant to be shared.

use super::claim_figure::{ClaimFigure, FigureKind};
use super::{ClaimChecks, ClaimFieldError, FieldReader};
use crate::published_claim::{ClaimVerdict, ClaimedLink, ClaimedWindow};

const FITS_RATIO: f64 = 0.1;
/// Line rates and payload rates of one kind differ by a few per cent.
const KIND_RATIO: f64 = 0.05;

const KINDS: &[(&str, f64)] = &[
    ("T1", 1.544e6),
    ("E1", 2.048e6),
    ("E3", 34.368e6),
    ("T3", 44.736e6),
    ("DS3", 44.736e6),
    ("OC3", 155.52e6),
    ("STM1", 155.52e6),
    ("OC12", 622.08e6),
    ("STM4", 622.08e6),
    ("OC48", 2_488.32e6),
    ("STM16", 2_488.32e6),
    ("OC192", 9_953.28e6),
    ("STM64", 9_953.28e6),
    ("FE", 100e6),
    ("GE", 1e9),
    ("10GE", 10e9),
    ("40GE", 40e9),
    ("100GE", 100e9),
    ("400GE", 400e9),
];

pub fn check_window(
    window: &ClaimedWindow,
    reader: &FieldReader,
    to: &mut ClaimChecks,
) -> Result<(), ClaimFieldError> {
    let size = reader.read("size", &window.size, FigureKind::Bytes)?;
    let rate = reader.read("rate", &window.rate, FigureKind::BitsPerSecond)?;
    let rtt = reader.read("rtt", &window.rtt, FigureKind::Seconds)?;
    let product = rate.value * rtt.value / 8.0;
    let text = format!(
        "{} at {} need a window of {}",
        rate.text,
        rtt.text,
        size.format_like(product)
    );
    if (size.value / product - 1.0).abs() <= FITS_RATIO {
        to.add(
            "window",
            ClaimVerdict::Agrees,
            format!("{text}: {} fits", size.text),
        );
        return Ok(());
    }
    let fits = size.value * 8.0 / rtt.value;
    let kind = find_link_kind(fits).map_or_else(String::new, |name| format!(", as of {name}"));
    let text = format!("{text}, and not {}", size.text);
    to.add("window", ClaimVerdict::Differs, text).remedy = Some(format!(
        "{} fits {}{kind}",
        size.text,
        rate.format_like(fits)
    ));
    Ok(())
}

/// Returns the kind of link whose rate is within a twentieth.
fn find_link_kind(rate: f64) -> Option<&'static str> {
    let mut all = KINDS.iter();
    all.find(|(_, of)| (rate / of - 1.0).abs() <= KIND_RATIO)
        .map(|(name, _)| *name)
}

pub fn check_link(
    link: &ClaimedLink,
    reader: &FieldReader,
    to: &mut ClaimChecks,
) -> Result<Option<ClaimFigure>, ClaimFieldError> {
    let rate = reader.read("rate", &link.rate, FigureKind::BitsPerSecond)?;
    let name: String = link
        .name
        .chars()
        .filter(char::is_ascii_alphanumeric)
        .collect();
    let kind = KINDS
        .iter()
        .find(|(known, _)| known.eq_ignore_ascii_case(&name));
    let Some((_, of)) = kind else {
        return Ok(Some(rate));
    };
    if (rate.value / of - 1.0).abs() <= KIND_RATIO {
        let text = format!("{} is a link of {}", link.name, rate.format_like(*of));
        to.add("link", ClaimVerdict::Agrees, text);
        return Ok(Some(rate));
    }
    let text = format!(
        "{} is a link of {}, and not of {}",
        link.name,
        rate.format_like(*of),
        rate.text
    );
    to.add("link", ClaimVerdict::Differs, text);
    Ok(None)
}

/// Checks that no transfer is faster than a link on its path.
pub fn check_link_capacity(
    transfer: &ClaimFigure,
    link: &ClaimedLink,
    rate: &ClaimFigure,
    to: &mut ClaimChecks,
) {
    if transfer.span.low > rate.span.high {
        let text = format!(
            "{} was reached, and {} carries {}",
            transfer.text, link.name, rate.text
        );
        to.add("link", ClaimVerdict::Impossible, text);
    }
}
