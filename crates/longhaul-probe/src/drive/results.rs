//! Splits the server's results into messages that fit into a frame.

use super::Collected;
use crate::engine::EndResult as LocalEnd;
use crate::wire::{
    CapturePart, EndResult, MOST_PACKED_BYTES, MOST_RESULT_BYTES, Message, Packed, StreamResult,
    encode,
};
use longhaul_model::report::v1::Caveat;

/// The maximum size of all streams' results: the more streams, the less room for each.
const MOST_TOTAL_BYTES: usize = 64 << 20;

/// Returns the messages to send: for each direction its streams, then the end.
pub(crate) fn result_messages(collected: Collected) -> Vec<Message> {
    let received = collected.receiver.map(|local| direction(true, local));
    let sent = collected.sender.map(|local| direction(false, local));
    received.into_iter().chain(sent).flatten().collect()
}

/// Splits a capture file into messages, to be sent before the results.
pub(crate) fn capture_messages(file: &[u8]) -> impl Iterator<Item = Message> {
    let pieces = file.chunks(MOST_PACKED_BYTES);
    pieces.map(|piece| {
        let bytes = Packed(piece.to_vec());
        Message::Capture(CapturePart { bytes })
    })
}

fn direction(forward: bool, local: LocalEnd) -> Vec<Message> {
    let room = MOST_RESULT_BYTES.min(MOST_TOTAL_BYTES / local.streams.len().max(1));
    let mut caveats = local.caveats;
    let mut messages = Vec::with_capacity(local.streams.len() + 1);
    for (index, end) in local.streams.into_iter().enumerate() {
        let index = index as u32;
        let result = StreamResult {
            forward,
            index,
            end,
        };
        let (message, thinned) = within(room, result);
        messages.push(message);
        if thinned {
            let text =
                format!("stream {index} has more samples than are sent: every other left out");
            caveats.push(Caveat::new("samples_thinned", text));
        }
    }
    messages.push(Message::End(Box::new(EndResult {
        forward,
        end: local.end,
        caveats,
    })));
    messages
}

/// Removes every other sample, except the last one, until the result fits.
fn within(room: usize, result: StreamResult) -> (Message, bool) {
    let mut message = Message::Stream(Box::new(result));
    let mut thinned = false;
    while let Message::Stream(result) = &mut message {
        let samples = result.end.samples.len();
        if samples < 2 || fits(room, &message) {
            break;
        }
        thin(&mut message);
        thinned = true;
    }
    (message, thinned)
}

fn fits(room: usize, message: &Message) -> bool {
    encode(message, room).is_ok()
}

fn thin(message: &mut Message) {
    if let Message::Stream(result) = message {
        let last = result.end.samples.len().saturating_sub(1);
        let mut index = 0..;
        result.end.samples.retain(|_| {
            let number = index.next().unwrap_or(0);
            number == last || number % 2 == 1
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use longhaul_model::report::v1::observation::{Sample, StreamEnd};

    #[test]
    fn a_result_too_large_for_its_frame_is_thinned_and_keeps_its_last_sample() {
        let sample = |at_us| Sample {
            at_us,
            ..Sample::default()
        };
        let end = StreamEnd {
            samples: (0..1000).map(sample).collect(),
            ..StreamEnd::default()
        };
        let result = StreamResult {
            forward: true,
            index: 0,
            end,
        };
        let (message, thinned) = within(8192, result);
        assert!(thinned && fits(8192, &message));
        let Message::Stream(result) = message else {
            panic!("a stream went in");
        };
        assert_eq!(result.end.samples.last().map(|s| s.at_us), Some(999));
        assert!(result.end.samples.len() > 50);
    }
}
