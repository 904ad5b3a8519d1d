//! Runs a series of echoes on a UDP flow, with four timestamps each.
//!
//! An echo has four timestamps: sent here, received there, sent there, received here. The round
//! trip excludes the time that the server held the echo. Each one-way delay is known up to the
//! unknown offset of the two clocks.
//!
//! Error: some microseconds; the send time is taken just before the call.
//! Wrong when: the server's clock is erratic; impossible times (held longer than the whole round
//! trip) are not used, and the round trip then includes the holding time.

use super::flow_reader::SingleDatagram;
use super::probe_control::ProbeControl;
use super::train_sender::payload_bytes;
use super::{
    DatagramKind, EchoSeriesPlan, ProbeDatagramHeader, SessionFlow, local_error, saturating_nanos,
};
use crate::engine::payload_byte;
use crate::path::clock_pair::{ClockPair, stamp_to_monotonic};
use crate::path::round_trips::echo_state::{AnswerTiming, EchoSchedule, EchoSeriesState, RttClock};
use crate::plan_limits::PACKET_BYTES;
use crate::probe_error::ProbeError;
use longhaul_model::report::v1::load::LoadProbe;
use longhaul_model::report::v1::path::{ProbeEcho, ProbeProtocol, RoundTripSeries};
use longhaul_sys::poll;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The minimum interval.
const MIN_INTERVAL: Duration = Duration::from_millis(1);
/// Timeout after which an echo is lost, unless four round trips are longer.
const MIN_LOSS_TIMEOUT: Duration = Duration::from_secs(3);
/// Interval at which the control connection is serviced, and the time reserved for it between two
/// echoes.
const SERVICE_INTERVAL: Duration = Duration::from_millis(250);
const SERVICE_TIME: Duration = Duration::from_millis(3);
/// Maximum duration of a wait for echoes, so that a stop is noticed.
const MAX_WAIT: Duration = Duration::from_millis(20);

/// Runs series `number` of the session.
pub(super) fn run_echoes(
    flow: &mut SessionFlow,
    line: &mut ProbeControl,
    number: u32,
    asked: &EchoSeriesPlan,
    stop: &AtomicBool,
    each: &mut dyn FnMut(&LoadProbe),
) -> Result<RoundTripSeries, ProbeError> {
    let peer = flow.socket.peer_addr().map_err(local_error("create an echo"))?;
    let timeout = MIN_LOSS_TIMEOUT.max(line.idle_rtt().unwrap_or_default() * 4);
    let running = RunningEchoes {
        buffer: build_payload(asked.packet_bytes, peer),
        series: new_series(timeout),
        number,
        session: flow.session,
        epoch: line.epoch,
        began: line.epoch.elapsed(),
    };
    running.run(flow, line, asked, stop, each)
}

/// Creates a series whose echoes are sent by the caller's schedule.
fn new_series(timeout: Duration) -> EchoSeriesState {
    let (interval, give_up_after) = (MIN_INTERVAL, None);
    EchoSeriesState::new(EchoSchedule { probes: 0, interval, timeout, give_up_after })
}

fn build_payload(packet_bytes: u32, peer: SocketAddr) -> Vec<u8> {
    let packet = packet_bytes.clamp(PACKET_BYTES.0, PACKET_BYTES.1);
    (0..payload_bytes(packet, peer) as u64).map(payload_byte).collect()
}

/// A series in progress.
struct RunningEchoes {
    buffer: Vec<u8>,
    series: EchoSeriesState,
    number: u32,
    session: u64,
    /// Zero of this host's times, and the start of the series.
    epoch: Instant,
    began: Duration,
}

impl RunningEchoes {
    fn run(
        mut self,
        flow: &mut SessionFlow,
        line: &mut ProbeControl,
        asked: &EchoSeriesPlan,
        stop: &AtomicBool,
        each: &mut dyn FnMut(&LoadProbe),
    ) -> Result<RoundTripSeries, ProbeError> {
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
            let SessionFlow { socket, reader, .. } = flow;
            reader
                .read(socket, &mut |single| self.record_echo(single, each))
                .map_err(local_error("receive echoes"))?;
            let now_here = self.epoch.elapsed();
            self.report_lost(now_here, each);
            if ended.is_some() && self.series.is_over(now_here) {
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
        self.report_lost(Duration::MAX, each);
        Ok(self.series.echoes(ProbeProtocol::Udp, asked.packet_bytes))
    }

    fn send(&mut self, socket: &UdpSocket) {
        let sent = ClockPair::now(self.epoch);
        ProbeDatagramHeader {
            kind: DatagramKind::EchoWanted,
            session: self.session,
            train: self.number,
            index: self.series.next_number(),
            sent_ns: saturating_nanos(sent.monotonic),
            there_received_ns: 0,
            there_sent_ns: 0,
        }
        .write(&mut self.buffer);
        // A failed send counts as a lost echo.
        let _ = socket.send(&self.buffer);
        self.series.record_sent(sent);
    }

    /// Records a received datagram, and passes the first answer to each echo to `each`.
    fn record_echo(&mut self, single: &SingleDatagram<'_>, each: &mut dyn FnMut(&LoadProbe)) {
        let Some(header) = single.header.filter(|head| head.kind == DatagramKind::Echo) else {
            return;
        };
        let sent = self.series.sent_at(header.index).filter(|_| header.train == self.number);
        // A different send time in the answer means that it is forged.
        let Some(sent) = sent.filter(|sent| saturating_nanos(sent.monotonic) == header.sent_ns)
        else {
            return self.series.discard();
        };
        let moment = ClockPair::now(self.epoch);
        let placed =
            single.arrival.kernel.and_then(|stamp| stamp_to_monotonic(stamp, &sent, &moment));
        let came_ns = saturating_nanos(placed.unwrap_or(moment.monotonic));
        let probe = build_probe(&header, came_ns, single.hop_limit);
        let clock = if placed.is_some() { RttClock::KernelReceive } else { RttClock::User };
        let rtt = Duration::from_nanos(probe.echo.rtt_ns.unwrap_or(0));
        let came = AnswerTiming::Measured { moment, rtt, clock };
        if self.series.record_answer(header.index, came, single.hop_limit) {
            each(&self.since_start(probe));
        }
    }

    /// Reports the echoes that were given up by `now`.
    fn report_lost(&mut self, now: Duration, each: &mut dyn FnMut(&LoadProbe)) {
        for echo in self.series.take_settled(now) {
            if echo.rtt_ns.is_none() {
                each(&self.since_start(LoadProbe { echo, forward_ns: None, reverse_ns: None }));
            }
        }
    }

    /// Returns the probe with its time since the start of the series.
    fn since_start(&self, probe: LoadProbe) -> LoadProbe {
        let at_us = probe.echo.at_us.saturating_sub(self.began.as_micros() as u64);
        LoadProbe { echo: ProbeEcho { at_us, ..probe.echo }, ..probe }
    }
}

/// Returns the result of an echo that came back at `came_ns`.
fn build_probe(header: &ProbeDatagramHeader, came_ns: u64, hop_limit: Option<u8>) -> LoadProbe {
    let sent_ns = header.sent_ns;
    let whole = came_ns.saturating_sub(sent_ns);
    let kept = header.there_sent_ns.checked_sub(header.there_received_ns);
    let kept = kept.filter(|kept| *kept <= whole);
    let way = |from: u64, to: u64| {
        let time = i128::from(to) - i128::from(from);
        kept.and_then(|_| i64::try_from(time).ok())
    };
    LoadProbe {
        echo: ProbeEcho {
            at_us: sent_ns / 1000,
            rtt_ns: Some(whole - kept.unwrap_or(0)),
            ttl: hop_limit,
        },
        forward_ns: way(sent_ns, header.there_received_ns),
        reverse_ns: way(header.there_sent_ns, came_ns),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probing::train_recorder::DatagramArrival;

    fn answer(sent_ns: u64, there: (u64, u64)) -> ProbeDatagramHeader {
        ProbeDatagramHeader {
            kind: DatagramKind::Echo,
            session: 0,
            train: 3,
            index: 0,
            sent_ns,
            there_received_ns: there.0,
            there_sent_ns: there.1,
        }
    }

    #[test]
    fn a_round_trip_is_what_the_network_took_and_each_way_has_the_offset_in_it() {
        // The server's clock is 1 s ahead; 10 us forward, 5 us held, 20 us back.
        let header = answer(1_500_000, (1_001_510_000, 1_001_515_000));
        let probe = build_probe(&header, 1_535_000, Some(61));
        assert_eq!((probe.echo.at_us, probe.echo.rtt_ns), (1500, Some(30_000)));
        assert_eq!(probe.echo.ttl, Some(61));
        assert_eq!(probe.forward_ns, Some(1_000_010_000));
        assert_eq!(probe.reverse_ns, Some(20_000 - 1_000_000_000));
    }

    #[test]
    fn times_of_a_liar_are_left_out_and_the_round_trip_stays() {
        for there in [(9, 3), (0, 50_000), (u64::MAX, 0), (0, u64::MAX)] {
            let probe = build_probe(&answer(1000, there), 41_000, None);
            assert_eq!(probe.echo.rtt_ns, Some(40_000));
            assert_eq!((probe.forward_ns, probe.reverse_ns), (None, None));
        }
    }

    #[test]
    fn forged_repeated_and_late_echoes_are_told_apart_and_each_echo_is_told_once() {
        let epoch = Instant::now();
        let mut running = RunningEchoes {
            buffer: Vec::new(),
            series: new_series(MIN_LOSS_TIMEOUT),
            number: 3,
            session: 0,
            epoch,
            began: Duration::ZERO,
        };
        let mut sent = Vec::new();
        for _ in 0..3 {
            let moment = ClockPair::now(epoch);
            running.series.record_sent(moment);
            sent.push(saturating_nanos(moment.monotonic));
        }
        let mut told = Vec::new();
        let mut hear = |running: &mut RunningEchoes, index: u32, train, sent_ns| {
            let header = ProbeDatagramHeader { train, index, ..answer(sent_ns, (1, 1)) };
            let arrival = DatagramArrival { kernel: None, read_ns: 0, overflowed: None };
            let (bytes, hop_limit, truncated) = (&[][..], None, false);
            let header = Some(header);
            let single = SingleDatagram { bytes, header, arrival, hop_limit, truncated };
            running.record_echo(&single, &mut |probe| told.push(*probe));
        };
        hear(&mut running, 2, 3, sent[2]);
        hear(&mut running, 0, 3, sent[0]);
        hear(&mut running, 0, 3, sent[0]);
        hear(&mut running, 1, 3, sent[1] + 1);
        hear(&mut running, 1, 2, sent[1]);
        hear(&mut running, 9, 3, sent[1]);
        running.report_lost(epoch.elapsed(), &mut |_| panic!("too early"));
        let mut lost = Vec::new();
        running.report_lost(Duration::MAX, &mut |probe| lost.push(*probe));
        running.report_lost(Duration::MAX, &mut |_| panic!("told twice"));
        assert_eq!((told.len(), lost.len()), (2, 1));
        assert_eq!(lost[0].echo.rtt_ns, None);
        assert_eq!((running.series.duplicates, running.series.discarded), (1, 3));
    }
}
