//! State of a TCP connection in the kernel (TCP_INFO).
//!
//! The structure has grown with the kernel; the returned length determines which fields exist.
//! Fields that do not exist are absent, never zero.
//!
//! Source: `struct tcp_info` of linux/tcp.h, offsets asserted below.
//! Units: bytes, `Duration`, bit/s (converted from bytes/s); segments where only the kernel knows
//! their length.
//! Error: times have a resolution of microseconds, the three "limited" times of jiffies (1 to 10
//! ms).

use crate::syscall::check_status;
use longhaul_model::units::Rate;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

/// Buffer size, with space for fields of newer kernels.
const ROOM_BYTES: usize = 512;
/// Length of the shortest form (Linux 2.6.10): all fields up to the retransmit count.
const MIN_BYTES: usize = 104;

/// A snapshot of a connection's counters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TcpInfo {
    /// 0 open, 1 disorder, 2 CWR, 3 recovery, 4 loss.
    pub ca_state: u8,
    pub timestamps: bool,
    pub sack: bool,
    pub window_scaling: bool,
    pub ecn: bool,
    pub send_window_shift: u8,
    pub receive_window_shift: u8,
    pub send_mss_bytes: u32,
    pub receive_mss_bytes: u32,
    pub path_mtu_bytes: u32,
    pub unacked_segments: u32,
    pub lost_segments: u32,
    pub retransmitted_segments: u32,
    pub reordering_segments: u32,
    pub cwnd_segments: u32,
    /// Absent while it is "infinite".
    pub ssthresh_segments: Option<u32>,
    pub rtt: Duration,
    pub rttvar: Duration,
    /// RTT estimated by the receiver.
    pub receiver_rtt: Duration,
    pub rtt_min: Option<Duration>,
    /// Absent without a limit, or on an older kernel.
    pub pacing: Option<Rate>,
    pub delivery: Option<Rate>,
    pub app_limited: Option<bool>,
    pub bytes_acked: Option<u64>,
    pub bytes_received: Option<u64>,
    pub segments_out: Option<u32>,
    pub segments_in: Option<u32>,
    pub data_segments_in: Option<u32>,
    pub data_segments_out: Option<u32>,
    pub unsent_bytes: Option<u32>,
    pub busy: Option<Duration>,
    pub receive_window_limited: Option<Duration>,
    pub send_buffer_limited: Option<Duration>,
    pub bytes_sent: Option<u64>,
    pub bytes_retransmitted: Option<u64>,
    pub dsack_duplicates: Option<u32>,
    pub reordering_seen: Option<u32>,
    pub out_of_order_segments: Option<u32>,
    pub peer_window_bytes: Option<u32>,
    pub own_window_bytes: Option<u32>,
    pub timeouts: Option<u16>,
    pub timeout: Option<Duration>,
}

/// Byte offsets in `struct tcp_info`, in the order of introduction.
mod offsets {
    use std::mem::offset_of;

    pub const CA_STATE: usize = 1;
    pub const OPTIONS: usize = 5;
    pub const WINDOW_SHIFTS: usize = 6;
    pub const FLAGS: usize = 7;
    pub const SEND_MSS: usize = 16;
    pub const RECEIVE_MSS: usize = 20;
    pub const UNACKED: usize = 24;
    pub const LOST: usize = 32;
    pub const PATH_MTU: usize = 60;
    pub const RTT: usize = 68;
    pub const RTTVAR: usize = 72;
    pub const SSTHRESH: usize = 76;
    pub const CWND: usize = 80;
    pub const REORDERING: usize = 88;
    pub const RECEIVER_RTT: usize = 92;
    pub const RETRANSMITTED: usize = 100;
    pub const PACING: usize = 104;
    pub const BYTES_ACKED: usize = 120;
    pub const BYTES_RECEIVED: usize = 128;
    pub const SEGMENTS_OUT: usize = 136;
    pub const SEGMENTS_IN: usize = 140;
    pub const UNSENT: usize = 144;
    pub const RTT_MIN: usize = 148;
    pub const DATA_SEGMENTS_IN: usize = 152;
    pub const DATA_SEGMENTS_OUT: usize = 156;
    pub const DELIVERY: usize = 160;
    pub const BUSY: usize = 168;
    pub const RECEIVE_WINDOW_LIMITED: usize = 176;
    pub const SEND_BUFFER_LIMITED: usize = 184;
    pub const BYTES_SENT: usize = 200;
    pub const BYTES_RETRANSMITTED: usize = 208;
    pub const DSACK: usize = 216;
    pub const REORDERING_SEEN: usize = 220;
    pub const OUT_OF_ORDER: usize = 224;
    pub const PEER_WINDOW: usize = 228;
    pub const OWN_WINDOW: usize = 232;
    pub const TIMEOUTS: usize = 240;
    pub const TIMEOUT_MS: usize = 244;

    const _: () = {
        assert!(CA_STATE == offset_of!(libc::tcp_info, tcpi_ca_state));
        assert!(OPTIONS == offset_of!(libc::tcp_info, tcpi_options));
        assert!(WINDOW_SHIFTS == offset_of!(libc::tcp_info, tcpi_snd_rcv_wscale));
        assert!(FLAGS + 1 == offset_of!(libc::tcp_info, tcpi_rto));
        assert!(SEND_MSS == offset_of!(libc::tcp_info, tcpi_snd_mss));
        assert!(RECEIVE_MSS == offset_of!(libc::tcp_info, tcpi_rcv_mss));
        assert!(UNACKED == offset_of!(libc::tcp_info, tcpi_unacked));
        assert!(LOST == offset_of!(libc::tcp_info, tcpi_lost));
        assert!(PATH_MTU == offset_of!(libc::tcp_info, tcpi_pmtu));
        assert!(RTT == offset_of!(libc::tcp_info, tcpi_rtt));
        assert!(RTTVAR == offset_of!(libc::tcp_info, tcpi_rttvar));
        assert!(SSTHRESH == offset_of!(libc::tcp_info, tcpi_snd_ssthresh));
        assert!(CWND == offset_of!(libc::tcp_info, tcpi_snd_cwnd));
        assert!(REORDERING == offset_of!(libc::tcp_info, tcpi_reordering));
        assert!(RECEIVER_RTT == offset_of!(libc::tcp_info, tcpi_rcv_rtt));
        assert!(RETRANSMITTED == offset_of!(libc::tcp_info, tcpi_total_retrans));
    };

    // The C library of some targets ends its structure here; the kernel's continues.
    #[cfg(target_env = "gnu")]
    const _: () = {
        assert!(PACING == offset_of!(libc::tcp_info, tcpi_pacing_rate));
        assert!(BYTES_ACKED == offset_of!(libc::tcp_info, tcpi_bytes_acked));
        assert!(BYTES_RECEIVED == offset_of!(libc::tcp_info, tcpi_bytes_received));
        assert!(SEGMENTS_OUT == offset_of!(libc::tcp_info, tcpi_segs_out));
        assert!(SEGMENTS_IN == offset_of!(libc::tcp_info, tcpi_segs_in));
        assert!(UNSENT == offset_of!(libc::tcp_info, tcpi_notsent_bytes));
        assert!(RTT_MIN == offset_of!(libc::tcp_info, tcpi_min_rtt));
        assert!(DATA_SEGMENTS_IN == offset_of!(libc::tcp_info, tcpi_data_segs_in));
        assert!(DATA_SEGMENTS_OUT == offset_of!(libc::tcp_info, tcpi_data_segs_out));
        assert!(DELIVERY == offset_of!(libc::tcp_info, tcpi_delivery_rate));
        assert!(BUSY == offset_of!(libc::tcp_info, tcpi_busy_time));
        assert!(RECEIVE_WINDOW_LIMITED == offset_of!(libc::tcp_info, tcpi_rwnd_limited));
        assert!(SEND_BUFFER_LIMITED == offset_of!(libc::tcp_info, tcpi_sndbuf_limited));
        assert!(BYTES_SENT == offset_of!(libc::tcp_info, tcpi_bytes_sent));
        assert!(BYTES_RETRANSMITTED == offset_of!(libc::tcp_info, tcpi_bytes_retrans));
        assert!(DSACK == offset_of!(libc::tcp_info, tcpi_dsack_dups));
        assert!(REORDERING_SEEN == offset_of!(libc::tcp_info, tcpi_reord_seen));
        assert!(OUT_OF_ORDER == offset_of!(libc::tcp_info, tcpi_rcv_ooopack));
        assert!(PEER_WINDOW == offset_of!(libc::tcp_info, tcpi_snd_wnd));
        assert!(OWN_WINDOW == offset_of!(libc::tcp_info, tcpi_rcv_wnd));
        assert!(TIMEOUTS == offset_of!(libc::tcp_info, tcpi_total_rto));
        assert!(TIMEOUT_MS == offset_of!(libc::tcp_info, tcpi_total_rto_time));
    };
}

/// Reads the counters of a TCP socket.
pub fn read_tcp_info(socket: impl AsFd) -> io::Result<TcpInfo> {
    let mut raw = [0_u8; ROOM_BYTES];
    let mut length = ROOM_BYTES as u32;
    // SAFETY: `raw` and `length` live for the call, and `length` says how much room there is.
    let answer = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            raw.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    check_status(answer)?;
    let known = &raw[..(length as usize).min(ROOM_BYTES)];
    parse_tcp_info(known).ok_or_else(|| {
        let text = format!("TCP_INFO has {length} bytes, expected at least {MIN_BYTES}");
        io::Error::new(io::ErrorKind::InvalidData, text)
    })
}

/// Parses as many fields as `raw` contains; `None` if it is shorter than any kernel's structure.
pub fn parse_tcp_info(raw: &[u8]) -> Option<TcpInfo> {
    if raw.len() < MIN_BYTES {
        return None;
    }
    let mut info = parse_core(raw)?;
    add_rates_and_counts(&mut info, raw);
    add_limits(&mut info, raw);
    Some(info)
}

fn parse_core(raw: &[u8]) -> Option<TcpInfo> {
    /// `TCP_INFINITE_SSTHRESH`, net/tcp.h.
    const SSTHRESH_INFINITE: u32 = 0x7fff_ffff;
    let options = *raw.get(offsets::OPTIONS)?;
    let shifts = *raw.get(offsets::WINDOW_SHIFTS)?;
    Some(TcpInfo {
        ca_state: *raw.get(offsets::CA_STATE)?,
        timestamps: options & 1 != 0,
        sack: options & 2 != 0,
        window_scaling: options & 4 != 0,
        ecn: options & 8 != 0,
        send_window_shift: shifts & 0x0f,
        receive_window_shift: shifts >> 4,
        send_mss_bytes: u32_at(raw, offsets::SEND_MSS)?,
        receive_mss_bytes: u32_at(raw, offsets::RECEIVE_MSS)?,
        path_mtu_bytes: u32_at(raw, offsets::PATH_MTU)?,
        unacked_segments: u32_at(raw, offsets::UNACKED)?,
        lost_segments: u32_at(raw, offsets::LOST)?,
        retransmitted_segments: u32_at(raw, offsets::RETRANSMITTED)?,
        reordering_segments: u32_at(raw, offsets::REORDERING)?,
        cwnd_segments: u32_at(raw, offsets::CWND)?,
        ssthresh_segments: u32_at(raw, offsets::SSTHRESH)
            .filter(|&value| value < SSTHRESH_INFINITE),
        rtt: micros_u32_at(raw, offsets::RTT)?,
        rttvar: micros_u32_at(raw, offsets::RTTVAR)?,
        receiver_rtt: micros_u32_at(raw, offsets::RECEIVER_RTT)?,
        ..TcpInfo::default()
    })
}

/// Adds the fields of Linux 3.15 to 4.9.
fn add_rates_and_counts(info: &mut TcpInfo, raw: &[u8]) {
    let unlimited = |rate: &u64| *rate < u64::from(u32::MAX) || *rate >> 60 == 0;
    info.pacing = u64_at(raw, offsets::PACING)
        .filter(|&rate| rate != u64::MAX && rate != u64::from(u32::MAX))
        .filter(unlimited)
        .map(rate_from_bytes);
    info.bytes_acked = u64_at(raw, offsets::BYTES_ACKED);
    info.bytes_received = u64_at(raw, offsets::BYTES_RECEIVED);
    info.segments_out = u32_at(raw, offsets::SEGMENTS_OUT);
    info.segments_in = u32_at(raw, offsets::SEGMENTS_IN);
    info.unsent_bytes = u32_at(raw, offsets::UNSENT);
    info.rtt_min = u32_at(raw, offsets::RTT_MIN)
        .filter(|&micros| micros != u32::MAX)
        .map(|micros| Duration::from_micros(micros.into()));
    info.data_segments_in = u32_at(raw, offsets::DATA_SEGMENTS_IN);
    info.data_segments_out = u32_at(raw, offsets::DATA_SEGMENTS_OUT);
    info.delivery = u64_at(raw, offsets::DELIVERY).map(rate_from_bytes);
    // The flag has shared a byte since 4.9, which also introduced the rate.
    info.app_limited = info.delivery.map(|_| raw[offsets::FLAGS] & 1 != 0);
}

/// Adds the fields of Linux 4.10 to 6.7.
fn add_limits(info: &mut TcpInfo, raw: &[u8]) {
    let micros = |offset| u64_at(raw, offset).map(Duration::from_micros);
    info.busy = micros(offsets::BUSY);
    info.receive_window_limited = micros(offsets::RECEIVE_WINDOW_LIMITED);
    info.send_buffer_limited = micros(offsets::SEND_BUFFER_LIMITED);
    info.bytes_sent = u64_at(raw, offsets::BYTES_SENT);
    info.bytes_retransmitted = u64_at(raw, offsets::BYTES_RETRANSMITTED);
    info.dsack_duplicates = u32_at(raw, offsets::DSACK);
    info.reordering_seen = u32_at(raw, offsets::REORDERING_SEEN);
    info.out_of_order_segments = u32_at(raw, offsets::OUT_OF_ORDER);
    info.peer_window_bytes = u32_at(raw, offsets::PEER_WINDOW);
    info.own_window_bytes = u32_at(raw, offsets::OWN_WINDOW);
    info.timeouts = bytes_at(raw, offsets::TIMEOUTS).map(u16::from_ne_bytes);
    info.timeout =
        u32_at(raw, offsets::TIMEOUT_MS).map(|millis| Duration::from_millis(millis.into()));
}

fn rate_from_bytes(rate: u64) -> Rate {
    Rate::bits_per_second(rate.saturating_mul(8))
}

fn bytes_at<const N: usize>(raw: &[u8], offset: usize) -> Option<[u8; N]> {
    raw.get(offset..offset + N)?.try_into().ok()
}

fn u32_at(raw: &[u8], offset: usize) -> Option<u32> {
    bytes_at(raw, offset).map(u32::from_ne_bytes)
}

fn u64_at(raw: &[u8], offset: usize) -> Option<u64> {
    bytes_at(raw, offset).map(u64::from_ne_bytes)
}

fn micros_u32_at(raw: &[u8], offset: usize) -> Option<Duration> {
    u32_at(raw, offset).map(|micros| Duration::from_micros(micros.into()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn each_kernel_age_gives_the_fields_it_has_and_no_other() {
        let raw = [1_u8; 248];
        assert_eq!(parse_tcp_info(&raw[..MIN_BYTES - 1]), None);
        let old = parse_tcp_info(&raw[..104]).expect("2.6.10");
        assert_eq!((old.pacing, old.bytes_acked, old.rtt_min), (None, None, None));
        assert_eq!((old.app_limited, old.busy), (None, None));
        let busy = parse_tcp_info(&raw[..192]).expect("4.10");
        assert!(busy.delivery.is_some() && busy.send_buffer_limited.is_some());
        assert_eq!((busy.bytes_sent, busy.dsack_duplicates), (None, None));
        let reordering = parse_tcp_info(&raw[..224]).expect("4.19");
        assert!(reordering.bytes_sent.is_some() && reordering.reordering_seen.is_some());
        assert_eq!((reordering.out_of_order_segments, reordering.peer_window_bytes), (None, None));
        let window = parse_tcp_info(&raw[..232]).expect("5.4");
        assert!(window.peer_window_bytes.is_some());
        assert_eq!((window.own_window_bytes, window.timeouts), (None, None));
        let new = parse_tcp_info(&raw).expect("6.7");
        assert!(new.own_window_bytes.is_some() && new.timeout.is_some());
    }

    #[test]
    fn no_length_and_no_content_makes_the_parser_fail() {
        for length in 0..=ROOM_BYTES {
            for byte in [0, 1, 0x7f, 0xff] {
                assert_eq!(parse_tcp_info(&vec![byte; length]).is_some(), length >= MIN_BYTES);
            }
        }
    }

    #[test]
    fn values_that_mean_none_are_absent() {
        let info = parse_tcp_info(&[0xff; 248]).expect("long enough");
        assert_eq!((info.pacing, info.rtt_min, info.ssthresh_segments), (None, None, None));
    }

    #[test]
    fn a_fresh_connection_has_a_congestion_window_and_an_mss() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let stream = TcpStream::connect(listener.local_addr().expect("address")).expect("connect");
        let info = read_tcp_info(&stream).expect("TCP_INFO");
        assert!(info.cwnd_segments > 0 && info.send_mss_bytes > 0);
        assert_eq!(info.ssthresh_segments, None);
    }

    proptest! {
        #[test]
        fn any_bytes_of_any_length_parse_or_are_refused(raw in prop::collection::vec(any::<u8>(), 0..300)) {
            prop_assert_eq!(parse_tcp_info(&raw).is_some(), raw.len() >= MIN_BYTES);
        }
    }
}
