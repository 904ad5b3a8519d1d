//! Whole pieces over one data connection, with a look at the halt every now and then: a peer that
//! says nothing holds nobody once the session is over.

use super::queue::Halt;
use longhaul_sys::tcp;
use std::io::{self, Write};
use std::net::TcpStream;
use std::time::Duration;

/// How long a halt may go unnoticed.
const TURN: Duration = Duration::from_millis(200);

/// A data connection of a copy.
#[derive(Debug)]
pub(super) struct DataStream<'a> {
    stream: TcpStream,
    halt: &'a Halt,
}

/// What becomes of a piece.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Moved {
    Whole,
    /// The connection is of no use any more, or all is over; the halt knows why.
    Over,
}

impl<'a> DataStream<'a> {
    pub fn new(stream: TcpStream, halt: &'a Halt) -> io::Result<DataStream<'a>> {
        stream.set_read_timeout(Some(TURN))?;
        stream.set_write_timeout(Some(TURN))?;
        Ok(DataStream { stream, halt })
    }

    pub fn socket(&self) -> &TcpStream {
        &self.stream
    }

    pub fn send(&mut self, mut bytes: &[u8]) -> Moved {
        while !bytes.is_empty() {
            if self.halt.is_set() {
                return Moved::Over;
            }
            match self.stream.write(bytes) {
                Ok(count) => bytes = &bytes[count..],
                Err(error) if is_turn(&error) => {}
                Err(error) => {
                    self.halt
                        .lose(format!("cannot send on a data connection: {error}"));
                    return Moved::Over;
                }
            }
        }
        Moved::Whole
    }

    /// An end in the middle ends this connection alone: those beside it may still carry what a peer
    /// that died had handed to its kernel.
    pub fn receive(&mut self, into: &mut [u8]) -> Moved {
        let mut filled = 0;
        while filled < into.len() {
            if self.halt.is_set() {
                return Moved::Over;
            }
            match tcp::receive_whole(&self.stream, &mut into[filled..]) {
                Ok(0) => {
                    self.halt.note_lost("a data connection ended in the middle");
                    return Moved::Over;
                }
                Ok(count) => filled += count,
                Err(error) if is_turn(&error) => {}
                Err(error) => {
                    self.halt
                        .note_lost(format!("cannot receive on a data connection: {error}"));
                    return Moved::Over;
                }
            }
        }
        Moved::Whole
    }
}

fn is_turn(error: &io::Error) -> bool {
    use io::ErrorKind::{Interrupted, TimedOut, WouldBlock};
    matches!(error.kind(), Interrupted | TimedOut | WouldBlock)
}
