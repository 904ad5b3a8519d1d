//! The engine thread: reads what hosts send, waits, and writes what is due. One thread, no
//! spinning.
//!
//! The engine uses only nominal times; this thread maps them to the real clock. Every write records
//! how late it is.

use super::{DriverStarted, EnginePort, LabReading, LatenessHistogram};
use crate::emulation_engine::{EmulationEngine, LabHost, Nanos};
use longhaul_sys::{poll, sched};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError};
use std::time::{Duration, Instant};

/// The number of deliveries before hosts are read again, and of reads of one host before the other.
const DELIVERIES_PER_TURN: usize = 64;
const READS_PER_TURN: usize = 8;
/// The number of busy turns between two checks of hosts that had nothing to read.
const TURNS_PER_LOOK: u32 = 4;
const FIFO_PRIORITY: i32 = 10;
const FAIR_SLICE: Duration = Duration::from_micros(100);

pub(super) enum DriverOrder {
    Report(SyncSender<LabReading>),
    Stop,
}

pub(super) struct EngineDriver {
    engine: EmulationEngine,
    ports: [EnginePort; 2],
    wake: Arc<OwnedFd>,
    orders: Receiver<DriverOrder>,
    start: Instant,
    lateness: LatenessHistogram,
    refused: u64,
    overrun: u64,
    /// Hosts that may have something to read.
    ready: [bool; 2],
    /// The nominal time of the last packet of each host, which keeps its packets in order.
    sent: [Nanos; 2],
}

const HOSTS: [LabHost; 2] = [LabHost::Near, LabHost::Far];

impl EngineDriver {
    pub(super) fn new(
        engine: EmulationEngine,
        ports: [EnginePort; 2],
        wake: Arc<OwnedFd>,
        orders: Receiver<DriverOrder>,
    ) -> EngineDriver {
        EngineDriver {
            engine,
            ports,
            wake,
            orders,
            start: Instant::now(),
            lateness: LatenessHistogram::default(),
            refused: 0,
            overrun: 0,
            ready: [true; 2],
            sent: [0; 2],
        }
    }

    pub(super) fn run(mut self, started: &DriverStarted) {
        let caveat = raise_priority().err();
        self.start = Instant::now();
        // The receiver is gone only if it gave up waiting.
        let _ = started.send(caveat);
        let mut turns: u32 = 0;
        loop {
            turns = turns.wrapping_add(1);
            let more_due = self.deliver();
            let more_read = self.read_packets();
            let busy = more_due || more_read;
            let timeout = if busy { Some(Duration::ZERO) } else { self.time_left() };
            if busy && !turns.is_multiple_of(TURNS_PER_LOOK) {
                continue;
            }
            if self.wait(timeout) && !self.execute_orders() {
                return;
            }
        }
    }

    fn now(&self) -> Nanos {
        self.start.elapsed().as_nanos() as Nanos
    }

    /// Writes what is due; returns true if there is more.
    fn deliver(&mut self) -> bool {
        let mut now = self.now();
        for _ in 0..DELIVERIES_PER_TURN {
            let Some(delivery) = self.engine.advance(now) else {
                return false;
            };
            let port = &self.ports[delivery.host as usize];
            let written = port.write(delivery.header, delivery.payload);
            self.lateness.add(now.saturating_sub(delivery.due));
            if written.is_err() {
                self.refused += 1;
            }
            now = self.start.elapsed().as_nanos() as Nanos;
        }
        true
    }

    /// Reads what hosts have sent; returns true if there may be more.
    fn read_packets(&mut self) -> bool {
        let mut any = false;
        for host in HOSTS {
            let k = host as usize;
            for _ in 0..READS_PER_TURN {
                if !self.ready[k] {
                    break;
                }
                match self.ports[k].read(self.engine.reserve()) {
                    Ok(read) => {
                        any = true;
                        let at = self.now().saturating_sub(read.age.as_nanos() as Nanos);
                        self.sent[k] = self.sent[k].max(at);
                        self.engine.accept(host, read.bytes, self.sent[k]);
                    }
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(_) => self.ready[k] = false,
                }
            }
        }
        any
    }

    /// Returns the time until the next event; `None` if there is none.
    fn time_left(&self) -> Option<Duration> {
        let due = self.engine.next_due()?;
        Some(Duration::from_nanos(due.saturating_sub(self.now())))
    }

    /// Sleeps; returns true if there are orders.
    fn wait(&mut self, timeout: Option<Duration>) -> bool {
        let [near, far] = &self.ports;
        let polled = [near.as_fd(), far.as_fd(), self.wake.as_fd()];
        let Ok([near, far, woken]) = poll::wait_readable(polled, timeout) else {
            return false;
        };
        self.ready[0] |= near;
        self.ready[1] |= far;
        woken
    }

    /// Executes the pending orders; returns false if the thread must end.
    fn execute_orders(&mut self) -> bool {
        poll::clear_wake(&*self.wake);
        loop {
            match self.orders.try_recv() {
                Ok(DriverOrder::Report(answer)) => {
                    self.overrun += self.ports.iter().map(EnginePort::drops).sum::<u64>();
                    let now = self.now();
                    let reading = LabReading {
                        truth: self.engine.truth(now),
                        lateness: self.lateness.clone(),
                        refused: self.refused,
                        overrun: self.overrun,
                    };
                    // The receiver may have given up waiting.
                    let _ = answer.try_send(reading);
                }
                Ok(DriverOrder::Stop) | Err(TryRecvError::Disconnected) => return false,
                Err(TryRecvError::Empty) => return true,
            }
        }
    }
}

/// Raises the thread's priority; the error describes the consequence if that is refused.
fn raise_priority() -> Result<(), String> {
    // Without it timers fire up to 50 us late, which the recorded lateness shows.
    let _ = sched::set_timer_slack(Duration::from_nanos(1));
    let Err(error) = sched::set_fifo(FIFO_PRIORITY) else {
        return Ok(());
    };
    let slice = sched::set_slice(FAIR_SLICE);
    let instead = if slice.is_ok() { ", using a short time slice instead" } else { "" };
    Err(format!(
        "cannot run the engine in the real-time class ({error}){instead}: packets may be \
         milliseconds late while the machine is busy"
    ))
}
