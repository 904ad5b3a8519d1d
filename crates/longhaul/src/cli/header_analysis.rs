//! Looks for a policer in the packet headers that a sender captured.

use longhaul_analysis::capture_analysis::CaptureAnalyser;
use longhaul_capture::packet_buffer::FinishedCapture;
use longhaul_model::report::v1::capture::{CapturedFlow, HeaderCapture};
use longhaul_model::report::v1::flows::FlowsObservation;
use longhaul_model::report::v1::observation::StreamEnd;

/// Adds what the captured headers show to the transfers of a watch that sent them.
pub fn add_header_capture(observation: &mut FlowsObservation, captured: &FinishedCapture) {
    let flows = follow_flows(captured);
    for transfer in observation.transfers.iter_mut().filter(|transfer| transfer.sends) {
        let streams: Vec<&StreamEnd> = transfer.run.streams.iter().map(|it| &it.sender).collect();
        transfer.run.ends.sender.header_capture = summarize_streams(captured, &flows, &streams);
    }
}

/// Returns what the captured headers show about the streams of one sender.
pub fn analyse_headers(
    captured: &FinishedCapture,
    streams: &[&StreamEnd],
) -> Option<HeaderCapture> {
    summarize_streams(captured, &follow_flows(captured), streams)
}

fn follow_flows(captured: &FinishedCapture) -> Vec<CapturedFlow> {
    let mut analyser = CaptureAnalyser::default();
    captured.decode_packets().for_each(|packet| analyser.add_packet(&packet));
    analyser.finish().flows
}

fn summarize_streams(
    captured: &FinishedCapture,
    flows: &[CapturedFlow],
    streams: &[&StreamEnd],
) -> Option<HeaderCapture> {
    let own = flows.iter().filter(|flow| streams.iter().any(|stream| is_flow_of(stream, flow)));
    let own: Vec<&CapturedFlow> = own.collect();
    let ways = || own.iter().flat_map(|flow| [&flow.forward, &flow.reverse]);
    let again = ways().filter_map(|way| Some(way.tcp?.retransmitted_packets));
    let summary = HeaderCapture {
        packets: ways().map(|way| way.packets).sum(),
        dropped_packets: captured.capture_report().dropped_packets,
        retransmitted_packets: again.sum(),
        policer: own.iter().find_map(|flow| flow.policer),
    };
    (!own.is_empty()).then_some(summary)
}

fn is_flow_of(stream: &StreamEnd, flow: &CapturedFlow) -> bool {
    let ends = [Some(flow.opener.as_str()), Some(flow.listener.as_str())];
    let own = [stream.local.as_deref(), stream.peer.as_deref()];
    own == ends || own == [ends[1], ends[0]]
}
