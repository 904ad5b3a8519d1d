//! The writer of a log: a bounded queue and a thread of its own, so that a reader that stops reading
//! holds up nothing else.

use crate::event_log::{self, LogFormat, LogLevel};
use serde_json::json;
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

/// The maximum number of lines that wait to be written.
const MAX_QUEUED_LINES: usize = 1024;
/// The time that the writer has for the last lines when the program ends.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(1);
/// The interval between attempts to enter a full queue when the program ends.
const FLUSH_POLL: Duration = Duration::from_millis(5);

enum LogEntry {
    Line(String),
    /// Answered when all earlier lines are written.
    Flush(SyncSender<()>),
}

/// The stream that a log is written to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogStream {
    Stdout,
    Stderr,
}

/// Writes the lines of a log in a thread of its own. The last lines are written when it is dropped.
#[derive(Debug)]
pub struct LogWriter {
    entries: SyncSender<LogEntry>,
    /// The number of lines that found the queue full and are not reported yet.
    lost: Arc<AtomicU64>,
}

impl LogWriter {
    /// Starts the thread. `format` is that of the line that reports lost ones.
    pub fn start(stream: LogStream, format: LogFormat) -> LogWriter {
        LogWriter::start_with(format, move |line| write_to_stream(stream, line))
    }

    fn start_with(format: LogFormat, write: impl FnMut(&str) + Send + 'static) -> LogWriter {
        let (entries, queue) = sync_channel(MAX_QUEUED_LINES);
        let lost = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&lost);
        // Without the thread all lines are lost, and the program continues.
        let _ = thread::Builder::new()
            .name("log".to_owned())
            .spawn(move || write_entries(&queue, format, &counted, write));
        LogWriter { entries, lost }
    }

    /// Queues text that ends with a line end. If the queue is full, it is lost and counted.
    pub fn write_line(&self, line: String) {
        if self.entries.try_send(LogEntry::Line(line)).is_err() {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Waits for the queued lines to be written, but not for a reader that does not read.
    pub fn flush(&self) {
        let deadline = Instant::now() + FLUSH_TIMEOUT;
        let (done, written) = sync_channel(1);
        while let Err(TrySendError::Full(_)) = self.entries.try_send(LogEntry::Flush(done.clone()))
        {
            if Instant::now() >= deadline {
                return;
            }
            thread::sleep(FLUSH_POLL);
        }
        drop(done);
        let _ = written.recv_timeout(deadline.saturating_duration_since(Instant::now()));
    }
}

impl Drop for LogWriter {
    fn drop(&mut self) {
        self.flush();
    }
}

fn write_entries(
    queue: &Receiver<LogEntry>,
    format: LogFormat,
    lost: &AtomicU64,
    mut write: impl FnMut(&str),
) {
    for entry in queue {
        match entry {
            LogEntry::Line(line) => write(&line),
            LogEntry::Flush(done) => {
                // Whoever asked may have stopped waiting.
                let _ = done.send(());
            }
        }
        let count = lost.swap(0, Ordering::Relaxed);
        if count > 0 {
            write(&format_lost_lines(format, count));
        }
    }
}

fn format_lost_lines(format: LogFormat, count: u64) -> String {
    let text = format!("{count} lines of this log are lost: its reader is too slow");
    match format {
        LogFormat::Text => format!("{text}\n"),
        format => {
            let fields = json!({ "event": "log_lines_lost", "lines": count });
            event_log::format_event_line(format, LogLevel::Warn, &text, fields) + "\n"
        }
    }
}

/// Writes to the stream. If it is closed, the log is lost and the program continues.
fn write_to_stream(stream: LogStream, line: &str) {
    let _ = match stream {
        LogStream::Stdout => {
            let mut out = anstream::stdout().lock();
            out.write_all(line.as_bytes()).and_then(|()| out.flush())
        }
        LogStream::Stderr => anstream::stderr().lock().write_all(line.as_bytes()),
    };
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[test]
    fn a_reader_that_stops_reading_holds_up_nobody_and_learns_what_it_lost() {
        let (open, gate) = mpsc::channel::<()>();
        let (sender, written) = mpsc::channel();
        let log = LogWriter::start_with(LogFormat::Text, move |line| {
            // The writer waits here as it would for a full pipe.
            let _ = gate.recv();
            let _ = sender.send(line.to_owned());
        });
        // This returns, although nothing is written yet.
        for number in 0..10_000 {
            log.write_line(format!("{number}\n"));
        }
        drop(open);
        log.flush();
        let lines: Vec<String> = written.try_iter().collect();
        let lost = lines.iter().filter(|line| line.contains(" are lost")).count();
        assert!(lines.len() <= MAX_QUEUED_LINES + 2 && lost == 1, "{} {lost}", lines.len());
        assert_eq!(lines[0], "0\n");
    }
}
