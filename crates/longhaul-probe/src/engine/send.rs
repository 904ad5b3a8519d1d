//! One stream's sender: blocking writes of a repeated payload, or references to its pages.
//!
//! The zero-copy sender fills a pipe with references (vmsplice) and moves them to the socket
//! (splice). Where the pipe cannot be had, sendfile of a file in memory does nearly as well; where
//! that fails too, plain writes. Each step down is told as a caveat.

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

/// A blocked write comes back this often to see whether the run is over.
pub(super) const TICK: Duration = Duration::from_millis(50);
/// An application that is paced may catch up this much after it came late.
const CREDIT: Duration = Duration::from_millis(20);
const FILE_BYTES: usize = 512 << 10;

/// How payload gets into the socket.
#[derive(Debug)]
pub(super) enum Mover {
    Write(Gather),
    Splice {
        payload: Gather,
        pipe: Pipe,
        /// In the pipe, not yet in the socket.
        waiting: usize,
    },
    File(File),
}

impl Mover {
    /// The mover for one stream; a caveat when it is not the one that was asked for.
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

    /// Moves up to `bytes` from byte `position` of the stream.
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
                let moved = pipe.drain(socket, *waiting, more)?;
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
    pub asked: &'a dyn Fn(u64),
}

impl TcpSender<'_> {
    /// Writes until the stop rule is met, an error comes, or the run is stopped.
    pub fn run(mut self) -> io::Result<()> {
        self.meter.begin();
        let mut pace = self
            .choice
            .write_rate
            .map(|rate| Pace::new(rate, CREDIT, self.meter.now_ns()));
        let mut armed = false;
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
            self.write_block(block, &mut armed)?;
            if let Some(pace) = &mut pace {
                pace.passed(block);
            }
        }
        if self.stop.drains() && !self.stop.stopped() {
            self.socket.shutdown(Shutdown::Write)?;
        }
        Ok(())
    }

    /// Writes one block whole, unless the run ends first.
    fn write_block(&mut self, block: usize, armed: &mut bool) -> io::Result<()> {
        let mut left = block;
        while left > 0 {
            self.arm_for_deadline(armed)?;
            match self.mover.push(self.socket, self.meter.position(), left) {
                Ok(bytes) => {
                    left -= bytes;
                    self.meter.moved(bytes);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.meter.waited(),
                Err(error) => {
                    self.stop.give_back(left);
                    return Err(error);
                }
            }
            (self.asked)(self.meter.now_ns());
            if left > 0 && self.stop.over(self.meter.now_ns()) {
                break;
            }
        }
        self.meter.completed(1);
        Ok(())
    }

    /// Less than a tick before the deadline, a blocked write must come back sooner.
    fn arm_for_deadline(&mut self, armed: &mut bool) -> io::Result<()> {
        let left_ns = self.stop.deadline_ns().saturating_sub(self.meter.now_ns());
        if !*armed && left_ns < TICK.as_nanos() as u64 {
            *armed = true;
            let left = Duration::from_nanos(left_ns).max(Duration::from_millis(1));
            sockopt::set_send_timeout(self.socket, left)?;
        }
        Ok(())
    }
}
