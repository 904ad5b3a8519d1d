//! A process of `longhaul watch`, whose log is read line by line.

use crate::support::Folder;
use longhaul_sys::signal::{Signal, send_signal};
use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdout, Command, Stdio};

pub struct WatchAgent {
    pub child: Child,
    log: BufReader<ChildStdout>,
    /// The log so far.
    pub read: String,
}

impl WatchAgent {
    /// Starts the agent of `watch.toml` in the folder.
    pub fn start(folder: &Folder, options: &[&str]) -> WatchAgent {
        let mut child = Command::new(env!("CARGO_BIN_EXE_longhaul"))
            .arg("watch")
            .arg(folder.file("watch.toml"))
            .args(options)
            .env_remove("LONGHAUL_TOKEN")
            .env_remove("NOTIFY_SOCKET")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the agent starts");
        let log = BufReader::new(child.stdout.take().expect("a pipe"));
        WatchAgent { child, log, read: String::new() }
    }

    /// Reads the log up to a line with these words.
    pub fn wait_for(&mut self, words: &str) -> String {
        loop {
            let mut line = String::new();
            let bytes = self.log.read_line(&mut line).expect("a line");
            assert!(bytes > 0, "the agent ended before {words:?}: {}", self.read);
            self.read.push_str(&line);
            if line.contains(words) {
                return line;
            }
        }
    }

    pub fn signal(&self, signal: Signal) {
        send_signal(self.child.id(), signal).expect("it runs");
    }
}

impl Drop for WatchAgent {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
