//! Sends and receives complete pieces over one data connection, measures each call, and checks the
//! halt regularly, so that a silent peer blocks no thread after the session has ended.

use super::stage_counters::StageTimer;
use super::stage_queue::CopyHalt;
use longhaul_probe::engine::is_socket_timeout;
use longhaul_sys::tcp_transfer;
use std::io::{self, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

/// Interval at which a halt is noticed.
const HALT_POLL_INTERVAL: Duration = Duration::from_millis(200);

/// A data connection of a copy.
#[derive(Debug)]
pub(super) struct DataStream<'a> {
    stream: TcpStream,
    halt: &'a CopyHalt,
    pub timer: StageTimer<'a>,
}

impl<'a> DataStream<'a> {
    pub fn new(
        stream: TcpStream,
        halt: &'a CopyHalt,
        timer: StageTimer<'a>,
    ) -> io::Result<DataStream<'a>> {
        stream.set_read_timeout(Some(HALT_POLL_INTERVAL))?;
        stream.set_write_timeout(Some(HALT_POLL_INTERVAL))?;
        Ok(DataStream { stream, halt, timer })
    }

    pub fn socket(&self) -> &TcpStream {
        &self.stream
    }

    /// Sends a piece. Returns false if the connection is unusable or a halt is set; the halt has the
    /// reason.
    pub fn send(&mut self, mut bytes: &[u8]) -> bool {
        while !bytes.is_empty() {
            if self.halt.is_set() {
                return false;
            }
            match self.timer.busy(|| self.stream.write(bytes)) {
                Ok(count) => bytes = &bytes[count..],
                Err(error) if is_socket_timeout(&error) => {}
                Err(error) => {
                    self.halt.fail_lost(format!("cannot send on a data connection: {error}"));
                    return false;
                }
            }
        }
        true
    }

    /// Receives a piece; returns false like [`DataStream::send`]. An unexpected end stops only this
    /// connection: others may still carry data that a dead peer had handed to its kernel.
    pub fn receive(&mut self, into: &mut [u8]) -> bool {
        let mut filled = 0;
        while filled < into.len() {
            if self.halt.is_set() {
                return false;
            }
            let rest = &mut into[filled..];
            match self.timer.busy(|| tcp_transfer::receive_whole(&self.stream, rest)) {
                Ok(0) => {
                    self.halt.record_lost("a data connection ended unexpectedly");
                    return false;
                }
                Ok(count) => filled += count,
                Err(error) if is_socket_timeout(&error) => {}
                Err(error) => {
                    self.halt.record_lost(format!("cannot receive on a data connection: {error}"));
                    return false;
                }
            }
        }
        true
    }
}

impl Drop for DataStream<'_> {
    fn drop(&mut self) {
        // The peer learns of the end even while the counters of this connection are still read.
        let _ = self.stream.shutdown(Shutdown::Both);
    }
}
