//! Converts the kernel's TCP_INFO and buffer sizes to the report's types.

use super::sockets::DataSocket;
use longhaul_model::report::v1::observation::{SocketBuffer, TcpOptions, TcpReading};
use longhaul_sys::sockopt;
use longhaul_sys::tcp_info::TcpInfo;
use std::time::Duration;

fn to_micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

/// Converts TCP_INFO; segments become bytes by the sending side's MSS.
pub(super) fn convert_tcp_info(info: &TcpInfo) -> TcpReading {
    let mss = u64::from(info.send_mss_bytes);
    TcpReading {
        rtt_us: to_micros(info.rtt),
        rttvar_us: to_micros(info.rttvar),
        ca_state: info.ca_state,
        mss_bytes: mss,
        cwnd_bytes: u64::from(info.cwnd_segments) * mss,
        ssthresh_bytes: info.ssthresh_segments.map(|count| u64::from(count) * mss),
        unacked_bytes: u64::from(info.unacked_segments) * mss,
        lost_segments: info.lost_segments.into(),
        retransmitted_segments: info.retransmitted_segments.into(),
        reordering_segments: info.reordering_segments.into(),
        rtt_min_us: info.rtt_min.map(to_micros),
        pacing_bps: info.pacing.map(longhaul_model::units::Rate::as_bps),
        delivery_bps: info.delivery.map(longhaul_model::units::Rate::as_bps),
        app_limited: info.app_limited,
        bytes_acked: info.bytes_acked,
        bytes_received: info.bytes_received,
        segments_out: info.segments_out.map(u64::from),
        segments_in: info.segments_in.map(u64::from),
        data_segments_out: info.data_segments_out.map(u64::from),
        data_segments_in: info.data_segments_in.map(u64::from),
        unsent_bytes: info.unsent_bytes.map(u64::from),
        busy_us: info.busy.map(to_micros),
        receive_window_limited_us: info.receive_window_limited.map(to_micros),
        send_buffer_limited_us: info.send_buffer_limited.map(to_micros),
        bytes_sent: info.bytes_sent,
        bytes_retransmitted: info.bytes_retransmitted,
        dsack_duplicates: info.dsack_duplicates.map(u64::from),
        reordering_seen: info.reordering_seen.map(u64::from),
        out_of_order_segments: info.out_of_order_segments.map(u64::from),
        peer_window_bytes: info.peer_window_bytes.map(u64::from),
        own_window_bytes: info.own_window_bytes.map(u64::from),
        timeouts: info.timeouts.map(u64::from),
        timeout_us: info.timeout.map(to_micros),
    }
}

pub(crate) fn convert_tcp_options(info: &TcpInfo) -> TcpOptions {
    let shift = |shift| info.window_scaling.then_some(shift);
    TcpOptions {
        timestamps: info.timestamps,
        sack: info.sack,
        window_scaling: info.window_scaling,
        ecn: info.ecn,
        send_window_shift: shift(info.send_window_shift),
        receive_window_shift: shift(info.receive_window_shift),
    }
}

/// Returns the socket's two buffers: the requested sizes and those that the kernel holds now.
pub(super) fn read_buffers(
    socket: &DataSocket,
    asked_send: Option<u64>,
    asked_receive: Option<u64>,
) -> (Option<SocketBuffer>, Option<SocketBuffer>) {
    let buffer = |asked_bytes, stored: usize| SocketBuffer {
        asked_bytes,
        granted_bytes: stored as u64 / 2,
        stored_bytes: stored as u64,
    };
    (
        sockopt::stored_send_buffer(socket).ok().map(|stored| buffer(asked_send, stored)),
        sockopt::stored_receive_buffer(socket).ok().map(|stored| buffer(asked_receive, stored)),
    )
}
