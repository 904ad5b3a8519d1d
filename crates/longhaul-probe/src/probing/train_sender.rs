//! Sends a train on its schedule.
//!
//! Within a train the thread sleeps, and wakes so early that it is in time; the rest it busy-waits on
//! the monotonic clock. Between trains it sleeps. The recorded send times are those of the clock just
//! before each call, not of the schedule: a preempted thread shows as a gap.

use super::{DatagramKind, HEADER_BYTES, PacketSchedule, ProbeDatagramHeader, micro_burst_packets};
use crate::engine::{RunClock, is_queue_full, payload_byte};
use crate::wire::{PacketTimes, SentTrain};
use longhaul_model::report::v1::available::TrainPlan;
use longhaul_sys::udp_batch;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Length after which the padding repeats.
const POOL_BYTES: usize = 64 << 10;
/// The end of each wait that is not slept: as long as this host lately woke too late, and at first and
/// at most the second of these. Waits of less than twice that are not slept at all.
const WAKE_EARLY: [Duration; 2] = [Duration::from_micros(20), Duration::from_micros(250)];
/// The share of the margin that a wait without lateness leaves.
const MARGIN_DECAY: f64 = 0.9;
/// The margin for a host that woke late, as a ratio of the lateness.
const LATENESS_MARGIN: f64 = 1.3;
/// Slices in which a pause is slept, so that a stop is noticed.
const STOP_POLL_INTERVAL: Duration = Duration::from_millis(50);
/// Time limit of each call while this host's queue is full.
const MAX_SEND_WAIT: Duration = Duration::from_millis(500);

/// Returns the size of the IP and UDP headers of a probe.
pub(super) fn headers_bytes(peer: SocketAddr) -> usize {
    match peer.ip().to_canonical() {
        ip if ip.is_ipv4() => 28,
        _ => 48,
    }
}

/// Returns the payload size of a probe of this many IP bytes.
pub(super) fn payload_bytes(packet_bytes: u32, peer: SocketAddr) -> usize {
    (packet_bytes as usize).saturating_sub(headers_bytes(peer)).max(HEADER_BYTES)
}

/// Sends trains over one flow.
pub(super) struct TrainSender {
    socket: UdpSocket,
    peer: SocketAddr,
    session: u64,
    clock: RunClock,
    pool: Vec<u8>,
    buffer: Vec<u8>,
    wake_early: Duration,
}

impl TrainSender {
    /// Creates a sender on a connected socket. `session` is the number in the datagram headers.
    pub fn new(socket: &UdpSocket, session: u64, clock: RunClock) -> io::Result<TrainSender> {
        let socket = socket.try_clone()?;
        let peer = socket.peer_addr()?;
        Ok(TrainSender {
            socket,
            peer,
            session,
            clock,
            pool: (0..POOL_BYTES as u64).map(payload_byte).collect(),
            buffer: Vec::new(),
            wake_early: WAKE_EARLY[1],
        })
    }

    /// Pauses as planned, then sends the train.
    pub fn send(&mut self, train: &TrainPlan, stop: &AtomicBool) -> SentTrain {
        let mut sent_ns = Vec::with_capacity(train.packets as usize);
        let spoilt = self.send_packets(train, stop, &mut sent_ns).err();
        let times: Vec<_> = sent_ns.into_iter().map(Some).collect();
        SentTrain {
            index: train.index,
            micro_burst_packets: micro_burst_packets(train),
            times: PacketTimes::encode(&times),
            spoilt,
        }
    }

    /// Sends the packets of a train, and records the time of each.
    ///
    /// # Errors
    /// The reason why the train is unusable.
    fn send_packets(
        &mut self,
        train: &TrainPlan,
        stop: &AtomicBool,
        sent_ns: &mut Vec<u64>,
    ) -> Result<(), String> {
        let burst = micro_burst_packets(train);
        if !sleep_unless_stopped(Duration::from_micros(train.pause_us), stop) {
            return Err("stopped before it was sent".to_owned());
        }
        let bytes = payload_bytes(train.packet_bytes, self.peer);
        self.buffer.resize(bytes * burst as usize, 0);
        let mut due = PacketSchedule::for_train(train);
        let mut start = Instant::now();
        while sent_ns.len() < train.packets as usize {
            let left = train.packets as usize - sent_ns.len();
            let count = left.min(burst as usize);
            let mut at = 0;
            // A micro-burst is sent when its last packet is due.
            for _ in 0..count {
                at = due.next_due_ns();
            }
            self.fill_padding(sent_ns.len(), count, bytes);
            self.wait_until(start + Duration::from_nanos(at));
            if sent_ns.is_empty() {
                // A delay of the first packet must not shorten the next gap.
                let early = Instant::now().checked_sub(Duration::from_nanos(at));
                start = early.unwrap_or(start);
            }
            if stop.load(Ordering::Relaxed) {
                return Err("stopped while it was sent".to_owned());
            }
            if let Err(error) = self.send_batch(train, count, bytes, sent_ns) {
                let number = sent_ns.len();
                return Err(format!("the sender cannot send packet {number}: {error}"));
            }
        }
        Ok(())
    }

    fn wait_until(&mut self, at: Instant) {
        let left = at.saturating_duration_since(Instant::now());
        if left > 2 * self.wake_early {
            let asleep = left.saturating_sub(self.wake_early);
            let begun = Instant::now();
            std::thread::sleep(asleep);
            self.wake_early =
                choose_margin(self.wake_early, begun.elapsed().saturating_sub(asleep));
        }
        while Instant::now() < at {
            std::hint::spin_loop();
        }
    }

    /// Fills the next packets with padding before they are due.
    fn fill_padding(&mut self, first: usize, count: usize, bytes: usize) {
        for (place, datagram) in self.buffer.chunks_mut(bytes).take(count).enumerate() {
            let from = (first + place) * 61 % (POOL_BYTES - bytes);
            datagram.copy_from_slice(&self.pool[from..from + bytes]);
        }
    }

    /// Sends `count` packets with one call.
    fn send_batch(
        &mut self,
        train: &TrainPlan,
        count: usize,
        bytes: usize,
        sent: &mut Vec<u64>,
    ) -> io::Result<()> {
        let now_ns = self.clock.now_ns();
        for (place, datagram) in self.buffer.chunks_mut(bytes).take(count).enumerate() {
            ProbeDatagramHeader {
                kind: DatagramKind::Train,
                session: self.session,
                train: train.index,
                index: (sent.len() + place) as u32,
                sent_ns: now_ns,
                there_received_ns: 0,
                there_sent_ns: 0,
            }
            .write(datagram);
        }
        let mut gone = 0;
        let deadline = Instant::now() + MAX_SEND_WAIT;
        while gone < count {
            let rest = &self.buffer[gone * bytes..count * bytes];
            let now_ns = self.clock.now_ns();
            let taken = if count == 1 {
                self.socket.send(rest).map(|_| 1)
            } else {
                udp_batch::send_many(&self.socket, rest, bytes)
            };
            match taken {
                Ok(taken) => {
                    sent.extend(std::iter::repeat_n(now_ns, taken));
                    gone += taken;
                }
                Err(error) if is_queue_full(&error) && Instant::now() < deadline => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// Returns how early to wake next time, after a sleep that ended this late.
fn choose_margin(margin: Duration, lateness: Duration) -> Duration {
    let [least, most] = WAKE_EARLY;
    margin.mul_f64(MARGIN_DECAY).max(lateness.mul_f64(LATENESS_MARGIN)).clamp(least, most)
}

/// Sleeps; returns false if stopped meanwhile.
fn sleep_unless_stopped(pause: Duration, stop: &AtomicBool) -> bool {
    let end = Instant::now() + pause;
    loop {
        if stop.load(Ordering::Relaxed) {
            return false;
        }
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return true;
        }
        std::thread::sleep(left.min(STOP_POLL_INTERVAL));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_margin_follows_the_lateness_of_the_host_within_its_bounds() {
        let micros = Duration::from_micros;
        let settled = (0..60).fold(WAKE_EARLY[1], |margin, _| choose_margin(margin, micros(60)));
        assert_eq!(settled, micros(78));
        assert_eq!(choose_margin(settled, micros(10_000)), WAKE_EARLY[1]);
        assert_eq!(
            (0..60).fold(settled, |margin, _| choose_margin(margin, micros(0))),
            WAKE_EARLY[0]
        );
    }
}
