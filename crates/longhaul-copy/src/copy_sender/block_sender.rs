//! Sending threads: one per connection sends the next block.

use super::{CopySender, SendItem};
use crate::block_digest::BlockDigest;
use crate::block_header::{BlockHeader, BlockKind};
use crate::data_stream::DataStream;
use std::net::{Shutdown, TcpStream};

impl CopySender {
    /// Sends blocks over one connection.
    pub(super) fn send_blocks(&self, stream: TcpStream) {
        let common = &self.common;
        let Ok(mut stream) = DataStream::new(stream, &common.halt) else {
            return common.halt.fail_lost("a data connection was closed");
        };
        let watch = common.counters.network.start_timer();
        while let Some(ready) = watch.idle(|| self.ready.pop(&common.halt)) {
            let moved = match ready {
                SendItem::Block(head, sum, mut buffer) => {
                    let length = head.length as usize;
                    let front = head.encode(&common.key, &sum);
                    let moved = watch.busy(|| stream.send(buffer.with_header(&front, length)));
                    common.counters.moved_bytes.add(head.length);
                    common.free_buffers.push(buffer, &common.halt);
                    moved
                }
                SendItem::End(head, sum) => {
                    let mut bytes = head.encode(&common.key, &sum).to_vec();
                    bytes.extend(sum);
                    watch.busy(|| stream.send(&bytes))
                }
            };
            if !moved {
                return;
            }
        }
        drop(watch);
        self.send_last(stream);
    }

    fn send_last(&self, mut stream: DataStream<'_>) {
        if self.common.halt.is_set() {
            return;
        }
        let head = BlockHeader { kind: BlockKind::Last, file: 0, block: 0, length: 0 };
        stream.send(&head.encode(&self.common.key, &BlockDigest::default()));
        self.common.add_socket_stats(stream.socket());
        // The peer has everything, so errors of the shutdown do not matter.
        let _ = stream.socket().shutdown(Shutdown::Write);
    }
}
