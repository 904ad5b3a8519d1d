//! Splits the server's results into messages that fit into a frame.

use super::SessionResults;
use crate::engine::EngineResult as LocalEnd;
use crate::wire::{Base64Bytes, ControlMessage, DirectionResult, MAX_BASE64_BYTES, StreamResult};

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
    let streams = (0..).zip(local.streams);
    let streams = streams.map(|(index, end)| StreamResult { forward, index, end });
    let end = DirectionResult { forward, end: local.end, caveats: local.caveats };
    let streams = streams.map(|result| ControlMessage::Stream(Box::new(result)));
    streams.chain([ControlMessage::End(Box::new(end))]).collect()
}
