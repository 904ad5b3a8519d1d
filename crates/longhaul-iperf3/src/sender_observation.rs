//! An observation from the data of one end: those of the other end are derived or absent.
//!
//! iperf3 reports only byte counts for its end. If we send, our kernel knows what the peer has
//! acknowledged, which is taken as received; how the peer spent its time is unknown, so those
//! readings are absent. Wrong when: bytes are acknowledged but never read (a slow reader appears as
//! a small window).

use longhaul_analysis::throughput::{conclude_throughput, format_verdict};
use longhaul_model::report::v1::observation::{
    BothEnds, EndObservation, ObservedStream, StreamEnd, StreamSample, ThroughputObservation,
};
use longhaul_model::report::v1::plan::ThroughputPlan;
use longhaul_probe::engine::EngineResult;
use std::time::Duration;

/// Returns the observation from a sender's data alone.
pub fn observe_sender(
    forward: bool,
    own: &EngineResult,
    idle_rtt: Option<Duration>,
) -> ThroughputObservation {
    let streams = own.streams.iter().enumerate();
    let streams: Vec<ObservedStream> = streams
        .map(|(index, sender)| ObservedStream {
            index: index as u32,
            sender: sender.clone(),
            receiver: estimate_receiver(sender),
        })
        .collect();
    let receiver = EndObservation {
        bytes: streams.iter().map(|stream| stream.receiver.bytes).sum(),
        ..EndObservation::default()
    };
    build_observation(forward, streams, own.end.clone(), receiver, idle_rtt)
}

/// Returns the paragraphs that explain what limited this end's sender.
pub(crate) fn explain_limits(
    plan: &ThroughputPlan,
    own: &EngineResult,
    idle_rtt: Option<Duration>,
) -> Vec<String> {
    let conclusion = conclude_throughput(plan, &observe_sender(true, own, idle_rtt));
    let findings = conclusion.findings.iter();
    std::iter::once(format_verdict(&conclusion.analysis))
        .chain(findings.map(|finding| finding.summary.clone()))
        .collect()
}

fn build_observation(
    forward: bool,
    streams: Vec<ObservedStream>,
    sender: EndObservation,
    receiver: EndObservation,
    idle_rtt: Option<Duration>,
) -> ThroughputObservation {
    let span = |of: fn(&StreamEnd) -> u64| streams.iter().map(move |s| of(&s.receiver));
    let from = span(|end| end.started_us).min().unwrap_or(0);
    let to = span(|end| end.started_us + end.duration_us)
        .max()
        .unwrap_or(0);
    ThroughputObservation {
        forward,
        elapsed_us: to.saturating_sub(from),
        idle_rtt_us: idle_rtt.map(|rtt| rtt.as_micros() as u64),
        clock_error_us: None,
        same_host: false,
        same_boot: None,
        streams,
        ends: BothEnds { sender, receiver },
        reverse: None,
    }
}

/// Returns the acknowledged bytes as the receiver's total. It has no samples; the analysis takes
/// the progress from what our kernel saw acknowledged.
fn estimate_receiver(sender: &StreamEnd) -> StreamEnd {
    let acknowledged =
        |sample: &StreamSample| Some((sample.at_us, sample.tcp.as_ref()?.bytes_acked?));
    let last = sender.samples.iter().rev().find_map(acknowledged);
    let (at_us, bytes) = last.unwrap_or((sender.started_us + sender.duration_us, sender.bytes));
    StreamEnd {
        bytes: bytes.min(sender.bytes),
        started_us: sender.started_us,
        duration_us: at_us.saturating_sub(sender.started_us),
        ..StreamEnd::default()
    }
}
