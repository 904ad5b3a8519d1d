//! Runs a series of echoes on a UDP flow, with kernel receive timestamps.

use super::echo_tracker::EchoTracker;
use super::probe_clock::ProbeClock;
use super::probe_control::ProbeControl;
use super::probe_datagram::{DatagramKind, ProbeDatagramHeader};
use super::train_sender::payload_bytes;
use super::{EchoResult, EchoSeriesPlan, SessionFlow, local_error};
use crate::engine::payload_byte;
use crate::plan_limits::PACKET_BYTES;
use crate::probe_error::ProbeError;
use longhaul_model::report::v1::load::LoadProbe;
use longhaul_sys::{poll, sockopt};
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The minimum interval.
const MIN_INTERVAL: Duration = Duration::from_millis(1);
/// Interval at which the control connection is serviced, and the time reserved for it between two
/// echoes.
const SERVICE_INTERVAL: Duration = Duration::from_millis(250);
const SERVICE_TIME: Duration = Duration::from_millis(3);
/// Maximum duration of a wait for echoes, so that a stop is noticed.
const MAX_WAIT: Duration = Duration::from_millis(20);

/// Runs one series, with its DSCP on the flow.
pub(super) fn run_echoes(
    flow: &mut SessionFlow,
    line: &mut ProbeControl,
    number: u32,
    asked: &EchoSeriesPlan,
    stop: &AtomicBool,
    each: &mut dyn FnMut(&LoadProbe),
) -> Result<EchoResult, ProbeError> {
    let clock = flow.reader.clock;
    let peer = flow.socket.peer_addr().map_err(local_error("create an echo"))?;
    if let Some(dscp) = asked.dscp {
        sockopt::set_dscp(&flow.socket, dscp, peer)
            .map_err(local_error("set the DSCP of echoes"))?;
    }
    let running = RunningEchoes {
        buffer: build_payload(asked.packet_bytes, peer),
        series: EchoTracker::new(number, clock.now_ns(), line.idle_rtt()),
        offset_ns: clock.wall_offset_ns(),
        by_user: false,
        session: flow.session,
        clock,
    };
    let ran = running.run(flow, line, asked, stop, each);
    if asked.dscp.is_some() {
        // The same call succeeded a moment ago.
        let _ = sockopt::set_dscp(&flow.socket, 0, peer);
    }
    ran
}

fn build_payload(packet_bytes: u32, peer: SocketAddr) -> Vec<u8> {
    let packet = packet_bytes.clamp(PACKET_BYTES.0, PACKET_BYTES.1);
    (0..payload_bytes(packet, peer) as u64).map(payload_byte).collect()
}

/// A series in progress.
struct RunningEchoes {
    buffer: Vec<u8>,
    series: EchoTracker,
    offset_ns: i64,
    by_user: bool,
    session: u64,
    clock: ProbeClock,
}

impl RunningEchoes {
    fn run(
        mut self,
        flow: &mut SessionFlow,
        line: &mut ProbeControl,
        asked: &EchoSeriesPlan,
        stop: &AtomicBool,
        each: &mut dyn FnMut(&LoadProbe),
    ) -> Result<EchoResult, ProbeError> {
        let begin = Instant::now();
        let interval = asked.interval.max(MIN_INTERVAL);
        let mut due = begin;
        let mut looked = begin;
        let mut ended: Option<Instant> = None;
        loop {
            let now = Instant::now();
            if ended.is_none() && (stop.load(Ordering::Relaxed) || now >= begin + asked.max_time) {
                ended = Some(now);
            }
            if ended.is_none() && now >= due {
                self.send(&flow.socket);
                // Echoes missed by a busy core are not sent in a burst.
                due = (due + interval).max(now);
            }
            self.read(flow, each).map_err(local_error("receive echoes"))?;
            if ended.is_some_and(|since| self.is_over(since)) {
                break;
            }
            if looked.elapsed() > SERVICE_INTERVAL
                && (ended.is_some() || due.saturating_duration_since(Instant::now()) > SERVICE_TIME)
            {
                line.service()?;
                looked = Instant::now();
            }
            let next = if ended.is_some() { now + MAX_WAIT } else { due };
            let wait = next.saturating_duration_since(Instant::now()).min(MAX_WAIT);
            poll::wait_readable([flow.socket.as_fd()], Some(wait))
                .map_err(local_error("wait for echoes"))?;
        }
        Ok(self.into_result(each))
    }

    fn send(&mut self, socket: &UdpSocket) {
        // The wall clock may be set at any time, so its offset is read before each echo.
        self.offset_ns = self.clock.wall_offset_ns();
        let sent_ns = self.clock.now_ns();
        ProbeDatagramHeader {
            kind: DatagramKind::EchoWanted,
            session: self.session,
            train: self.series.number(),
            index: self.series.sent_echoes(),
            sent_ns,
            there_received_ns: 0,
            there_sent_ns: 0,
        }
        .write(&mut self.buffer);
        // A failed send counts as a lost echo.
        let _ = socket.send(&self.buffer);
        self.series.record_sent(sent_ns);
    }

    fn read(&mut self, flow: &mut SessionFlow, each: &mut dyn FnMut(&LoadProbe)) -> io::Result<()> {
        let SessionFlow { socket, reader, .. } = flow;
        let (series, offset_ns) = (&mut self.series, self.offset_ns);
        let by_user = &mut self.by_user;
        reader.read(socket, &mut |single| {
            let Some(header) = single.header.filter(|head| head.kind == DatagramKind::Echo) else {
                return;
            };
            *by_user |= single.arrival.kernel.is_none();
            let at_ns = single.arrival.monotonic_ns(offset_ns);
            if let Some(probe) = series.record_answer(&header, at_ns, single.hop_limit) {
                each(&probe);
            }
        })?;
        while let Some(lost) = self.series.take_lost(self.clock.now_ns()) {
            each(&lost);
        }
        Ok(())
    }

    /// Returns whether a series that ended at `since` can receive no more answers.
    fn is_over(&self, since: Instant) -> bool {
        self.series.is_settled() || since.elapsed() > self.series.loss_timeout()
    }

    fn into_result(mut self, each: &mut dyn FnMut(&LoadProbe)) -> EchoResult {
        while let Some(lost) = self.series.take_lost(u64::MAX) {
            each(&lost);
        }
        let clock = if self.by_user { "user" } else { "kernel_receive" };
        EchoResult {
            clock: clock.to_owned(),
            sent: self.series.sent_echoes(),
            answered: self.series.answered,
            duplicates: self.series.duplicates,
            discarded: self.series.discarded,
        }
    }
}
