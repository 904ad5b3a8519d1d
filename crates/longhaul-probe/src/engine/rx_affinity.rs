//! Receive affinity: readers move to the core on which their packets arrive.
//!
//! Between two programs on one machine, the sender's call carries each packet up to the receiving
//! socket, so the bytes are in the caches of the sender's core. Several readers on other cores,
//! which wake up for one sending thread, halve its speed and cost twice as much as readers on its
//! core. Readers therefore follow a sender that feeds all of them from one core, which shows in
//! that all packets arrive there. If senders have threads on several cores, or if there is only one
//! stream, each reader does best on its own core.
//!
//! This applies only to packets that no network card delivered, and only to cores that this thread
//! was allowed to use at the start. If the peer is a longhaul on this machine, both ends are placed
//! once and readers do not move.
//!
//! Wrong when: a card's driver does not use NAPI; then the readers share the core of its
//! interrupts.

use longhaul_sys::{sched, sockopt};
use std::net::TcpStream;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

/// The interval at which a reader checks its core; the scheduler may move senders.
const CHECK_INTERVAL_NS: u64 = 5_000_000;
/// The score of an observation for and against a single sender, the maximum score, and the score
/// from which readers follow. A sender that was just moved appears on two cores for a moment.
const SCORE_FOR: i8 = 1;
const SCORE_AGAINST: i8 = -2;
const MAX_SCORE: i8 = 8;
const FOLLOW_SCORE: i8 = 4;
/// The core of a stream that has received no packet yet.
const NO_CORE: usize = usize::MAX;

/// The core on which the packets of each stream arrive, as last seen by its reader.
#[derive(Debug)]
pub(super) struct RxCores(Vec<AtomicUsize>);

impl RxCores {
    pub fn new(streams: usize) -> RxCores {
        RxCores((0..streams).map(|_| AtomicUsize::new(NO_CORE)).collect())
    }

    /// Stores the core of one stream; returns whether all streams have the same core.
    fn store(&self, stream: usize, core: usize) -> bool {
        self.0[stream].store(core, Relaxed);
        self.0.iter().all(|other| other.load(Relaxed) == core)
    }
}

/// The affinity of one stream's reader.
#[derive(Debug)]
pub(super) struct RxAffinity<'a> {
    rx_cores: &'a RxCores,
    stream: usize,
    allowed: Vec<usize>,
    pinned_core: Option<usize>,
    one_sender: i8,
    due_ns: u64,
}

impl<'a> RxAffinity<'a> {
    /// Returns `None` if there is only one stream, or if its packets may come from a card.
    pub fn new(
        entrances: &'a RxCores,
        stream: usize,
        socket: &TcpStream,
    ) -> Option<RxAffinity<'a>> {
        if entrances.0.len() < 2 {
            return None;
        }
        let local = sockopt::received_by_nic(socket).is_ok_and(|by_card| !by_card);
        let allowed = sched::allowed_cores().ok()?;
        (local && allowed.len() > 1).then_some(RxAffinity {
            rx_cores: entrances,
            stream,
            allowed,
            pinned_core: None,
            one_sender: 0,
            due_ns: 0,
        })
    }

    /// If due, moves the calling thread to the core on which the packets arrive, or returns it to
    /// the scheduler.
    pub fn update(&mut self, socket: &TcpStream, now_ns: u64) {
        if now_ns < self.due_ns {
            return;
        }
        self.due_ns = now_ns + CHECK_INTERVAL_NS;
        let Ok(core) = sockopt::receive_core(socket) else {
            return;
        };
        let alike = self.rx_cores.store(self.stream, core);
        let counts = if alike { SCORE_FOR } else { SCORE_AGAINST };
        self.one_sender = (self.one_sender + counts).clamp(0, MAX_SCORE);
        match self.one_sender {
            0 => self.pin(None),
            FOLLOW_SCORE.. if self.allowed.contains(&core) => self.pin(Some(core)),
            _ => {}
        }
    }

    /// Pins the thread; if the kernel refuses, it stays on its core.
    fn pin(&mut self, to: Option<usize>) {
        if self.pinned_core == to {
            return;
        }
        self.pinned_core = to;
        let _ = match to {
            Some(core) => sched::pin_to_core(core),
            None => sched::pin_to_cores(&self.allowed),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::TcpListener;

    /// Returns a loopback connection on which a byte has arrived, and the core it came from.
    fn connection(listener: &TcpListener) -> (TcpStream, TcpStream, usize) {
        let address = listener.local_addr().expect("an address");
        let mut sender = TcpStream::connect(address).expect("a connection");
        let (mut reader, _) = listener.accept().expect("a connection");
        sender.write_all(b"x").expect("sent");
        reader.read_exact(&mut [0]).expect("received");
        let core = sockopt::receive_core(&reader).expect("a core");
        (sender, reader, core)
    }

    /// Returns the cores allowed to the first reader of `streams` after enough looks: while all
    /// packets arrive on its own core, then while those of the others arrive elsewhere.
    fn looks(streams: usize) -> Option<(Vec<usize>, Vec<usize>, usize)> {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
        let (_sender, reader, core) = connection(&listener);
        let entrances = RxCores::new(streams);
        let reading = std::thread::spawn(move || {
            let mut follower = RxAffinity::new(&entrances, 0, &reader)?;
            let mut allowed_after = |others: usize, from_ns: u64| {
                for stream in 1..streams {
                    entrances.store(stream, others);
                }
                (0..MAX_SCORE as u64).for_each(|look| {
                    follower.update(&reader, from_ns + look * CHECK_INTERVAL_NS);
                });
                sched::allowed_cores().ok()
            };
            let alike = allowed_after(core, 0)?;
            let apart = allowed_after(core + 1, 1 << 40)?;
            Some((alike, apart, core))
        });
        reading.join().expect("the reader")
    }

    #[test]
    fn readers_of_one_sender_go_to_its_core_and_those_of_several_do_not() {
        let allowed = sched::allowed_cores().expect("cores");
        let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
        let known = sockopt::received_by_nic(&connection(&listener).0).is_ok();
        let Some((alike, apart, core)) = looks(2) else {
            assert!(!known || allowed.len() == 1, "nobody followed");
            return;
        };
        assert_eq!((alike, apart), (vec![core], allowed));
    }

    #[test]
    fn a_single_reader_stays_where_the_scheduler_has_it() {
        assert_eq!(looks(1), None);
    }
}
