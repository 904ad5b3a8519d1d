//! Readers that wake up for a batch of packets and not for each.
//!
//! A reader that is faster than its sender sleeps after every packet, and who delivers the next one
//! has to wake it. Between two programs of one machine that is the sender's own call, and where an
//! idle core is a halted one (every virtual machine) it costs the sender as much as sending half
//! a packet of 64 KiB. So while data comes fast, the reader lets the kernel wake it for a batch
//! (SO_RCVLOWAT) that it has within some tens of microseconds.
//!
//! A sender whose own buffer or window is smaller than a batch waits for the reader meanwhile: a
//! batch that does not come ends the batches for a while, longer each time. What did come of it
//! came at once, as all before it, and is told as of the beginning of the wait.
//!
//! Wrong when: what a path holds is hardly more than a batch; so only on short paths, and only with
//! a receive buffer of several batches.

use super::receive;
use longhaul_sys::sockopt;
use std::net::TcpStream;
use std::time::Duration;

/// Few enough to stay in a core's cache. Twice as many save a little more, half as many half.
pub(super) const BATCH_BYTES: usize = 256 * 1024;
/// A buffer that holds less would be emptied by one batch.
const BUFFER_LEAST: usize = 8 * BATCH_BYTES;
/// Fast is 12.8 Gbit/s: there a batch takes 160 us.
const SPAN_NS: u64 = 10_000_000;
const FAST_BYTES: u64 = 64 * BATCH_BYTES as u64;
/// A read gives up on the rest of a batch after this, or a tick of the kernel later.
const LONGEST: Duration = Duration::from_millis(2);
const PAUSE_LEAST_NS: u64 = 10_000_000;
const PAUSE_MOST_NS: u64 = 1_000_000_000;

/// One stream's reader.
#[derive(Debug)]
pub(super) struct Batches {
    on: bool,
    /// What a read brings that did not wait in vain.
    least: usize,
    /// The span in which the rate is seen, and where the stream stood at its beginning.
    span_ends_ns: u64,
    span_began_bytes: u64,
    resume_ns: u64,
    pause_ns: u64,
}

impl Batches {
    /// For reads of `read_bytes` at most.
    pub fn new(read_bytes: usize) -> Batches {
        Batches {
            on: false,
            least: read_bytes.min(BATCH_BYTES),
            span_ends_ns: 0,
            span_began_bytes: 0,
            resume_ns: 0,
            pause_ns: PAUSE_LEAST_NS,
        }
    }

    /// Before a read, at byte `position` of the stream.
    pub fn look(&mut self, socket: &TcpStream, now_ns: u64, position: u64) {
        if now_ns >= self.span_ends_ns {
            self.judge(socket, now_ns, position);
        }
    }

    /// After a read of `bytes` from `began_ns` to `now_ns`: when the last of them was there.
    pub fn took(
        &mut self,
        socket: &TcpStream,
        bytes: usize,
        (began_ns, now_ns): (u64, u64),
    ) -> u64 {
        if !self.on || bytes >= self.least {
            return now_ns;
        }
        self.give_up(socket, now_ns);
        let in_vain = now_ns - began_ns >= LONGEST.as_nanos() as u64;
        if in_vain { began_ns } else { now_ns }
    }

    /// Batches come to whom the last span was fast.
    fn judge(&mut self, socket: &TcpStream, now_ns: u64, position: u64) {
        let whole = now_ns < self.span_ends_ns + SPAN_NS;
        let fast = whole && position - self.span_began_bytes >= FAST_BYTES;
        self.span_ends_ns = now_ns + SPAN_NS;
        self.span_began_bytes = position;
        if self.on && fast {
            self.pause_ns = PAUSE_LEAST_NS;
        } else if self.on {
            self.turn(socket, false);
        } else if fast && now_ns >= self.resume_ns {
            let stored = sockopt::stored_receive_buffer(socket);
            if stored.is_ok_and(|bytes| bytes >= BUFFER_LEAST) {
                self.turn(socket, true);
            }
        }
    }

    fn give_up(&mut self, socket: &TcpStream, now_ns: u64) {
        self.turn(socket, false);
        self.resume_ns = now_ns + self.pause_ns;
        self.pause_ns = (self.pause_ns * 2).min(PAUSE_MOST_NS);
    }

    /// Refused, the reader goes on as it was.
    fn turn(&mut self, socket: &TcpStream, on: bool) {
        let (bytes, timeout) = if on {
            (BATCH_BYTES as i32, LONGEST)
        } else {
            (1, receive::TICK)
        };
        let timed = sockopt::set_receive_timeout(socket, timeout);
        if timed.is_ok() && sockopt::set_receive_low_water(socket, bytes).is_ok() {
            self.on = on;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    const MOST: usize = 1 << 20;

    /// A connection whose receive buffer is `bytes` if the kernel lets it.
    fn reader(bytes: usize) -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
        let address = listener.local_addr().expect("an address");
        let sender = TcpStream::connect(address).expect("a connection");
        let (reader, _) = listener.accept().expect("a connection");
        sockopt::set_receive_buffer(&reader, bytes).expect("a buffer");
        (sender, reader)
    }

    /// Spans of `bytes` each, from `now_ns` on; the time after the last.
    fn spans(batches: &mut Batches, socket: &TcpStream, bytes: u64, mut now_ns: u64) -> u64 {
        for span in 0..3 {
            batches.look(socket, now_ns, span * bytes);
            now_ns += SPAN_NS;
        }
        now_ns
    }

    #[test]
    fn batches_are_for_fast_data_and_large_buffers() {
        for (bytes, speed, large) in [
            (8 << 20, FAST_BYTES, true),
            (8 << 20, FAST_BYTES / 2, false),
            (64 << 10, FAST_BYTES, false),
        ] {
            let (_sender, socket) = reader(bytes);
            let stored = sockopt::stored_receive_buffer(&socket).expect("a buffer");
            let mut batches = Batches::new(MOST);
            spans(&mut batches, &socket, speed, 0);
            // The kernel may have granted less than was asked.
            assert_eq!(batches.on, large && stored >= BUFFER_LEAST, "{stored}");
        }
    }

    #[test]
    fn what_came_of_a_batch_is_told_as_of_its_beginning_and_batches_rest_longer_each_time() {
        let (_sender, socket) = reader(64 << 10);
        let mut batches = Batches::new(MOST);
        let mut rests = Vec::new();
        for began_ns in [0, 1 << 40] {
            batches.turn(&socket, true);
            assert_eq!(
                batches.took(&socket, BATCH_BYTES, (began_ns, began_ns + 9)),
                began_ns + 9
            );
            let now_ns = began_ns + SPAN_NS;
            assert_eq!(batches.took(&socket, 1000, (began_ns, now_ns)), began_ns);
            assert!(!batches.on);
            rests.push(batches.resume_ns - now_ns);
            // Without batches a read tells when it ends.
            assert_eq!(batches.took(&socket, 1000, (began_ns, now_ns)), now_ns);
        }
        assert_eq!(rests, [PAUSE_LEAST_NS, 2 * PAUSE_LEAST_NS]);
    }
}
