//! Captures the packet headers of the busiest sending transfer of a watch.

use super::call_in_namespace;
use crate::header_capture::{HEADER_PLAN, MAX_HEADER_BYTES, is_worth_capture};
use longhaul_capture::bpf_filter::FlowFilter;
use longhaul_capture::capture_thread::CaptureThread;
use longhaul_capture::packet_buffer::FinishedCapture;
use longhaul_model::report::v1::flows::flow_grouping::FlowSeries;
use std::os::fd::OwnedFd;
use std::time::Duration;

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
        let Some(filter) = busiest.filter(|flow| is_worth_headers(flow)).and_then(find_filter)
        else {
            return;
        };
        if let TransferCapture::Armed(namespace) = std::mem::take(self)
            && let Ok(started) = call_in_namespace(namespace, move || {
                CaptureThread::start(&filter, HEADER_PLAN, MAX_HEADER_BYTES)
            })
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

fn is_worth_headers(flow: &FlowSeries) -> bool {
    let ends = flow.samples.first().zip(flow.samples.last());
    let length_us = ends.map_or(0, |(first, last)| last.at_us.saturating_sub(first.at_us));
    let length = Duration::from_micros(length_us);
    is_worth_capture(flow.sent_bytes(), length, flow.retransmitted_segments()) == Some(true)
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
    fn connections_within_a_host_are_not_captured() {
        assert_eq!(find_filter(&flow("127.0.0.1:40000", "127.0.0.1:443")), None);
    }
}
