//! Sending threads: one per connection sends the next block.

use super::{Ready, Sending};
use crate::transfer::BLOCK_BYTES;
use crate::transfer::digest::Digest;
use crate::transfer::stream::{DataStream, Moved};
use crate::wire::{BLOCK_HEAD_BYTES, BlockHead, BlockKind};
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::Ordering;

impl Sending {
    /// Sends blocks over one connection.
    pub(super) fn send(&self, stream: TcpStream) {
        let common = &self.common;
        let Ok(mut stream) = DataStream::new(stream, &common.halt) else {
            return common.halt.lose("a data connection was closed");
        };
        let watch = common.network.watch();
        while let Some(ready) = watch.idle(|| self.ready.pop(&common.halt)) {
            let moved = match ready {
                Ready::Block(head, sum, mut buffer) => {
                    let length = head.length as usize;
                    let front = head.encode(&common.key, &sum);
                    let moved = watch.busy(|| stream.send(buffer.framed(&front, length)));
                    common.moved_bytes.fetch_add(head.length, Ordering::Relaxed);
                    common.free.push(buffer, &common.halt);
                    moved
                }
                Ready::Bare(head, sum) => {
                    let mut bytes = head.encode(&common.key, &sum).to_vec();
                    if head.kind == BlockKind::End {
                        bytes.extend(sum);
                    }
                    watch.busy(|| stream.send(&bytes))
                }
            };
            if moved == Moved::Over {
                return;
            }
        }
        drop(watch);
        self.say_last(stream);
    }

    fn say_last(&self, mut stream: DataStream<'_>) {
        if self.common.halt.is_set() {
            return;
        }
        let head = BlockHead {
            kind: BlockKind::Last,
            file: 0,
            block: 0,
            length: 0,
        };
        stream.send(&head.encode(&self.common.key, &Digest::default()));
        self.common.note_socket(stream.socket());
        // The peer has everything, so errors of the shutdown do not matter.
        let _ = stream.socket().shutdown(Shutdown::Write);
    }

    /// Sends filler over one connection.
    pub(super) fn fill(&self, stream: TcpStream) {
        let common = &self.common;
        let Ok(mut stream) = DataStream::new(stream, &common.halt) else {
            return common.halt.lose("a data connection was closed");
        };
        let watch = common.network.watch();
        let Some(mut buffer) = common.free.pop(&common.halt) else {
            return;
        };
        loop {
            let left = self
                .filler
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
                    (left > 0).then(|| left.saturating_sub(BLOCK_BYTES))
                });
            let Ok(left) = left else {
                break;
            };
            let head = BlockHead {
                kind: BlockKind::Filler,
                file: 0,
                block: 0,
                length: left.min(BLOCK_BYTES),
            };
            let front: [u8; BLOCK_HEAD_BYTES] = head.encode(&common.key, &Digest::default());
            let bytes = buffer.framed(&front, head.length as usize);
            if watch.busy(|| stream.send(bytes)) == Moved::Over {
                return;
            }
            common.moved_bytes.fetch_add(head.length, Ordering::Relaxed);
        }
        drop(watch);
        self.say_last(stream);
    }

    /// Replaces the connections in a disk-only dry run.
    pub(super) fn discard(&self) {
        while let Some(ready) = self.ready.pop(&self.common.halt) {
            if let Ready::Block(head, _, buffer) = ready {
                self.common
                    .moved_bytes
                    .fetch_add(head.length, Ordering::Relaxed);
                self.common.free.push(buffer, &self.common.halt);
            }
        }
    }
}
