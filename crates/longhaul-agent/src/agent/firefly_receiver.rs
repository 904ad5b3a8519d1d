//! Receives fireflies in a thread of the agent while the watch file has `[fireflies]`, and files a
//! report of the flows that have ended, at most one a minute.
//!
//! A report goes through the spool, as that of a run does, so that no failure of the archive loses it.

use super::agent_folder;
use super::agent_log::AgentLog;
use super::clocks::read_wall_us;
use super::finished_run::{RunOwner, recover_spool};
use super::firefly_report::{ReportingHost, build_firefly_report};
use super::firefly_table::FireflyTable;
use super::process_runner::SpoolFiles;
use super::run_tasks::RunLauncher;
use super::shared_state::SharedState;
use crate::watch::watch_file::FirefliesSection;
use longhaul_import::firefly::{MAX_FIREFLY_BYTES, parse_firefly};
use longhaul_model::report::v1::FlowsReport;
use std::io::{self, ErrorKind, Write};
use std::net::{IpAddr, ToSocketAddrs, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use tokio::runtime::Handle;

/// The name of the measurement in the spool and the log.
const MEASURE: &str = "fireflies";
/// The maximum number of datagrams a second; the rest is counted and dropped.
const MAX_RATE: u32 = 2000;
/// The time between two reports.
const REPORT_INTERVAL: Duration = Duration::from_secs(60);
/// The time in which flows that end together come into one report.
const GATHER_TIME: Duration = Duration::from_secs(2);
/// The time between two looks at the clock and at the request to stop.
const WAKE_INTERVAL: Duration = Duration::from_millis(500);
const RETRY_TIME: Duration = Duration::from_secs(30);

/// The receiver, while the watch file has `[fireflies]`.
pub struct FireflyReceiver {
    state: Arc<SharedState>,
    launcher: RunLauncher,
    log: AgentLog,
    running: Option<RunningReceiver>,
}

struct RunningReceiver {
    section: FirefliesSection,
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Vec<(SpoolFiles, RunOwner)>>,
}

impl FireflyReceiver {
    pub fn new(state: Arc<SharedState>, launcher: RunLauncher, log: AgentLog) -> FireflyReceiver {
        FireflyReceiver { state, launcher, log, running: None }
    }

    /// Starts, restarts or stops the receiver, if the section of the current watch file differs. To be
    /// called in the runtime.
    pub fn apply_watch_file(&mut self) {
        let file = self.state.file();
        if file.fireflies.as_ref() == self.running.as_ref().map(|it| &it.section) {
            return;
        }
        let left = self.stop();
        tokio::spawn(recover_spool(self.launcher.clone(), left));
        let Some(section) = file.fireflies.clone() else { return };
        let stop = Arc::new(AtomicBool::new(false));
        let task = ReceiverTask {
            section: section.clone(),
            state: Arc::clone(&self.state),
            launcher: self.launcher.clone(),
            runtime: Handle::current(),
            log: self.log,
            stop: Arc::clone(&stop),
            table: FireflyTable::default(),
        };
        match thread::Builder::new().name(MEASURE.to_owned()).spawn(move || task.run()) {
            Ok(thread) => self.running = Some(RunningReceiver { section, stop, thread }),
            Err(error) => self.log.warn(&format!("cannot receive fireflies: {error}")),
        }
    }

    /// Ends the receiver within a second, and returns the report of the flows that had ended.
    pub fn stop(&mut self) -> Vec<(SpoolFiles, RunOwner)> {
        let Some(RunningReceiver { stop, thread, .. }) = self.running.take() else {
            return Vec::new();
        };
        stop.store(true, Ordering::Relaxed);
        thread.thread().unpark();
        self.state.counters.write().fireflies = None;
        thread.join().unwrap_or_else(|_| {
            self.log.warn("the receiver of fireflies ended by a panic");
            Vec::new()
        })
    }
}

/// The work of the receiver's thread.
struct ReceiverTask {
    section: FirefliesSection,
    state: Arc<SharedState>,
    launcher: RunLauncher,
    runtime: Handle,
    log: AgentLog,
    stop: Arc<AtomicBool>,
    table: FireflyTable,
}

impl ReceiverTask {
    /// Receives until it is stopped; binds again after failures.
    fn run(mut self) -> Vec<(SpoolFiles, RunOwner)> {
        while !self.stop.load(Ordering::Relaxed) {
            if let Err(error) = self.receive() {
                let at = self.section.listen;
                self.log.warn(&format!("cannot receive fireflies at {at}: {error}; trying again"));
                thread::park_timeout(RETRY_TIME);
            }
        }
        self.spool_report().into_iter().collect()
    }

    fn receive(&mut self) -> io::Result<()> {
        let socket = UdpSocket::bind(self.section.listen)?;
        socket.set_read_timeout(Some(WAKE_INTERVAL))?;
        self.log.info(&format!("receiving fireflies at {}", socket.local_addr()?));
        // One more byte shows that a datagram is too long.
        let mut datagram = vec![0; MAX_FIREFLY_BYTES + 1];
        let mut quota = RateQuota::new(Instant::now());
        let mut timer = ReportTimer::default();
        while !self.stop.load(Ordering::Relaxed) {
            match socket.recv_from(&mut datagram) {
                Ok((length, _)) if quota.take(Instant::now()) => self.take(&datagram[..length]),
                Ok(_) => self.table.counts.refused += 1,
                Err(error) if is_timeout(&error) => {
                    self.table.forget_silent_flows(read_wall_us());
                }
                Err(error) => return Err(error),
            }
            if timer.is_due(Instant::now(), self.table.has_ended_flows())
                && let Some(report) = self.spool_report()
            {
                self.runtime.spawn(recover_spool(self.launcher.clone(), vec![report]));
            }
            self.state.counters.write().fireflies = Some(self.table.counts);
        }
        Ok(())
    }

    fn take(&mut self, datagram: &[u8]) {
        match parse_firefly(datagram) {
            Ok(firefly) => self.table.add(&firefly, read_wall_us()),
            Err(_) => self.table.counts.refused += 1,
        }
    }

    /// Writes a report of the flows that have ended into the spool.
    fn spool_report(&mut self) -> Option<(SpoolFiles, RunOwner)> {
        let file = self.state.file();
        let own = file.own_host();
        let addresses: Vec<IpAddr> = (own.address.as_str(), 0)
            .to_socket_addrs()
            .map(|all| all.map(|it| it.ip().to_canonical()).collect())
            .unwrap_or_default();
        let host = ReportingHost { name: &file.agent.name, addresses: &addresses };
        let report = build_firefly_report(&host, self.table.take_ended_flows())?;
        let owner = RunOwner {
            planned_id: format!("{MEASURE}-{}", report.run.id),
            measure: MEASURE.to_owned(),
            agent: file.agent.name.clone(),
            target: None,
            reverse: false,
        };
        let files = SpoolFiles::new(&self.launcher.runner.spool, &owner.planned_id);
        match write_files(&files, &owner, &report) {
            Ok(()) => Some((files, owner)),
            Err(error) => {
                files.remove();
                self.log.warn(&format!("a report of fireflies is lost: {error}"));
                None
            }
        }
    }
}

fn write_files(files: &SpoolFiles, owner: &RunOwner, report: &FlowsReport) -> io::Result<()> {
    let mut written = agent_folder::open_private_file(&files.report)?;
    written.write_all(&serde_json::to_vec(report)?)?;
    written.sync_all()?;
    std::fs::write(&files.owner, serde_json::to_vec(owner)?)
}

fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}

/// Counts the datagrams of each second.
struct RateQuota {
    since: Instant,
    taken: u32,
}

impl RateQuota {
    fn new(now: Instant) -> RateQuota {
        RateQuota { since: now, taken: 0 }
    }

    /// Returns whether one more datagram is taken in this second.
    fn take(&mut self, now: Instant) -> bool {
        if now.duration_since(self.since) >= Duration::from_secs(1) {
            *self = RateQuota::new(now);
        }
        self.taken += 1;
        self.taken <= MAX_RATE
    }
}

/// The times of reports.
#[derive(Default)]
struct ReportTimer {
    /// The time at which the first flow since the last report was found to have ended.
    waiting: Option<Instant>,
    reported: Option<Instant>,
}

impl ReportTimer {
    /// Returns whether a report is due, which then counts as made.
    fn is_due(&mut self, now: Instant, has_ended_flows: bool) -> bool {
        if !has_ended_flows {
            return false;
        }
        let since = *self.waiting.get_or_insert(now);
        let is_gathered = now.duration_since(since) >= GATHER_TIME;
        let is_late = self.reported.is_none_or(|at| now.duration_since(at) >= REPORT_INTERVAL);
        if is_gathered && is_late {
            *self = ReportTimer { waiting: None, reported: Some(now) };
        }
        is_gathered && is_late
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flows_that_end_together_are_reported_together_and_at_most_once_a_minute() {
        let begin = Instant::now();
        let mut timer = ReportTimer::default();
        let mut due =
            |second: u64, ended: bool| timer.is_due(begin + Duration::from_secs(second), ended);
        assert!(!due(0, false) && !due(10, true) && !due(11, true));
        assert!(due(12, true), "two seconds after the first");
        assert!(!due(20, true) && !due(71, true));
        assert!(due(72, true), "a minute after the last report");
        assert!(!due(200, false) && !due(300, true));
    }

    #[test]
    fn datagrams_beyond_the_rate_are_dropped() {
        let begin = Instant::now();
        let mut quota = RateQuota::new(begin);
        let taken = (0..3 * MAX_RATE).filter(|_| quota.take(begin)).count();
        assert_eq!(taken, MAX_RATE as usize);
        assert!(quota.take(begin + Duration::from_secs(1)));
    }
}
