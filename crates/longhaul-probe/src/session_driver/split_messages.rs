//! Splits the server's results into messages that fit into a frame.

use super::SessionResults;
use crate::engine::EngineResult as LocalEnd;
use crate::wire::{
    Base64Bytes, ControlMessage, DirectionResult, MAX_BASE64_BYTES, MAX_RESULT_BYTES, StreamResult,
    encode_frame,
};
use longhaul_model::report::v1::ReportCaveat;

/// The maximum size of all streams' results: the more streams, the less room for each.
const MAX_TOTAL_BYTES: usize = 64 << 20;

/// Returns the messages to send: for each direction its streams, then the end.
pub(crate) fn split_results(collected: SessionResults) -> Vec<ControlMessage> {
    let received = collected.receiver.map(|local| split_direction(true, local));
    let sent = collected.sender.map(|local| split_direction(false, local));
    received.into_iter().chain(sent).flatten().collect()
}

/// Splits a capture file into messages, to be sent before the results.
pub(crate) fn split_capture(file: &[u8]) -> impl Iterator<Item = ControlMessage> {
    let pieces = file.chunks(MAX_BASE64_BYTES);
    pieces.map(|piece| {
        let bytes = Base64Bytes(piece.to_vec());
        ControlMessage::Capture { bytes }
    })
}

fn split_direction(forward: bool, local: LocalEnd) -> Vec<ControlMessage> {
    let room = MAX_RESULT_BYTES.min(MAX_TOTAL_BYTES / local.streams.len().max(1));
    let mut caveats = local.caveats;
    let mut messages = Vec::with_capacity(local.streams.len() + 1);
    for (index, end) in local.streams.into_iter().enumerate() {
        let index = index as u32;
        let mut result = StreamResult { forward, index, end };
        if thin_to_fit(room, &mut result) {
            let text =
                format!("stream {index} has too many samples to send: every other one is left out");
            caveats.push(ReportCaveat::new("samples_thinned", text));
        }
        messages.push(ControlMessage::Stream(Box::new(result)));
    }
    messages.push(ControlMessage::End(Box::new(DirectionResult {
        forward,
        end: local.end,
        caveats,
    })));
    messages
}

/// Removes every other sample, except the last one, until the message fits; returns whether it had
/// to.
fn thin_to_fit(room: usize, result: &mut StreamResult) -> bool {
    // The message consists of its name and the result.
    let room = room - r#"{"stream":}"#.len();
    let mut thinned = false;
    while result.end.samples.len() > 1 && encode_frame(result, room).is_err() {
        let last = result.end.samples.len() - 1;
        let mut index = 0..;
        result.end.samples.retain(|_| {
            let number = index.next().unwrap_or(0);
            number == last || number % 2 == 1
        });
        thinned = true;
    }
    thinned
}

#[cfg(test)]
mod tests {
    use super::*;
    use longhaul_model::report::v1::observation::{StreamEnd, StreamSample};

    #[test]
    fn a_result_too_large_for_its_frame_is_thinned_and_keeps_its_last_sample() {
        let sample = |at_us| StreamSample { at_us, ..StreamSample::default() };
        let end = StreamEnd { samples: (0..1000).map(sample).collect(), ..StreamEnd::default() };
        let mut result = StreamResult { forward: true, index: 0, end };
        assert!(thin_to_fit(8192, &mut result));
        let message = ControlMessage::Stream(Box::new(result.clone()));
        assert!(encode_frame(&message, 8192).is_ok());
        assert_eq!(result.end.samples.last().map(|s| s.at_us), Some(999));
        assert!(result.end.samples.len() > 50);
    }
}
