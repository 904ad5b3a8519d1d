//! Pipes that are fed or drained at a limited rate.

use std::io::{Read, Write};
use std::process::{ChildStdin, ChildStdout};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use xtask::TaskResult;

/// The block size for feeding and draining pipes, in bytes.
const BLOCK_BYTES: usize = 256 << 10;

/// Feeds a pipe at a limited rate.
pub struct PipeFeeder(JoinHandle<std::io::Result<()>>);

impl PipeFeeder {
    pub fn start(into: Option<ChildStdin>, bytes_per_second: u64, bytes: u64) -> PipeFeeder {
        PipeFeeder(std::thread::spawn(move || {
            let mut into = into.ok_or(std::io::ErrorKind::BrokenPipe)?;
            let pace = BytePacer::new(bytes_per_second);
            let piece = vec![0x5a; BLOCK_BYTES];
            for done in (0..bytes).step_by(BLOCK_BYTES) {
                into.write_all(&piece)?;
                pace.wait_for(done + BLOCK_BYTES as u64);
            }
            Ok(())
        }))
    }

    pub fn end(self) -> TaskResult {
        join_thread(self.0)
    }
}

/// Drains a pipe at a limited rate.
pub struct PipeDrain(JoinHandle<std::io::Result<u64>>);

impl PipeDrain {
    pub fn start(from: Option<ChildStdout>, bytes_per_second: u64) -> PipeDrain {
        PipeDrain(std::thread::spawn(move || {
            let mut from = from.ok_or(std::io::ErrorKind::BrokenPipe)?;
            let pace = BytePacer::new(bytes_per_second);
            let mut piece = vec![0; BLOCK_BYTES];
            let mut bytes = 0;
            loop {
                match from.read(&mut piece)? {
                    0 => return Ok(bytes),
                    count => bytes += count as u64,
                }
                pace.wait_for(bytes);
            }
        }))
    }

    /// Returns the number of bytes drained.
    pub fn end(self) -> Result<u64, String> {
        join_thread(self.0)
    }
}

fn join_thread<T>(thread: JoinHandle<std::io::Result<T>>) -> Result<T, String> {
    let done = thread.join().map_err(|_| "a pipe's thread failed")?;
    done.map_err(|e| format!("a pipe: {e}"))
}

/// Limits the bytes that have passed at any time.
struct BytePacer {
    begun: Instant,
    bytes_per_second: f64,
}

impl BytePacer {
    fn new(bytes_per_second: u64) -> BytePacer {
        BytePacer { begun: Instant::now(), bytes_per_second: bytes_per_second as f64 }
    }

    fn wait_for(&self, bytes: u64) {
        let due = Duration::from_secs_f64(bytes as f64 / self.bytes_per_second);
        std::thread::sleep(due.saturating_sub(self.begun.elapsed()));
    }
}
