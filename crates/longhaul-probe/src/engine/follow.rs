//! A reader that goes where its bytes are.
//!
//! Between two programs of one machine the sender's own call carries each packet up to the receiving
//! socket, so that the bytes stand in the caches of the sender's core. A reader on that core takes
//! them from there; one on another core costs nearly twice as much and is no faster, and several
//! that wake up for one sender slow it down by half.
//!
//! Only for packets that no network card delivered, and only to cores that this thread was allowed
//! from its beginning. Where the far end is a longhaul on this machine, both ends are placed once
//! and nobody follows.
//!
//! Wrong when: a card's driver does without NAPI; then the reader shares the core of its
//! interrupts.

use longhaul_sys::{sched, sockopt};
use std::net::TcpStream;

/// How often the reader looks where its sender is. Whenever the sender is woken while the reader
/// has its core, the scheduler moves it to an idle one, many times a second: a reader that looked
/// only every 50 ms was found on the wrong core most of the time.
const EVERY_NS: u64 = 1_000_000;

#[derive(Debug)]
pub(super) struct Follower {
    allowed: Vec<usize>,
    at: Option<usize>,
    due_ns: u64,
}

impl Follower {
    /// `None`: the packets of the socket come from elsewhere, or nobody knows.
    pub fn new(socket: &TcpStream) -> Option<Follower> {
        let local = sockopt::came_by_card(socket).is_ok_and(|by_card| !by_card);
        let allowed = sched::allowed_cores().ok()?;
        (local && allowed.len() > 1).then_some(Follower {
            allowed,
            at: None,
            due_ns: 0,
        })
    }

    /// Moves the calling thread, when it is time to look and the packets come from another core.
    pub fn look(&mut self, socket: &TcpStream, now_ns: u64) {
        if now_ns < self.due_ns {
            return;
        }
        self.due_ns = now_ns + EVERY_NS;
        let core = sockopt::incoming_core(socket).ok();
        let core = core.filter(|core| self.at != Some(*core) && self.allowed.contains(core));
        if let Some(core) = core {
            // Refused, it reads from where it is.
            let _ = sched::pin_to_core(core);
            self.at = Some(core);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::TcpListener;

    #[test]
    fn a_reader_of_the_loopback_goes_to_the_core_of_its_sender() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
        let address = listener.local_addr().expect("an address");
        let mut sender = TcpStream::connect(address).expect("a connection");
        let (mut reader, _) = listener.accept().expect("a connection");
        sender.write_all(b"x").expect("sent");
        reader.read_exact(&mut [0]).expect("received");
        let core = sockopt::incoming_core(&reader).expect("a core");
        let alone = sched::allowed_cores().expect("cores").len() == 1;
        let reading = std::thread::spawn(move || {
            let mut follower = Follower::new(&reader)?;
            follower.look(&reader, 0);
            sched::allowed_cores().ok()
        });
        let known = sockopt::came_by_card(&sender).is_ok();
        let expected = (known && !alone).then(|| vec![core]);
        assert_eq!(reading.join().expect("the reader"), expected);
    }
}
