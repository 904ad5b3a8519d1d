//! An emulated path whose far end is free for any server.
//!
//! `longhaul lab run` sets it up and starts a `longhaul serve` there, which is ended at once,
//! because its port is needed.

use super::PathDelay;
use super::device_counters::HostObserver;
use crate::bench_lab::{self, BenchLab, HeldProcess};
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
    delay: PathDelay,
    pub near_watch: HostObserver,
    pub far_watch: HostObserver,
    /// Keeps the far host alive, whichever server runs there.
    _holder: HeldProcess,
    /// Dropped last, because it takes the path down.
    lab: BenchLab,
}

impl InteropPath {
    /// Sets up a path of this delay; `name` distinguishes the paths of one program.
    pub fn set_up(longhaul: &Path, delay: PathDelay, name: &str) -> Result<InteropPath, String> {
        let scratch = ScratchFolder::new(name)?;
        let file = scratch.write("path.toml", &format_path_file(delay))?;
        let mut lab = BenchLab::set_up(longhaul, &[&file.to_string_lossy()])?;
        let holder = lab.replace_server()?;
        Ok(InteropPath {
            delay,
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

    /// Returns the default capacity of a connection's send buffer.
    pub fn buffer_bytes(&self) -> f64 {
        compute_window_bytes(self.delay) as f64
    }

    /// Waits until the port at the far host is open.
    pub fn wait_for_listener(&self) -> Result<(), String> {
        bench_lab::wait_until_listening(self.lab.far, PORT)
    }
}

/// Describes a path of 50 Mbit/s with a queue that never overflows and windows of twice the BDP:
/// enough to fill it, and little in flight when a test ends.
fn format_path_file(delay: PathDelay) -> String {
    let window = compute_window_bytes(delay);
    let host = format!(
        "\"net.ipv4.tcp_rmem\" = \"4096 131072 {}\"\n\"net.ipv4.tcp_wmem\" = \"4096 65536 {window}\"\n\
         \"net.ipv4.tcp_congestion_control\" = \"cubic\"\n",
        2 * window,
    );
    format!(
        "name = \"interop, {} ms\"\nmtu = 1500\n[near.sysctl]\n{host}[far.sysctl]\n{host}\
         [[hops]]\nname = \"middle\"\ndelay = \"{} us\"\nrate = \"50 Mbit/s\"\nqueue = \"64 MB\"\n\
         [[hops]]\nname = \"last\"\nrate = \"50 Mbit/s\"\nqueue = \"64 MB\"\n",
        delay.0,
        delay.0 * 500,
    )
}

fn compute_window_bytes(delay: PathDelay) -> u64 {
    let held = delay.round_trip().as_secs_f64() * RATE_BPS / 8.0;
    (2.0 * held).max(256e3) as u64
}
