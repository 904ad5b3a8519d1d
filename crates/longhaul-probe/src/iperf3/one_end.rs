//! An observation from the data of one end: those of the other end are derived or absent.
//!
//! iperf3 reports only byte counts for its end. If we send, our kernel knows what the peer has
//! acknowledged, which is taken as received; how the peer spent its time is unknown, so those
//! readings are absent. Wrong when: bytes are acknowledged but never read (a slow reader appears as
//! a small window).

use crate::engine::EndResult;
use longhaul_analysis::throughput::{conclude, sentence};
use longhaul_model::report::v1::observation::{End, Ends, Observation, Sample, Stream, StreamEnd};
use longhaul_model::report::v1::plan::Plan;
use std::time::Duration;

/// Returns the observation from a sender's data alone.
pub fn seen_by_sender(forward: bool, own: &EndResult, idle_rtt: Option<Duration>) -> Observation {
    let streams = own.streams.iter().enumerate();
    let streams: Vec<Stream> = streams
        .map(|(index, sender)| Stream {
            index: index as u32,
            sender: sender.clone(),
            receiver: arrived(sender),
        })
        .collect();
    let receiver = End {
        bytes: streams.iter().map(|stream| stream.receiver.bytes).sum(),
        ..End::default()
    };
    observation(forward, streams, (own.end.clone(), receiver), idle_rtt)
}

/// Returns the paragraphs that explain what limited this end's sender.
pub(crate) fn verdict(plan: &Plan, own: &EndResult, idle_rtt: Option<Duration>) -> Vec<String> {
    let conclusion = conclude(plan, &seen_by_sender(true, own, idle_rtt));
    let findings = conclusion.findings.iter();
    std::iter::once(sentence(&conclusion.analysis))
        .chain(findings.map(|finding| finding.summary.clone()))
        .collect()
}

fn observation(
    forward: bool,
    streams: Vec<Stream>,
    (sender, receiver): (End, End),
    idle_rtt: Option<Duration>,
) -> Observation {
    let span = |of: fn(&StreamEnd) -> u64| streams.iter().map(move |s| of(&s.receiver));
    let from = span(|end| end.started_us).min().unwrap_or(0);
    let to = span(|end| end.started_us + end.duration_us)
        .max()
        .unwrap_or(0);
    Observation {
        forward,
        elapsed_us: to.saturating_sub(from),
        idle_rtt_us: idle_rtt.map(|rtt| rtt.as_micros() as u64),
        clock_error_us: None,
        same_host: false,
        same_boot: None,
        streams,
        ends: Ends { sender, receiver },
        reverse: None,
    }
}

/// Returns the acknowledged bytes as the receiver's total. It has no samples; the analysis takes
/// the progress from what our kernel saw acknowledged.
fn arrived(sender: &StreamEnd) -> StreamEnd {
    let acknowledged = |sample: &Sample| Some((sample.at_us, sample.tcp.as_ref()?.bytes_acked?));
    let last = sender.samples.iter().rev().find_map(acknowledged);
    let (at_us, bytes) = last.unwrap_or((sender.started_us + sender.duration_us, sender.bytes));
    StreamEnd {
        bytes: bytes.min(sender.bytes),
        started_us: sender.started_us,
        duration_us: at_us.saturating_sub(sender.started_us),
        ..StreamEnd::default()
    }
}
