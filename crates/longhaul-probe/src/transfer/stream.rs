//! Sends and receives complete pieces over one data connection, and checks the halt regularly, so
//! that a silent peer blocks no thread after the session has ended.

use super::queue::Halt;
use longhaul_sys::tcp;
use std::io::{self, Write};
use std::net::TcpStream;
use std::time::Duration;

/// Interval at which a halt is noticed.
const TURN: Duration = Duration::from_millis(200);

/// A data connection of a copy.
#[derive(Debug)]
pub(super) struct DataStream<'a> {
    stream: TcpStream,
    halt: &'a Halt,
}

/// Result of sending or receiving a piece.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Moved {
    Whole,
    /// The connection is unusable or a halt is set; the halt has the reason.
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

    /// Receives a piece. An unexpected end stops only this connection: others may still carry data
    /// that a dead peer had handed to its kernel.
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
