//! Checks that all counts of a transfer's bytes agree, and its streams with its rate.
//!
//! Each count is an interval of bytes: the printed volume, buffers times size, rate times duration.
//! The count that agrees with most others is taken as right, and of two the rate. Source:
//! arithmetic. Units: bytes. Error: the printed digits. Wrong when: two of three have the same
//! slip.

use super::figure::{Figure, Of};
use super::span::Span;
use super::{Checks, Problem, Reader, slip};
use longhaul_model::report::v1::claim::{Transfer, Verdict};
use longhaul_model::units::Bytes;

/// One way to count the bytes.
struct Count {
    what: &'static str,
    value: f64,
    span: Span,
}

/// The figures of one transfer.
pub struct Figures {
    volume: Option<Figure>,
    duration: Option<Figure>,
    pub rate: Option<Figure>,
    streams: Vec<Figure>,
    buffers: Option<(Figure, Figure)>,
}

impl Figures {
    pub fn read(transfer: &Transfer, reader: &Reader) -> Result<Figures, Problem> {
        let streams = transfer.streams.iter();
        let buffers = transfer.buffers.as_ref().map(|buffers| {
            let count = reader.read("buffers.count", &buffers.count, Of::Number)?;
            let size = reader.read("buffers.size", &buffers.size, Of::Bytes)?;
            Ok((count, size))
        });
        Ok(Figures {
            volume: reader.maybe("volume", transfer.volume.as_ref(), Of::Bytes)?,
            duration: reader.maybe("duration", transfer.duration.as_ref(), Of::Seconds)?,
            rate: reader.maybe("rate", transfer.rate.as_ref(), Of::BitsPerSecond)?,
            streams: streams
                .map(|rate| reader.read("streams", rate, Of::BitsPerSecond))
                .collect::<Result<_, _>>()?,
            buffers: buffers.transpose()?,
        })
    }

    fn counts(&self) -> Vec<Count> {
        let mut counts = Vec::new();
        counts.extend(self.volume.as_ref().map(|volume| Count {
            what: "the volume",
            value: volume.value,
            span: volume.span,
        }));
        counts.extend(self.buffers.as_ref().map(|(count, size)| Count {
            what: "buffers by their size",
            value: count.value * size.value,
            // The size is a setting and not a measurement.
            span: count.span.by(size.value),
        }));
        let timed = self.rate.as_ref().zip(self.duration.as_ref());
        counts.extend(timed.map(|(rate, duration)| Count {
            what: "rate by duration",
            value: rate.value * duration.value / 8.0,
            span: rate.span.times(duration.span).by(1.0 / 8.0),
        }));
        counts
    }

    fn shown(&self, bytes: f64) -> String {
        match &self.volume {
            Some(volume) => volume.like(bytes),
            None => Bytes(bytes as u64).to_string(),
        }
    }
}

pub fn check(figures: &Figures, to: &mut Checks) {
    let counts = figures.counts();
    if counts.len() < 2 {
        return;
    }
    let friends = |count: &Count| counts.iter().filter(|it| it.span.meets(count.span)).count();
    // In a tie, takes the last count, which is the rate.
    let Some(believed) = counts.iter().max_by_key(|count| friends(count)) else {
        return;
    };
    let (agree, differ): (Vec<&Count>, Vec<&Count>) = counts
        .iter()
        .partition(|count| count.span.meets(believed.span));
    for count in &differ {
        let apart = count.value - believed.value;
        let text = format!(
            "{} is {}, but {} is {}: {} ({:+.3} %) apart",
            count.what,
            figures.shown(count.value),
            believed.what,
            figures.shown(believed.value),
            figures.shown(apart.abs()),
            100.0 * apart / believed.value,
        );
        to.add("volume", Verdict::Differs, text).remedy = remedy(figures, count, believed);
    }
    if agree.len() > 1 {
        let names: Vec<&str> = agree.iter().map(|count| count.what).collect();
        let text = format!(
            "{} agree: {}",
            names.join(" and "),
            figures.shown(believed.value)
        );
        to.add("volume", Verdict::Agrees, text);
    }
}

fn remedy(figures: &Figures, count: &Count, believed: &Count) -> Option<String> {
    if let Some(slip) = slip::explains(count.span, believed.span) {
        return Some(format!("it fits if {slip}"));
    }
    let (rate, duration) = (figures.rate.as_ref()?, figures.duration.as_ref()?);
    let takes_s = count.value * 8.0 / rate.value;
    Some(format!(
        "{} at {} take {}, and in {} are {}",
        figures.shown(count.value),
        rate.text,
        duration.like(takes_s),
        duration.text,
        rate.like(count.value * 8.0 / duration.value),
    ))
}

/// Checks that the rates of all streams add up to that of the transfer.
pub fn streams(figures: &Figures, to: &mut Checks) {
    let Some(rate) = figures.rate.as_ref().filter(|_| figures.streams.len() > 1) else {
        return;
    };
    let streams: Vec<&Figure> = figures.streams.iter().collect();
    to.add_up(("streams", &streams), ("rate", rate), rate);
}
