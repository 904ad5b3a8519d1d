//! Watches the TCP flows of other programs on this host, without touching them.
//!
//! - [`far_end`]: the same of the other end, where a server runs
//! - [`process_watch`]: the process that holds a socket, and its activity
//! - [`transfer_capture`]: the packet headers of a transfer
//!
//! Source: sock_diag and /proc. Units: those of report v1. Error: a sample is late by the time that
//! reading the samples before it takes, a few microseconds each.
//! Wrong when: a connection lives shorter than the time between two surveys, one second or 200 times
//! what a survey takes (25 ms for 10,000 sockets).

pub mod far_end;
mod process_watch;
mod transfer_capture;

use crate::engine::read_host_facts;
use longhaul_capture::packet_buffer::FinishedCapture;
use longhaul_model::report::v1::flows::flow_grouping::{
    FlowSample, FlowSeries, find_small_flow_bytes, group_flows,
};
use longhaul_model::report::v1::flows::{FlowsObservation, FlowsPlan};
use longhaul_model::report::v1::observation::TcpReading;
use longhaul_sys::netns::{NamespaceKind, enter_namespace};
use longhaul_sys::socket_diag::{DiagnosedSocket, DiagnosisSocket, SocketIdentity};
use process_watch::{ProcessTable, ThreadTimes};
use std::collections::{HashMap, HashSet};
use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use std::{io, thread};
use transfer_capture::TransferCapture;

pub use process_watch::is_running;

/// The time between two surveys of all sockets, or longer if there are thousands.
const SURVEY_INTERVAL: Duration = Duration::from_secs(1);
/// The time between two looks at the stop flag, where samples are further apart.
const STOP_CHECK_INTERVAL: Duration = Duration::from_millis(250);
/// The time until the next survey, as a multiple of the time that one takes: half a per cent of a core.
const SURVEY_PAUSE: u32 = 200;
/// The maximum number of sockets of a namespace that a survey remembers.
const MAX_SOCKETS: usize = 200_000;

/// The flows to watch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FlowSelector {
    All,
    /// A process, by its number.
    Process(u32),
    /// All processes of this name.
    Program(String),
    /// Either end has this port.
    Port(u16),
    /// The peer has one of these addresses.
    Peer(Vec<IpAddr>),
}

/// Watches flows for the time of the plan, or until `stop` is set.
///
/// # Errors
/// Those of [`FlowWatch::start`].
pub fn watch_flows(
    plan: &FlowsPlan,
    selector: &FlowSelector,
    stop: &AtomicBool,
) -> io::Result<FlowsObservation> {
    let mut watch = FlowWatch::start(plan, selector, None)?;
    watch.run_until(Duration::from_micros(plan.duration_us), stop, &mut |_, _| {})?;
    Ok(watch.observe())
}

/// Waits for a moment, or until `stop` is set.
fn wait_until(due: Instant, stop: &AtomicBool) {
    while Instant::now() < due && !stop.load(Ordering::Relaxed) {
        thread::sleep(STOP_CHECK_INTERVAL.min(due.saturating_duration_since(Instant::now())));
    }
}

/// Calls a function in a network namespace. A thread of its own enters it, because nothing leads back.
fn call_in_namespace<T: Send + 'static>(
    namespace: Option<OwnedFd>,
    call: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    let Some(namespace) = namespace else { return call() };
    let thread = thread::Builder::new().name("namespace".to_owned()).spawn(move || {
        enter_namespace(namespace, NamespaceKind::Net)?;
        call()
    })?;
    thread.join().unwrap_or_else(|_| Err(io::Error::other("its thread panicked")))
}

/// A watch of flows, which may go on after it was looked at.
pub struct FlowWatch<'a> {
    plan: &'a FlowsPlan,
    selector: &'a FlowSelector,
    diagnosis: DiagnosisSocket,
    started: Instant,
    next_sample: Duration,
    next_survey: Duration,
    surveys: u32,
    /// The bytes that each matching socket had moved at the last survey.
    moved_bytes: HashMap<SocketIdentity, u64>,
    /// The maximum number of matching sockets at a survey.
    matching_flows: u64,
    flows: HashMap<SocketIdentity, WatchedFlow>,
    processes: ProcessTable,
    capture: TransferCapture,
}

impl<'a> FlowWatch<'a> {
    /// Starts a watch. `namespace` is a network namespace other than that of the calling thread.
    ///
    /// # Errors
    /// The kernel's error, if it lacks sock_diag or does not let this program enter the namespace.
    pub fn start(
        plan: &'a FlowsPlan,
        selector: &'a FlowSelector,
        namespace: Option<OwnedFd>,
    ) -> io::Result<FlowWatch<'a>> {
        Ok(FlowWatch {
            plan,
            selector,
            diagnosis: call_in_namespace(namespace, DiagnosisSocket::open)?,
            started: Instant::now(),
            next_sample: Duration::ZERO,
            next_survey: Duration::ZERO,
            surveys: 0,
            moved_bytes: HashMap::new(),
            matching_flows: 0,
            flows: HashMap::new(),
            processes: ProcessTable::default(),
            capture: TransferCapture::Off,
        })
    }

    /// Requests a capture of the packet headers of the busiest sender, in the namespace of the watch. It
    /// needs `CAP_NET_RAW`; without it there is none.
    pub fn capture_headers(&mut self, namespace: Option<OwnedFd>) {
        self.capture = TransferCapture::Armed(namespace);
    }

    /// Ends the capture; `None` if there was none.
    pub fn finish_capture(&mut self) -> Option<FinishedCapture> {
        self.capture.finish()
    }

    /// Takes samples until this time since the start, or until `stop` is set. `progress` gets the time and
    /// the number of flows.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn run_until(
        &mut self,
        end: Duration,
        stop: &AtomicBool,
        progress: &mut dyn FnMut(Duration, usize),
    ) -> io::Result<()> {
        loop {
            wait_until(self.started + self.next_sample.min(end), stop);
            self.survey_if_due()?;
            self.take_samples()?;
            let open = self.flows.values().filter(|flow| !flow.has_ended);
            self.capture.start_if_due(open.map(|flow| &flow.series));
            self.next_sample += Duration::from_micros(self.plan.interval_us);
            progress(self.started.elapsed(), self.flows.len());
            if self.started.elapsed() >= end || stop.load(Ordering::Relaxed) {
                return Ok(());
            }
        }
    }

    fn elapsed_us(&self) -> u64 {
        self.started.elapsed().as_micros() as u64
    }

    /// Surveys all sockets once a second, and adds the busiest ones that are not watched yet.
    fn survey_if_due(&mut self) -> io::Result<()> {
        if self.started.elapsed() < self.next_survey {
            return Ok(());
        }
        let begun = self.started.elapsed();
        let mut found = self.find_candidates()?;
        let took = self.started.elapsed().saturating_sub(begun);
        // The second survey shows which flows are busy; the others may wait.
        let pause = if self.surveys == 0 { Duration::ZERO } else { took * SURVEY_PAUSE };
        self.surveys += 1;
        self.next_survey = begun + SURVEY_INTERVAL.max(pause);
        let room = (self.plan.flows_max as usize).saturating_sub(self.count_open_flows());
        found.sort_unstable_by_key(|(grown_bytes, _)| std::cmp::Reverse(*grown_bytes));
        found.truncate(room);
        let inodes = found.iter().map(|(_, socket)| socket.inode);
        self.processes.find_owners(inodes);
        for (_, socket) in found {
            let process = self.processes.owner_of(socket.inode);
            self.flows.insert(socket.identity, WatchedFlow::start(process, socket));
        }
        Ok(())
    }

    /// Returns the matching sockets that are not watched, with the bytes that they moved since the
    /// last survey. If not all can be watched, those that did not move are left out.
    fn find_candidates(&mut self) -> io::Result<Vec<(u64, DiagnosedSocket)>> {
        let sockets = self.processes.find_sockets(self.selector);
        let before = std::mem::take(&mut self.moved_bytes);
        let (mut now, mut found) = (HashMap::new(), Vec::new());
        self.diagnosis.visit_connections(&mut |socket| {
            if !is_selected(self.selector, sockets.as_ref(), &socket) || now.len() >= MAX_SOCKETS {
                return;
            }
            let moved = count_moved_bytes(&socket);
            let grown = before.get(&socket.identity).map(|earlier| moved.saturating_sub(*earlier));
            now.insert(socket.identity, moved);
            if !self.flows.contains_key(&socket.identity) {
                found.push((grown.unwrap_or(0), socket));
            }
        })?;
        self.matching_flows = self.matching_flows.max(now.len() as u64);
        if found.len() > self.plan.flows_max as usize {
            found.retain(|(grown_bytes, _)| *grown_bytes > 0);
        }
        self.moved_bytes = now;
        Ok(found)
    }

    fn count_open_flows(&self) -> usize {
        self.flows.values().filter(|flow| !flow.has_ended).count()
    }

    fn take_samples(&mut self) -> io::Result<()> {
        self.processes.take_readings();
        for (identity, flow) in &mut self.flows {
            if flow.has_ended {
                continue;
            }
            let socket = self.diagnosis.read_connection(identity)?;
            let at_us = self.started.elapsed().as_micros() as u64;
            match socket {
                Some(socket) => {
                    let times = self.processes.thread_times(flow.process);
                    flow.series.samples.push(build_sample(at_us, &socket, times));
                }
                None => flow.has_ended = true,
            }
        }
        Ok(())
    }

    /// Returns the flows as watched until now.
    pub fn observe(&self) -> FlowsObservation {
        let elapsed_us = self.elapsed_us();
        let host = read_host_facts(None);
        let flows = self.flows.values().map(|flow| {
            let process = flow.process.and_then(|pid| self.processes.describe(pid));
            let (process, activity) = process.unzip();
            FlowSeries { process, activity, ..flow.series.clone() }
        });
        let flows: Vec<FlowSeries> = flows.collect();
        let small_flow_bytes = find_small_flow_bytes(&flows);
        let transfers = group_flows(flows, self.plan, &host);
        let matching_flows = self.matching_flows;
        FlowsObservation { host, elapsed_us, matching_flows, small_flow_bytes, transfers }
    }
}

/// A flow, and the process that holds it.
struct WatchedFlow {
    process: Option<u32>,
    series: FlowSeries,
    has_ended: bool,
}

impl WatchedFlow {
    fn start(process: Option<u32>, socket: DiagnosedSocket) -> WatchedFlow {
        let series = FlowSeries {
            congestion_control: socket.congestion_control,
            max_pacing_bps: socket.info.max_pacing_bps,
            options: Some(socket.info.options),
            ..FlowSeries::new(socket.local, socket.peer, Vec::new())
        };
        WatchedFlow { process, series, has_ended: false }
    }
}

fn build_sample(at_us: u64, socket: &DiagnosedSocket, times: Option<ThreadTimes>) -> FlowSample {
    let receive_rtt_us = socket.info.receive_rtt_us;
    FlowSample {
        at_us,
        unread_bytes: socket.unread_bytes,
        unacknowledged_bytes: socket.unacknowledged_bytes,
        memory: socket.memory,
        cpu_us: times.map(|times| times.cpu_us),
        core_wait_us: times.map(|times| times.core_wait_us),
        tcp: TcpReading { receive_rtt_us, ..socket.info.reading.clone() },
    }
}

/// Returns the payload bytes of both directions.
fn count_moved_bytes(socket: &DiagnosedSocket) -> u64 {
    let tcp = &socket.info.reading;
    tcp.bytes_acked.unwrap_or(0).saturating_add(tcp.bytes_received.unwrap_or(0))
}

fn is_selected(
    selector: &FlowSelector,
    sockets: Option<&HashSet<u32>>,
    socket: &DiagnosedSocket,
) -> bool {
    match selector {
        FlowSelector::All => true,
        FlowSelector::Port(port) => [socket.local.port(), socket.peer.port()].contains(port),
        FlowSelector::Peer(addresses) => addresses.contains(&socket.peer.ip()),
        FlowSelector::Process(_) | FlowSelector::Program(_) => {
            sockets.is_some_and(|inodes| inodes.contains(&socket.inode))
        }
    }
}

#[cfg(test)]
mod tests;
