//! The sender of one TCP stream: blocking writes of a repeated payload, or page references.
//!
//! The zero-copy sender fills a pipe with references (vmsplice) and moves them to the socket
//! (splice). Without a pipe, sendfile of a file in memory is almost as fast; if that fails too,
//! plain writes are used. Each fallback adds a caveat.

use super::Ending;
use super::choice::Choice;
use super::counters::{Meter, RunClock};
use super::pace::Pace;
use super::stop::StopRule;
use longhaul_model::report::v1::Caveat;
use longhaul_sys::region::{self, Gather, Region};
use longhaul_sys::splice::{self, Pipe};
use longhaul_sys::{sockopt, tcp};
use std::fs::File;
use std::io;
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::time::Duration;

/// The timeout of a blocked write, after which the stop rule is checked.
pub(super) const TICK: Duration = Duration::from_millis(50);
/// The time limit for completing the last block of a stream that is left open.
const FILL_TIME: Duration = Duration::from_millis(500);
/// The maximum time that a late paced application may catch up.
const CREDIT: Duration = Duration::from_millis(20);
const FILE_BYTES: usize = 512 << 10;

/// The method that moves payload into the socket.
#[derive(Debug)]
pub(super) enum Mover {
    Write(Gather),
    Splice {
        payload: Gather,
        pipe: Pipe,
        /// Bytes that are in the pipe and not yet in the socket.
        waiting: usize,
    },
    File(File),
}

impl Mover {
    /// Returns the mover for one stream, and a caveat if it is a fallback.
    pub fn new(payload: &Arc<Region>, zero_copy: bool, choice: &Choice) -> (Mover, Option<Caveat>) {
        let gather = || Gather::new(Arc::clone(payload), choice.write_bytes);
        if !zero_copy {
            return (Mover::Write(gather()), None);
        }
        let refused = match Pipe::new(choice.pipe_bytes) {
            Ok(pipe) => {
                let mover = Mover::Splice {
                    payload: gather(),
                    pipe,
                    waiting: 0,
                };
                return (mover, None);
            }
            Err(refused) => refused,
        };
        match region::memory_file(payload, FILE_BYTES) {
            Ok(file) => (
                Mover::File(file),
                Some(Caveat::new(
                    "zero_copy_sendfile",
                    format!("no pipe for vmsplice ({refused}): sent by sendfile instead"),
                )),
            ),
            Err(error) => (
                Mover::Write(gather()),
                Some(Caveat::new(
                    "zero_copy_unavailable",
                    format!("no pipe ({refused}) and no file in memory ({error}): sent by copying"),
                )),
            ),
        }
    }

    /// Moves up to `bytes` bytes, beginning at byte `position` of the stream.
    fn push(&mut self, socket: &TcpStream, position: u64, bytes: usize) -> io::Result<usize> {
        match self {
            Mover::Write(payload) => tcp::send(socket, payload, position, bytes),
            Mover::File(file) => {
                let offset = position % FILE_BYTES as u64;
                let most = bytes.min(FILE_BYTES - offset as usize);
                splice::send_file(socket, file, offset, most)
            }
            Mover::Splice {
                payload,
                pipe,
                waiting,
            } => {
                if *waiting == 0 {
                    let most = bytes.min(pipe.capacity_bytes());
                    *waiting = pipe.fill(payload, position, most)?;
                }
                let more = *waiting < bytes;
                let moved = pipe.drain(socket, bytes.min(*waiting), more)?;
                *waiting -= moved;
                Ok(moved)
            }
        }
    }
}

/// One sending stream.
pub(super) struct TcpSender<'a> {
    pub socket: &'a TcpStream,
    pub mover: Mover,
    pub meter: Meter<'a>,
    pub clock: RunClock,
    pub stop: &'a StopRule,
    pub choice: &'a Choice,
    pub ending: Ending,
    pub asked: &'a dyn Fn(u64),
}

/// The time at which writing ends, even if data is left.
struct Until {
    at_ns: u64,
    /// The write timeout has been shortened to meet `at_ns`.
    armed: bool,
}

impl TcpSender<'_> {
    /// Writes until the stop rule is met, an error occurs, or the run is stopped.
    pub fn run(mut self) -> io::Result<()> {
        self.meter.begin();
        let mut pace = self
            .choice
            .write_rate
            .map(|rate| Pace::new(rate, CREDIT, self.meter.now_ns()));
        let mut until = Until {
            at_ns: self.stop.deadline_ns(),
            armed: false,
        };
        while !self.stop.over(self.meter.now_ns()) {
            if let Some(pace) = &mut pace {
                if !pace.wait(self.clock, self.stop) {
                    break;
                }
                self.meter.paused();
            }
            let block = self.stop.claim(self.choice.write_bytes, 1);
            if block == 0 {
                break;
            }
            let mut left = block;
            if let Err(error) = self.write(&mut left, &mut until) {
                self.stop.give_back(left);
                return Err(error);
            }
            self.meter.completed(1);
            if let Some(pace) = &mut pace {
                pace.passed(block);
            }
        }
        self.leave()
    }

    fn leave(&mut self) -> io::Result<()> {
        if self.stop.stopped() {
            return Ok(());
        }
        match self.ending {
            Ending::HalfClosed if self.stop.drains() => self.socket.shutdown(Shutdown::Write),
            Ending::HalfClosed => Ok(()),
            Ending::Open { block_bytes } => self.fill_block(block_bytes),
        }
    }

    /// Completes the last block, if this is possible soon.
    fn fill_block(&mut self, block_bytes: u64) -> io::Result<()> {
        let whole = self.meter.position().next_multiple_of(block_bytes.max(1));
        let mut left = (whole - self.meter.position()) as usize;
        if left == 0 {
            return Ok(());
        }
        sockopt::set_send_timeout(self.socket, TICK)?;
        let mut until = Until {
            at_ns: self.meter.now_ns() + FILL_TIME.as_nanos() as u64,
            armed: false,
        };
        self.write(&mut left, &mut until)
    }

    /// Writes `left` bytes, unless the time or the run ends first.
    fn write(&mut self, left: &mut usize, until: &mut Until) -> io::Result<()> {
        while *left > 0 {
            self.arm(until)?;
            match self.mover.push(self.socket, self.meter.position(), *left) {
                Ok(bytes) => {
                    *left -= bytes;
                    self.meter.moved(bytes);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.meter.waited(),
                Err(error) => return Err(error),
            }
            let now_ns = self.meter.now_ns();
            (self.asked)(now_ns);
            if now_ns >= until.at_ns || self.stop.stopped() {
                break;
            }
        }
        Ok(())
    }

    /// Shortens the write timeout when less than a tick is left before the deadline.
    fn arm(&self, until: &mut Until) -> io::Result<()> {
        let left_ns = until.at_ns.saturating_sub(self.meter.now_ns());
        if !until.armed && left_ns < TICK.as_nanos() as u64 {
            until.armed = true;
            let left = Duration::from_nanos(left_ns).max(Duration::from_millis(1));
            sockopt::set_send_timeout(self.socket, left)?;
        }
        Ok(())
    }
}
