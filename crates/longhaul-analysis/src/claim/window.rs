//! Checks that a window fits its intended rate, and that a link has the rate of its kind.
//!
//! A window fits if it is within a tenth of the bandwidth-delay product. Source: RFC 6349 for the
//! product; ITU-T G.707 and ANSI T1.105 for the kinds of links. Units: bytes, bit/s, seconds.
//! Error: windows are rounded to what hosts grant. Wrong when: a window was meant to be shared.

use super::figure::{Figure, Of};
use super::{Checks, Problem, Reader};
use longhaul_model::report::v1::claim::{Link, Verdict, Window};

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

pub fn check(window: &Window, reader: &Reader, to: &mut Checks) -> Result<(), Problem> {
    let size = reader.read("size", &window.size, Of::Bytes)?;
    let rate = reader.read("rate", &window.rate, Of::BitsPerSecond)?;
    let rtt = reader.read("rtt", &window.rtt, Of::Seconds)?;
    let product = rate.value * rtt.value / 8.0;
    let text = format!(
        "{} at {} need a window of {}",
        rate.text,
        rtt.text,
        size.like(product)
    );
    if (size.value / product - 1.0).abs() <= FITS_RATIO {
        to.add(
            "window",
            Verdict::Agrees,
            format!("{text}: {} fits", size.text),
        );
        return Ok(());
    }
    let fits = size.value * 8.0 / rtt.value;
    let kind = kind_near(fits).map_or_else(String::new, |name| format!(", as of {name}"));
    let text = format!("{text}, and not {}", size.text);
    to.add("window", Verdict::Differs, text).remedy =
        Some(format!("{} fits {}{kind}", size.text, rate.like(fits)));
    Ok(())
}

/// Returns the kind of link whose rate is within a twentieth.
fn kind_near(rate: f64) -> Option<&'static str> {
    let mut all = KINDS.iter();
    all.find(|(_, of)| (rate / of - 1.0).abs() <= KIND_RATIO)
        .map(|(name, _)| *name)
}

pub fn link(link: &Link, reader: &Reader, to: &mut Checks) -> Result<Option<Figure>, Problem> {
    let rate = reader.read("rate", &link.rate, Of::BitsPerSecond)?;
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
        let text = format!("{} is a link of {}", link.name, rate.like(*of));
        to.add("link", Verdict::Agrees, text);
        return Ok(Some(rate));
    }
    let text = format!(
        "{} is a link of {}, and not of {}",
        link.name,
        rate.like(*of),
        rate.text
    );
    to.add("link", Verdict::Differs, text);
    Ok(None)
}

/// Checks that no transfer is faster than a link on its path.
pub fn room(transfer: &Figure, link: &Link, rate: &Figure, to: &mut Checks) {
    if transfer.span.low > rate.span.high {
        let text = format!(
            "{} was reached, and {} carries {}",
            transfer.text, link.name, rate.text
        );
        to.add("link", Verdict::Impossible, text);
    }
}
