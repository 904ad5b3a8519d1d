//! An emulated path whose far end is free for any server.
//!
//! `longhaul lab run` sets it up and starts a `longhaul serve` there, which is ended at once,
//! because its port is needed.

use super::device_counters::HostObserver;
use crate::bench_lab::{self, BenchLab, HeldProcess};
use crate::narrow_path::NarrowPath;
use crate::scratch_folder::ScratchFolder;
use std::path::Path;
use std::process::Command;

pub const PORT: u16 = 5201;
pub const FAR_V4: &str = "10.77.0.2";
pub const FAR_V6: &str = "fd77::2";
pub const RATE_BPS: f64 = 50e6;

/// An emulated path, with observers of the devices at both ends.
#[derive(Debug)]
pub struct InteropPath {
    /// The default capacity of a connection's send buffer.
    pub window_bytes: u64,
    pub near_watch: HostObserver,
    pub far_watch: HostObserver,
    /// Keeps the far host alive, whichever server runs there.
    _holder: HeldProcess,
    /// Dropped last, because it takes the path down.
    lab: BenchLab,
}

impl InteropPath {
    /// Sets up a path of 50 Mbit/s with a queue that never overflows.
    pub fn set_up(longhaul: &Path, rtt_ms: u32) -> Result<InteropPath, String> {
        let window_bytes = compute_window_bytes(rtt_ms);
        let scratch = ScratchFolder::on_disk()?;
        let receive = format!("4096 131072 {}", 2 * window_bytes);
        let send = format!("4096 65536 {window_bytes}");
        let host = [
            ("net.ipv4.tcp_rmem", receive.as_str()),
            ("net.ipv4.tcp_wmem", &send),
            ("net.ipv4.tcp_congestion_control", "cubic"),
        ];
        let path = NarrowPath {
            title: "interop",
            rtt_ms: rtt_ms.into(),
            link: &toml::toml! { rate = "50 Mbit/s" queue = "64 MB" },
            near: &host,
            far: &host,
        };
        let file = scratch.write("path.toml", &path.path_file())?;
        let mut lab = BenchLab::set_up(longhaul, &file.to_string_lossy())?;
        let holder = lab.replace_server()?;
        Ok(InteropPath {
            window_bytes,
            near_watch: HostObserver::start(lab.near)?,
            far_watch: HostObserver::start(lab.far)?,
            _holder: holder,
            lab,
        })
    }

    /// Returns a command at the near host.
    pub fn near(&self, words: &[String]) -> Command {
        bench_lab::command_at_host(self.lab.near, words)
    }

    /// Returns a command at the far host.
    pub fn far(&self, words: &[String]) -> Command {
        bench_lab::command_at_host(self.lab.far, words)
    }

    /// Waits until the port at the far host is open.
    pub fn wait_for_listener(&self) -> Result<(), String> {
        bench_lab::wait_until_listening(self.lab.far)
    }
}

/// Returns twice the BDP: enough to fill the path, and little in flight when a test ends.
fn compute_window_bytes(rtt_ms: u32) -> u64 {
    let held = f64::from(rtt_ms) / 1e3 * RATE_BPS / 8.0;
    (2.0 * held).max(256e3) as u64
}
