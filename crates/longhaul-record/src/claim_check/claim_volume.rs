//! Checks that all counts of a transfer's bytes agree, and its streams with its rate.
//!
//! Each count is an interval of bytes: the printed volume, buffers times size, rate times duration.
//! The count that agrees with most others is taken as right, and of two the rate. Source:
//! arithmetic. Units: bytes. Error: the printed digits. Wrong when: two of three have the same
//! slip.

use super::claim_figure::{ClaimFigure, FigureKind};
use super::figure_interval::FigureInterval;
use super::{ClaimChecks, ClaimFieldError, FieldReader, unit_slip};
use crate::published_claim::{ClaimVerdict, ClaimedTransfer};
use longhaul_model::units::Bytes;

/// One way to count the bytes.
struct VolumeCount {
    what: &'static str,
    value: f64,
    span: FigureInterval,
}

/// The figures of one transfer.
pub struct TransferFigures {
    volume: Option<ClaimFigure>,
    duration: Option<ClaimFigure>,
    pub rate: Option<ClaimFigure>,
    streams: Vec<ClaimFigure>,
    buffers: Option<(ClaimFigure, ClaimFigure)>,
}

impl TransferFigures {
    pub fn read(
        transfer: &ClaimedTransfer,
        reader: &FieldReader,
    ) -> Result<TransferFigures, ClaimFieldError> {
        let streams = transfer.streams.iter();
        let buffers = transfer.buffers.as_ref().map(|buffers| {
            let count = reader.read("buffers.count", &buffers.count, FigureKind::Number)?;
            let size = reader.read("buffers.size", &buffers.size, FigureKind::Bytes)?;
            Ok((count, size))
        });
        Ok(TransferFigures {
            volume: reader.read_optional("volume", transfer.volume.as_ref(), FigureKind::Bytes)?,
            duration: reader.read_optional(
                "duration",
                transfer.duration.as_ref(),
                FigureKind::Seconds,
            )?,
            rate: reader.read_optional(
                "rate",
                transfer.rate.as_ref(),
                FigureKind::BitsPerSecond,
            )?,
            streams: streams
                .map(|rate| reader.read("streams", rate, FigureKind::BitsPerSecond))
                .collect::<Result<_, _>>()?,
            buffers: buffers.transpose()?,
        })
    }

    fn counts(&self) -> Vec<VolumeCount> {
        let mut counts = Vec::new();
        counts.extend(self.volume.as_ref().map(|volume| VolumeCount {
            what: "the volume",
            value: volume.value,
            span: volume.span,
        }));
        counts.extend(self.buffers.as_ref().map(|(count, size)| VolumeCount {
            what: "buffers by their size",
            value: count.value * size.value,
            // The size is a setting and not a measurement.
            span: count.span.scaled(size.value),
        }));
        let timed = self.rate.as_ref().zip(self.duration.as_ref());
        counts.extend(timed.map(|(rate, duration)| VolumeCount {
            what: "rate by duration",
            value: rate.value * duration.value / 8.0,
            span: rate.span.times(duration.span).scaled(1.0 / 8.0),
        }));
        counts
    }

    fn shown(&self, bytes: f64) -> String {
        match &self.volume {
            Some(volume) => volume.format_like(bytes),
            None => Bytes(bytes as u64).to_string(),
        }
    }
}

pub fn check_volume(figures: &TransferFigures, to: &mut ClaimChecks) {
    let counts = figures.counts();
    if counts.len() < 2 {
        return;
    }
    let friends = |count: &VolumeCount| {
        counts
            .iter()
            .filter(|it| it.span.overlaps(count.span))
            .count()
    };
    // In a tie, takes the last count, which is the rate.
    let Some(believed) = counts.iter().max_by_key(|count| friends(count)) else {
        return;
    };
    let (agree, differ): (Vec<&VolumeCount>, Vec<&VolumeCount>) = counts
        .iter()
        .partition(|count| count.span.overlaps(believed.span));
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
        to.add("volume", ClaimVerdict::Differs, text).remedy =
            suggest_volume_remedy(figures, count, believed);
    }
    if agree.len() > 1 {
        let names: Vec<&str> = agree.iter().map(|count| count.what).collect();
        let text = format!(
            "{} agree: {}",
            names.join(" and "),
            figures.shown(believed.value)
        );
        to.add("volume", ClaimVerdict::Agrees, text);
    }
}

fn suggest_volume_remedy(
    figures: &TransferFigures,
    count: &VolumeCount,
    believed: &VolumeCount,
) -> Option<String> {
    if let Some(slip) = unit_slip::explain_slip(count.span, believed.span) {
        return Some(format!("it fits if {slip}"));
    }
    let (rate, duration) = (figures.rate.as_ref()?, figures.duration.as_ref()?);
    let takes_s = count.value * 8.0 / rate.value;
    Some(format!(
        "{} at {} take {}, and in {} are {}",
        figures.shown(count.value),
        rate.text,
        duration.format_like(takes_s),
        duration.text,
        rate.format_like(count.value * 8.0 / duration.value),
    ))
}

/// Checks that the rates of all streams add up to that of the transfer.
pub fn check_stream_rates(figures: &TransferFigures, to: &mut ClaimChecks) {
    let Some(rate) = figures.rate.as_ref().filter(|_| figures.streams.len() > 1) else {
        return;
    };
    let streams: Vec<&ClaimFigure> = figures.streams.iter().collect();
    to.check_sum(("streams", &streams), ("rate", rate), rate);
}
