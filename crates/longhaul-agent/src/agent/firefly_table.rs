//! The flows that fireflies report: those in progress, and those that have ended and wait for the
//! next report. Pure state; others send the datagrams, so that everything has a bound.

use jiff::Timestamp;
use longhaul_import::firefly::{FireflyMessage, FlowAddresses, FlowState, FlowTag};
use longhaul_model::report::v1::flows::flow_grouping::{FlowSample, FlowSeries};
use longhaul_model::report::v1::observation::TcpReading;
use std::collections::HashMap;
use std::time::Duration;

/// The maximum number of flows in progress.
pub const MAX_OPEN_FLOWS: usize = 4096;
/// The maximum number of ended flows in a report.
pub const MAX_ENDED_FLOWS: usize = 1024;
/// The maximum number of ended flows in a report that keep their samples of TCP_INFO.
const MAX_SAMPLED_FLOWS: usize = 64;
/// The maximum number of samples of a flow; at the next one, every other one is dropped.
const MAX_SAMPLES: usize = 32;
/// A flow that no firefly reported for this time is forgotten.
const MAX_SILENCE_US: i64 = 3600 * 1_000_000;
/// A flow that began before this time, or lasted longer, has a wrong clock.
const MAX_DURATION: Duration = Duration::from_secs(30 * 86_400);

/// The number of fireflies since the agent started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FireflyCounts {
    /// Fireflies that were understood.
    pub taken: u64,
    /// Datagrams that were no fireflies, or came too fast.
    pub refused: u64,
    /// Flows for which there was no room, that ended without a firefly, or that had no payload.
    pub lost_flows: u64,
}

/// A flow in progress.
struct OpenFlow {
    scitag: FlowTag,
    started: Timestamp,
    updated_us: i64,
    congestion_control: Option<String>,
    samples: Vec<FlowSample>,
}

/// A flow that has ended.
#[derive(Debug, Clone)]
pub struct EndedFlow {
    pub scitag: FlowTag,
    pub started: Timestamp,
    pub ended: Timestamp,
    /// Its samples; their times count from `started`.
    pub series: FlowSeries,
}

/// All flows that fireflies report.
#[derive(Default)]
pub struct FireflyTable {
    open: HashMap<FlowAddresses, OpenFlow>,
    ended: Vec<EndedFlow>,
    pub counts: FireflyCounts,
}

impl FireflyTable {
    /// Takes the content of a datagram that came at `now_us`.
    pub fn add(&mut self, firefly: &FireflyMessage, now_us: i64) {
        self.counts.taken += 1;
        let has_room = self.open.len() < MAX_OPEN_FLOWS;
        let flow = match self.open.get_mut(&firefly.flow) {
            // The same ports, but another transfer: the end of the one before was lost.
            Some(known) if known.started != firefly.started => {
                self.counts.lost_flows += 1;
                *known = OpenFlow::of(firefly, now_us);
                known
            }
            Some(known) => known,
            None if has_room || firefly.state == FlowState::End => {
                self.open.entry(firefly.flow).or_insert_with(|| OpenFlow::of(firefly, now_us))
            }
            None => {
                self.counts.lost_flows += 1;
                return;
            }
        };
        flow.update(firefly, now_us);
        if firefly.state == FlowState::End
            && let Some(flow) = self.open.remove(&firefly.flow)
        {
            self.end_flow(flow, firefly);
        }
    }

    fn end_flow(&mut self, flow: OpenFlow, firefly: &FireflyMessage) {
        let sampled = self.ended.iter().filter(|it| it.series.samples.len() > 2).count();
        let ended = flow.end(firefly, sampled < MAX_SAMPLED_FLOWS);
        match ended.filter(|_| self.ended.len() < MAX_ENDED_FLOWS) {
            Some(ended) => self.ended.push(ended),
            None => self.counts.lost_flows += 1,
        }
    }

    /// Forgets flows that no firefly reported for an hour.
    pub fn forget_silent_flows(&mut self, now_us: i64) {
        let before = self.open.len();
        self.open.retain(|_, flow| now_us.saturating_sub(flow.updated_us) < MAX_SILENCE_US);
        self.counts.lost_flows += (before - self.open.len()) as u64;
    }

    pub fn has_ended_flows(&self) -> bool {
        !self.ended.is_empty()
    }

    /// Returns the flows that have ended, and forgets them.
    pub fn take_ended_flows(&mut self) -> Vec<EndedFlow> {
        std::mem::take(&mut self.ended)
    }
}

impl OpenFlow {
    fn of(firefly: &FireflyMessage, now_us: i64) -> OpenFlow {
        OpenFlow {
            scitag: firefly.scitag,
            started: firefly.started,
            updated_us: now_us,
            congestion_control: None,
            samples: Vec::new(),
        }
    }

    fn update(&mut self, firefly: &FireflyMessage, now_us: i64) {
        self.updated_us = now_us;
        if let Some(name) = &firefly.congestion_control {
            self.congestion_control = Some(name.clone());
        }
        let Some(tcp) = firefly.tcp.clone().filter(|it| it.bytes_acked.is_some()) else { return };
        // A firefly without a time of its own was sent just now.
        let sent_at = firefly.reported_at.or_else(|| Timestamp::from_microsecond(now_us).ok());
        let Some(at_us) = sent_at.and_then(|sent_at| self.offset_us(sent_at)) else { return };
        if self.samples.last().is_some_and(|last| last.at_us >= at_us) {
            return;
        }
        if self.samples.len() == MAX_SAMPLES {
            let mut keeps = false;
            self.samples.retain(|_| {
                keeps = !keeps;
                keeps
            });
        }
        self.samples.push(FlowSample::from_tcp_info(at_us, tcp));
    }

    /// Returns a time as an offset from the start, if it is a possible one.
    fn offset_us(&self, at: Timestamp) -> Option<u64> {
        let offset = Duration::try_from(at.duration_since(self.started)).ok()?;
        (offset <= MAX_DURATION).then_some(offset.as_micros() as u64)
    }

    /// Returns the ended flow: with its samples if there are enough, or else with its bytes at the
    /// start and at the end. `None` without payload or time.
    fn end(self, firefly: &FireflyMessage, keeps_samples: bool) -> Option<EndedFlow> {
        let ended = firefly.reported_at?;
        let duration_us = self.offset_us(ended).filter(|us| *us > 0)?;
        let last = self.samples.last().map(|sample| &sample.tcp);
        let count = |reported: Option<u64>, of: fn(&TcpReading) -> Option<u64>| {
            reported.or_else(|| last.and_then(of)).unwrap_or(0)
        };
        let sent = count(firefly.sent_bytes, |tcp| tcp.bytes_acked);
        let received = count(firefly.received_bytes, |tcp| tcp.bytes_received);
        if sent.max(received) == 0 {
            return None;
        }
        let samples = if keeps_samples && self.samples.len() > 2 {
            self.samples
        } else {
            vec![count_sample(0, 0, 0), count_sample(duration_us, sent, received)]
        };
        let FlowAddresses { source, destination, .. } = firefly.flow;
        let series = FlowSeries {
            congestion_control: self.congestion_control,
            ..FlowSeries::new(source, destination, samples)
        };
        Some(EndedFlow { scitag: self.scitag, started: self.started, ended, series })
    }
}

/// Returns a sample of which only the bytes are known.
fn count_sample(at_us: u64, sent: u64, received: u64) -> FlowSample {
    let tcp = TcpReading {
        bytes_acked: Some(sent),
        bytes_received: Some(received),
        ..TcpReading::default()
    };
    FlowSample::from_tcp_info(at_us, tcp)
}

#[cfg(test)]
pub mod tests {
    use super::*;

    pub fn moment(second: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + second).expect("a time")
    }

    /// A firefly of a flow from this port that began at second 0.
    pub fn firefly(state: FlowState, port: u16, second: i64) -> FireflyMessage {
        FireflyMessage {
            state,
            flow: FlowAddresses {
                source: format!("192.0.2.1:{port}").parse().expect("an address"),
                destination: "198.51.100.7:1094".parse().expect("an address"),
                is_tcp: true,
            },
            scitag: FlowTag { experiment: 2, activity: 19 },
            application: None,
            started: moment(0),
            reported_at: Some(moment(second)),
            sent_bytes: None,
            received_bytes: None,
            congestion_control: None,
            tcp: None,
        }
    }

    pub fn with_bytes(firefly: FireflyMessage, sent: u64) -> FireflyMessage {
        FireflyMessage { sent_bytes: Some(sent), ..firefly }
    }

    /// A firefly with the counters of a flow that the receive window limits: 1 MiB per 80 ms.
    pub fn sampled(state: FlowState, port: u16, second: i64) -> FireflyMessage {
        let time_us = second.unsigned_abs() * 1_000_000;
        let acked = (1 << 20) * time_us / 80_000;
        let tcp = TcpReading {
            rtt_us: 80_100,
            rtt_min_us: Some(79_900),
            mss_bytes: 1448,
            cwnd_bytes: 4 << 20,
            unacked_bytes: 1 << 20,
            unsent_bytes: Some(2 << 20),
            bytes_acked: Some(acked),
            bytes_received: Some(900),
            bytes_sent: Some(acked + (1 << 20)),
            bytes_retransmitted: Some(0),
            busy_us: Some(time_us),
            receive_window_limited_us: Some(time_us * 98 / 100),
            send_buffer_limited_us: Some(0),
            peer_window_bytes: Some(1 << 20),
            ..TcpReading::default()
        };
        FireflyMessage { tcp: Some(tcp), ..firefly(state, port, second) }
    }

    fn count(ended: &EndedFlow) -> (u64, Option<u64>) {
        let last = ended.series.samples.last().expect("two samples");
        (last.at_us, last.tcp.bytes_acked)
    }

    #[test]
    fn a_flow_ends_with_its_bytes_even_if_its_start_was_lost() {
        let mut table = FireflyTable::default();
        table.add(&firefly(FlowState::Start, 1, 0), 0);
        assert!(!table.has_ended_flows());
        table.add(&with_bytes(firefly(FlowState::End, 1, 10), 5_000_000), 10_000_000);
        table.add(&with_bytes(firefly(FlowState::End, 2, 20), 7), 20_000_000);
        let ended = table.take_ended_flows();
        assert_eq!(
            ended.iter().map(count).collect::<Vec<_>>(),
            [(10_000_000, Some(5_000_000)), (20_000_000, Some(7))]
        );
        assert_eq!(table.counts, FireflyCounts { taken: 3, refused: 0, lost_flows: 0 });
        assert!(table.open.is_empty() && !table.has_ended_flows());
    }

    #[test]
    fn counters_of_a_long_flow_are_thinned_and_span_all_of_it() {
        let mut table = FireflyTable::default();
        (1..=1000).for_each(|second| table.add(&sampled(FlowState::Ongoing, 1, second), second));
        table.add(&firefly(FlowState::End, 1, 1001), 1001);
        let samples = &table.take_ended_flows()[0].series.samples;
        assert!((16..=MAX_SAMPLES).contains(&samples.len()), "{}", samples.len());
        assert_eq!(samples[0].at_us, 1_000_000);
        assert_eq!(samples.last().map(|it| it.at_us), Some(1_000_000_000));
    }

    #[test]
    fn flows_without_payload_or_with_a_wrong_clock_are_counted_as_lost() {
        let mut table = FireflyTable::default();
        table.add(&firefly(FlowState::End, 1, 10), 0);
        table.add(&with_bytes(firefly(FlowState::End, 2, -10), 9), 0);
        table.add(&with_bytes(firefly(FlowState::End, 3, 0), 9), 0);
        table.add(&with_bytes(firefly(FlowState::End, 4, 31 * 86_400), 9), 0);
        assert!(!table.has_ended_flows());
        assert_eq!(table.counts.lost_flows, 4);
    }

    #[test]
    fn nobody_can_fill_the_memory() {
        let mut table = FireflyTable::default();
        for port in 0..=u16::MAX {
            table.add(&sampled(FlowState::Start, port, 1), 0);
        }
        assert_eq!(table.open.len(), MAX_OPEN_FLOWS);
        for port in 0..=u16::MAX {
            table.add(&with_bytes(firefly(FlowState::End, port, 2), 9), 0);
        }
        assert_eq!(table.take_ended_flows().len(), MAX_ENDED_FLOWS);
        for port in 0..200 {
            (1..5).for_each(|second| table.add(&sampled(FlowState::Ongoing, port, second), 0));
            table.add(&firefly(FlowState::End, port, 5), 0);
        }
        let ended = table.take_ended_flows();
        let sampled = ended.iter().filter(|it| it.series.samples.len() > 2).count();
        assert_eq!((ended.len(), sampled), (200, MAX_SAMPLED_FLOWS));
    }

    #[test]
    fn silent_flows_and_flows_whose_ports_are_used_again_are_forgotten() {
        let mut table = FireflyTable::default();
        table.add(&firefly(FlowState::Start, 1, 0), 0);
        let other = FireflyMessage { started: moment(50), ..firefly(FlowState::Start, 1, 50) };
        table.add(&other, 50_000_000);
        assert_eq!((table.open.len(), table.counts.lost_flows), (1, 1));
        table.forget_silent_flows(50_000_000 + MAX_SILENCE_US - 1);
        assert_eq!(table.open.len(), 1);
        table.forget_silent_flows(50_000_000 + MAX_SILENCE_US);
        assert_eq!((table.open.len(), table.counts.lost_flows), (0, 2));
    }
}
