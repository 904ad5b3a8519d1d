//! Arbitrary bytes from a peer: no panic, bounded memory, and what is decoded can be sent again.

#![no_main]

use libfuzzer_sys::fuzz_target;
use longhaul_probe::wire::{
    DATA_STREAM, FrameSplitter, MAX_FRAME_BYTES, MAX_RESULT_BYTES, StreamPreamble, encode_frame,
};

fuzz_target!(|bytes: &[u8]| {
    if let Some(preamble) = StreamPreamble::decode(bytes, DATA_STREAM) {
        assert_eq!(preamble.encode(DATA_STREAM), bytes);
    }
    let Some((&cut, frames)) = bytes.split_first() else {
        return;
    };
    let mut decoder = FrameSplitter::new(MAX_FRAME_BYTES);
    for mut piece in frames.chunks(usize::from(cut).max(1)) {
        while !piece.is_empty() {
            match decoder.next_message(&mut piece) {
                Ok(Some(message)) => {
                    encode_frame(&message, MAX_RESULT_BYTES).expect("it fitted into a frame");
                }
                Ok(None) => break,
                Err(_) => return,
            }
        }
        assert!(decoder.held_bytes() <= MAX_FRAME_BYTES + 4);
    }
});
