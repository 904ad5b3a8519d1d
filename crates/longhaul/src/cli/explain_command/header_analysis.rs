//! Looks for a policer in the packet headers that a watch captured.

use longhaul_analysis::capture_analysis::CaptureAnalyser;
use longhaul_capture::packet_buffer::FinishedCapture;
use longhaul_model::report::v1::capture::CapturedFlow;
use longhaul_model::report::v1::flows::{FlowsObservation, HeaderCapture, ObservedTransfer};

/// Analyses the captured headers, and adds the result to the transfer whose packets they are.
pub fn add_header_capture(observation: &mut FlowsObservation, captured: &FinishedCapture) {
    let mut analyser = CaptureAnalyser::default();
    captured.decode_packets().for_each(|packet| analyser.add_packet(&packet));
    let flows = analyser.finish().flows;
    let senders = observation.transfers.iter_mut().filter(|transfer| transfer.sends);
    for transfer in senders {
        let own = flows.iter().filter(|flow| is_connection_of(transfer, flow));
        let own: Vec<&CapturedFlow> = own.collect();
        if own.is_empty() {
            continue;
        }
        let ways = || own.iter().flat_map(|flow| [&flow.forward, &flow.reverse]);
        let again = ways().filter_map(|way| Some(way.tcp?.retransmitted_packets));
        transfer.header_capture = Some(HeaderCapture {
            packets: ways().map(|way| way.packets).sum(),
            dropped_packets: captured.capture_report().dropped_packets,
            retransmitted_packets: again.sum(),
            policer: own.iter().find_map(|flow| flow.policer),
        });
    }
}

fn is_connection_of(transfer: &ObservedTransfer, flow: &CapturedFlow) -> bool {
    let ends = [Some(flow.opener.as_str()), Some(flow.listener.as_str())];
    transfer.run.streams.iter().any(|stream| {
        let own = [stream.sender.local.as_deref(), stream.sender.peer.as_deref()];
        own == ends || own == [ends[1], ends[0]]
    })
}
