//! A running path: two hosts in network namespaces, and the thread that carries packets between
//! them.
//!
//! [`RunningLab::set_up`] creates both; dropping the [`RunningLab`] ends the thread and, with their last process,
//! the namespaces. Everything is held by descriptors of this process, so a crash leaves nothing
//! behind.

mod engine_driver;
mod host_files;
pub(crate) mod host_namespace;
mod lab_device;
mod lateness;
pub(crate) mod namespace_sysctl;

pub(crate) use host_files::{generate_random_hex, unique_temp_path, write_whole_file};
pub use lateness::LatenessHistogram;

use crate::emulation_engine::{EmulationEngine, LabHost, PathTruth};
use crate::lab_error::{LabError, LabErrorContext, LabErrorKind};
use crate::path_spec::PathSpec;
use engine_driver::{DriverOrder, EngineDriver};
use host_namespace::HostNamespace;
use lab_device::EnginePort;
use longhaul_sys::poll;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::mpsc::{self, Sender, SyncSender};
use std::thread::JoinHandle;
use std::time::Duration;

/// The way in which hosts are attached to the engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LabBackend {
    /// TUN devices; need root, as `/dev/net/tun` usually does.
    Tun,
    /// Packet sockets on veth pairs; need no root.
    Packet,
}

impl LabBackend {
    /// Returns the name as in `--backend` and in the truth file.
    pub fn name(self) -> &'static str {
        match self {
            LabBackend::Tun => "tun",
            LabBackend::Packet => "packet",
        }
    }
}

/// The 99th percentile of release lateness above which the timing is not accurate.
pub const LATENESS_LIMIT: Duration = Duration::from_millis(1);
/// The time within which the engine thread must answer.
const ANSWER_DEADLINE: Duration = Duration::from_secs(5);

/// The state of the engine thread.
#[derive(Debug, Clone)]
pub struct LabReading {
    pub truth: PathTruth,
    pub lateness: LatenessHistogram,
    /// Packets that a host's device did not accept.
    pub refused: u64,
    /// Packets lost before the path began because the queue of the host's device was full.
    pub overrun: u64,
}

/// A path that has been set up.
pub struct RunningLab {
    /// Host near and host far.
    hosts: [HostNamespace; 2],
    pub backend: LabBackend,
    /// Differences from the requested setup.
    pub caveats: Vec<String>,
    orders: Sender<DriverOrder>,
    wake: Arc<OwnedFd>,
    thread: Option<JoinHandle<()>>,
    /// Becomes readable when the engine thread ends, which it should not do on its own.
    ended: std::io::PipeReader,
}

impl RunningLab {
    /// Creates the hosts and starts the engine.
    pub fn set_up(spec: &PathSpec, backend: Option<LabBackend>) -> Result<RunningLab, LabError> {
        let (backend, built) = match backend {
            Some(backend) => (backend, build_hosts(spec, backend)?),
            None => build_best_hosts(spec)?,
        };
        let LabHosts { hosts, ports, mut caveats } = built;
        let mut engine = EmulationEngine::new(spec, 0);
        if backend == LabBackend::Packet {
            engine = engine.with_ethernet(lab_device::HOST_MACS);
        }
        let wake =
            Arc::new(poll::wake_descriptor().with_context("cannot create an event descriptor")?);
        let (ended, held) = std::io::pipe().with_context("cannot create a pipe")?;
        let (orders, received) = mpsc::channel();
        let (started, start) = mpsc::sync_channel(1);
        let driver = EngineDriver::new(engine, ports, Arc::clone(&wake), received);
        let thread = std::thread::Builder::new()
            .name("lab engine".to_owned())
            .spawn(move || {
                // Closed when the thread ends, even by a panic.
                let _held = held;
                driver.run(&started);
            })
            .with_context("cannot start the engine thread")?;
        caveats.extend(start.recv_timeout(ANSWER_DEADLINE).ok().flatten());
        Ok(RunningLab { hosts, backend, caveats, orders, wake, thread: Some(thread), ended })
    }

    /// Reads the state of the path.
    ///
    /// # Errors
    /// The engine thread does not answer in time.
    pub fn read_state(&self) -> Result<LabReading, LabError> {
        let (answer, answered) = mpsc::sync_channel(1);
        self.send_order(DriverOrder::Report(answer));
        let mut reading = answered.recv_timeout(ANSWER_DEADLINE).map_err(|_| {
            LabError::new(LabErrorKind::Internal, "the engine thread does not answer")
        })?;
        if self.backend == LabBackend::Tun {
            reading.overrun = self.hosts.iter().map(HostNamespace::device_drops).sum();
        }
        Ok(reading)
    }

    fn send_order(&self, order: DriverOrder) {
        // If the thread has ended, the waiting side notices it.
        let _ = self.orders.send(order);
        let _ = poll::signal_wake(&*self.wake);
    }

    /// Returns a descriptor that is readable once the engine thread has ended.
    pub(crate) fn ended(&self) -> BorrowedFd<'_> {
        self.ended.as_fd()
    }

    pub(crate) fn host(&self, host: LabHost) -> &HostNamespace {
        &self.hosts[host as usize]
    }
}

impl Drop for RunningLab {
    fn drop(&mut self) {
        self.send_order(DriverOrder::Stop);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Returns a caveat, as a sentence, if the timing was not accurate.
pub fn find_timing_caveat(reading: &LabReading) -> Option<String> {
    if reading.overrun > 0 {
        return Some(format!(
            "{} packets were lost before they entered the path: the machine was too busy",
            reading.overrun
        ));
    }
    let p99 = reading.lateness.p99()?;
    (p99 > LATENESS_LIMIT).then(|| {
        format!(
            "1 % of all packets were released more than {} late: the machine was too busy to keep \
             the configured timing",
            longhaul_model::units::format_duration(p99)
        )
    })
}

struct LabHosts {
    hosts: [HostNamespace; 2],
    ports: [EnginePort; 2],
    caveats: Vec<String>,
}

fn build_best_hosts(spec: &PathSpec) -> Result<(LabBackend, LabHosts), LabError> {
    if lab_device::can_open_tun()
        && let Ok(built) = build_hosts(spec, LabBackend::Tun)
    {
        return Ok((LabBackend::Tun, built));
    }
    Ok((LabBackend::Packet, build_hosts(spec, LabBackend::Packet)?))
}

fn build_hosts(spec: &PathSpec, backend: LabBackend) -> Result<LabHosts, LabError> {
    let mut caveats = Vec::new();
    let middle = match backend {
        LabBackend::Tun => None,
        LabBackend::Packet => Some(lab_device::create_middle_namespace()?),
    };
    let mut create = |host| host_namespace::create_host(spec, host, middle.as_ref(), &mut caveats);
    let (near, near_port) = create(LabHost::Near)?;
    let (far, far_port) = create(LabHost::Far)?;
    Ok(LabHosts { hosts: [near, far], ports: [near_port, far_port], caveats })
}

/// The channel on which the driver reports that it runs, with a caveat if it has one.
type DriverStarted = SyncSender<Option<String>>;
