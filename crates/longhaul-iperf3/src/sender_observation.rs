//! An observation from the data of one end: those of the other end are derived or absent.
//!
//! iperf3 reports only byte counts for its end. If we send, our kernel knows what the peer has
//! acknowledged, which is taken as received; how the peer spent its time is unknown, so those
//! readings are absent. Wrong when: bytes are acknowledged but never read (a slow reader appears as
//! a small window).

use longhaul_model::report::v1::observation::{
    BothEnds, EndObservation, ObservedStream, StreamEnd, StreamSample, ThroughputObservation,
};
use longhaul_probe::engine::EngineResult;
use longhaul_probe::throughput::payload_duration_us;
use std::time::Duration;

/// Returns the observation of a server's sender, from its data alone.
pub fn observe_sender(own: &EngineResult, idle_rtt: Option<Duration>) -> ThroughputObservation {
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
    ThroughputObservation {
        forward: false,
        elapsed_us: payload_duration_us(&streams),
        idle_rtt_us: idle_rtt.map(|rtt| rtt.as_micros() as u64),
        clock_error_us: None,
        same_host: false,
        same_boot: None,
        streams,
        ends: BothEnds { sender: own.end.clone(), receiver },
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
