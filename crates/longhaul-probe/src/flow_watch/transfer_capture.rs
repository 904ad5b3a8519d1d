//! Captures the packet headers of the busiest sending transfer, beside its counters.
//!
//! Counters show how much was lost, packets also which ones: a token bucket drops those that come too
//! early. A fast transfer is captured after its first loss only, because most have none.
//!
//! Source: packet(7). Units: packets. Error: packets that the kernel dropped are counted.
//! Wrong when: another flow of the watch is the one that is asked about; only one transfer is captured.

use super::call_in_namespace;
use longhaul_capture::bpf_filter::FlowFilter;
use longhaul_capture::capture_thread::CaptureThread;
use longhaul_capture::packet_buffer::FinishedCapture;
use longhaul_model::report::v1::capture::CapturePlan;
use longhaul_model::report::v1::flows::flow_grouping::FlowSeries;
use longhaul_model::units::Rate;
use std::os::fd::OwnedFd;
use std::time::Duration;

/// The limits of a capture: the whole watch of a slow transfer, and seconds of a fast one.
const PLAN: CapturePlan =
    CapturePlan { snap_bytes: None, packets: 200_000, last: false, far: false };
const MAX_BYTES: u64 = 32 << 20;
/// A slower transfer is captured without a loss. The packets of 900 Mbit/s cost 0.7 % of a core.
const SLOW_BPS: u64 = 1_000_000_000;
/// The number of samples after which the busiest sender is known.
const MIN_SAMPLES: usize = 3;

/// The capture of a watch.
#[derive(Debug, Default)]
pub enum TransferCapture {
    /// None is requested, it cannot be had, or it was finished.
    #[default]
    Off,
    /// Waits for a sender, in this network namespace if it is not that of the calling thread.
    Armed(Option<OwnedFd>),
    Active(CaptureThread),
}

impl TransferCapture {
    /// Starts the capture if it waits for one and the busiest sender is slow or has lost segments. Without
    /// the privilege to capture there is none.
    pub(super) fn start_if_due<'f>(&mut self, flows: impl Iterator<Item = &'f FlowSeries>) {
        if !matches!(self, TransferCapture::Armed(_)) {
            return;
        }
        let busiest = flows.max_by_key(|flow| flow.sent_bytes());
        let Some(filter) = busiest.filter(|flow| is_worth_capture(flow)).and_then(find_filter)
        else {
            return;
        };
        if let TransferCapture::Armed(namespace) = std::mem::take(self)
            && let Ok(started) =
                call_in_namespace(namespace, move || CaptureThread::start(&filter, PLAN, MAX_BYTES))
        {
            *self = TransferCapture::Active(started);
        }
    }

    /// Ends the capture and returns its packets.
    pub(super) fn finish(&mut self) -> Option<FinishedCapture> {
        match std::mem::take(self) {
            TransferCapture::Active(capturing) => capturing.finish(),
            TransferCapture::Off | TransferCapture::Armed(_) => None,
        }
    }
}

fn is_worth_capture(flow: &FlowSeries) -> bool {
    let ends = flow.samples.first().zip(flow.samples.last());
    let length_us = ends.map_or(0, |(first, last)| last.at_us.saturating_sub(first.at_us));
    let rate = Rate::over(flow.sent_bytes(), Duration::from_micros(length_us));
    let is_slow =
        flow.samples.len() >= MIN_SAMPLES && rate.is_some_and(|rate| rate.as_bps() <= SLOW_BPS);
    flow.sent_bytes() > 0 && (is_slow || flow.retransmitted_segments() > 0)
}

/// Returns the filter of all connections between the two hosts that have the lower one of the two ports,
/// which is that of the service; `None` within one host.
fn find_filter(flow: &FlowSeries) -> Option<FlowFilter> {
    let (local, peer) = (flow.local, flow.peer);
    let (client, server) = if local.port() < peer.port() { (peer, local) } else { (local, peer) };
    let filter = FlowFilter { udp: false, opener: client.ip(), listener: server, control_port: 0 };
    (local.ip() != peer.ip()).then_some(filter)
}

#[cfg(test)]
mod tests {
    use super::*;
    use longhaul_model::report::v1::flows::flow_grouping::FlowSample;
    use longhaul_model::report::v1::observation::TcpReading;

    fn flow(local: &str, peer: &str) -> FlowSeries {
        let [local, peer] = [local, peer].map(|text| text.parse().expect("an address"));
        FlowSeries::new(local, peer, Vec::new())
    }

    #[test]
    fn all_connections_with_the_port_of_the_service_are_captured_at_either_end() {
        for [local, peer] in
            [["192.0.2.1:40000", "192.0.2.2:443"], ["192.0.2.2:443", "192.0.2.1:40000"]]
        {
            let filter = find_filter(&flow(local, peer)).expect("a filter");
            assert_eq!(filter.opener.to_string(), "192.0.2.1");
            assert_eq!(filter.listener.to_string(), "192.0.2.2:443");
        }
    }

    #[test]
    fn a_slow_sender_is_captured_at_once_and_a_fast_one_after_a_loss() {
        let sender = |sample_bytes: u64, lost: u64| {
            let samples = (0..4).map(|number| {
                let tcp = TcpReading {
                    bytes_acked: Some(number * sample_bytes),
                    retransmitted_segments: number * lost,
                    ..TcpReading::default()
                };
                FlowSample::from_tcp_info(number * 100_000, tcp)
            });
            FlowSeries { samples: samples.collect(), ..flow("192.0.2.1:1", "192.0.2.2:2") }
        };
        let cases = [(0, 0), (1_000_000, 0), (100_000_000, 0), (100_000_000, 1)];
        let due = cases.map(|(bytes, lost)| is_worth_capture(&sender(bytes, lost)));
        assert_eq!(due, [false, true, false, true]);
    }

    #[test]
    fn connections_within_a_host_are_not_captured() {
        assert_eq!(find_filter(&flow("127.0.0.1:40000", "127.0.0.1:443")), None);
    }
}
