//! State of a TCP connection in the kernel (TCP_INFO).
//!
//! The structure has grown with the kernel; the returned length determines which fields exist.
//! Fields that do not exist are absent, never zero.
//!
//! Source: `struct tcp_info` of linux/tcp.h.
//! Units: those of the report: bytes (segments times the MSS of the sending side), microseconds,
//! bit/s (converted from bytes/s).
//! Error: times have a resolution of microseconds, the three "limited" times of jiffies (1 to 10
//! ms).

use crate::syscall::check_status;
use libc::tcp_info;
use longhaul_model::report::v1::observation::{SSTHRESH_INFINITE, TcpOptions, TcpReading};
use std::io;
use std::mem::offset_of;
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

/// Buffer size, with space for fields of newer kernels.
const ROOM_BYTES: usize = 512;
/// Length of the shortest form (Linux 2.6.10): all fields up to the retransmit count.
const MIN_BYTES: usize = 104;
/// Offset of the bits that libc does not name: the rate sample is limited by the application.
const FLAGS: usize = offset_of!(tcp_info, tcpi_rto) - 1;

/// A snapshot of a connection's counters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TcpInfo {
    pub reading: TcpReading,
    pub options: TcpOptions,
    /// The limit that the application set (SO_MAX_PACING_RATE), since Linux 3.15.
    pub max_pacing_bps: Option<u64>,
    /// The receiver's own estimate of the RTT, from the arrival of its windows.
    pub receive_rtt_us: Option<u64>,
}

impl TcpInfo {
    /// Returns the smoothed RTT; zero before the first sample.
    pub fn rtt(&self) -> Duration {
        Duration::from_micros(self.reading.rtt_us)
    }

    /// Returns the smallest RTT so far, since Linux 4.6.
    pub fn rtt_min(&self) -> Option<Duration> {
        self.reading.rtt_min_us.map(Duration::from_micros)
    }
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
    let mut reading = parse_core(raw)?;
    add_rates_and_counts(&mut reading, raw);
    add_limits(&mut reading, raw);
    Some(TcpInfo {
        reading,
        options: parse_options(raw)?,
        max_pacing_bps: parse_pacing_rate(raw, offset_of!(tcp_info, tcpi_max_pacing_rate)),
        receive_rtt_us: u32_at(raw, offset_of!(tcp_info, tcpi_rcv_rtt)).filter(|us| *us > 0),
    })
}

/// Parses a pacing rate; `None` if there is no limit.
fn parse_pacing_rate(raw: &[u8], offset: usize) -> Option<u64> {
    let unlimited = |rate: &u64| *rate < u64::from(u32::MAX) || *rate >> 60 == 0;
    u64_at(raw, offset)
        .filter(|&rate| rate != u64::MAX && rate != u64::from(u32::MAX))
        .filter(unlimited)
        .map(bytes_to_bits)
}

fn parse_options(raw: &[u8]) -> Option<TcpOptions> {
    let options = *raw.get(offset_of!(tcp_info, tcpi_options))?;
    let shifts = *raw.get(offset_of!(tcp_info, tcpi_snd_rcv_wscale))?;
    Some(TcpOptions::from_kernel(options, shifts))
}

fn parse_core(raw: &[u8]) -> Option<TcpReading> {
    let mss_bytes = u32_at(raw, offset_of!(tcp_info, tcpi_snd_mss))?;
    let ssthresh = u32_at(raw, offset_of!(tcp_info, tcpi_snd_ssthresh));
    Some(TcpReading {
        rtt_us: u32_at(raw, offset_of!(tcp_info, tcpi_rtt))?,
        rttvar_us: u32_at(raw, offset_of!(tcp_info, tcpi_rttvar))?,
        ca_state: *raw.get(offset_of!(tcp_info, tcpi_ca_state))?,
        mss_bytes,
        cwnd_bytes: u32_at(raw, offset_of!(tcp_info, tcpi_snd_cwnd))? * mss_bytes,
        ssthresh_bytes: ssthresh
            .filter(|&segments| segments < SSTHRESH_INFINITE)
            .map(|segments| segments * mss_bytes),
        unacked_bytes: u32_at(raw, offset_of!(tcp_info, tcpi_unacked))? * mss_bytes,
        lost_segments: u32_at(raw, offset_of!(tcp_info, tcpi_lost))?,
        retransmitted_segments: u32_at(raw, offset_of!(tcp_info, tcpi_total_retrans))?,
        reordering_segments: u32_at(raw, offset_of!(tcp_info, tcpi_reordering))?,
        ..TcpReading::default()
    })
}

/// Adds the fields of Linux 3.15 to 4.9.
fn add_rates_and_counts(reading: &mut TcpReading, raw: &[u8]) {
    reading.pacing_bps = parse_pacing_rate(raw, offset_of!(tcp_info, tcpi_pacing_rate));
    reading.bytes_acked = u64_at(raw, offset_of!(tcp_info, tcpi_bytes_acked));
    reading.bytes_received = u64_at(raw, offset_of!(tcp_info, tcpi_bytes_received));
    reading.segments_out = u32_at(raw, offset_of!(tcp_info, tcpi_segs_out));
    reading.segments_in = u32_at(raw, offset_of!(tcp_info, tcpi_segs_in));
    reading.unsent_bytes = u32_at(raw, offset_of!(tcp_info, tcpi_notsent_bytes));
    reading.rtt_min_us = u32_at(raw, offset_of!(tcp_info, tcpi_min_rtt))
        .filter(|&micros| micros != u64::from(u32::MAX));
    reading.data_segments_in = u32_at(raw, offset_of!(tcp_info, tcpi_data_segs_in));
    reading.data_segments_out = u32_at(raw, offset_of!(tcp_info, tcpi_data_segs_out));
    reading.delivery_bps = u64_at(raw, offset_of!(tcp_info, tcpi_delivery_rate)).map(bytes_to_bits);
    // The flag has shared a byte since 4.9, which also introduced the rate.
    reading.app_limited = reading.delivery_bps.map(|_| raw[FLAGS] & 1 != 0);
}

/// Adds the fields of Linux 4.10 to 6.7.
fn add_limits(reading: &mut TcpReading, raw: &[u8]) {
    reading.busy_us = u64_at(raw, offset_of!(tcp_info, tcpi_busy_time));
    reading.receive_window_limited_us = u64_at(raw, offset_of!(tcp_info, tcpi_rwnd_limited));
    reading.send_buffer_limited_us = u64_at(raw, offset_of!(tcp_info, tcpi_sndbuf_limited));
    reading.delivered_segments = u32_at(raw, offset_of!(tcp_info, tcpi_delivered));
    reading.marked_segments = u32_at(raw, offset_of!(tcp_info, tcpi_delivered_ce));
    reading.bytes_sent = u64_at(raw, offset_of!(tcp_info, tcpi_bytes_sent));
    reading.bytes_retransmitted = u64_at(raw, offset_of!(tcp_info, tcpi_bytes_retrans));
    reading.dsack_duplicates = u32_at(raw, offset_of!(tcp_info, tcpi_dsack_dups));
    reading.reordering_seen = u32_at(raw, offset_of!(tcp_info, tcpi_reord_seen));
    reading.out_of_order_segments = u32_at(raw, offset_of!(tcp_info, tcpi_rcv_ooopack));
    reading.peer_window_bytes = u32_at(raw, offset_of!(tcp_info, tcpi_snd_wnd));
    reading.own_window_bytes = u32_at(raw, offset_of!(tcp_info, tcpi_rcv_wnd));
    reading.timeouts = bytes_at(raw, offset_of!(tcp_info, tcpi_total_rto))
        .map(|count| u16::from_ne_bytes(count).into());
    reading.timeout_us =
        u32_at(raw, offset_of!(tcp_info, tcpi_total_rto_time)).map(|millis| millis * 1000);
}

fn bytes_to_bits(bytes_per_second: u64) -> u64 {
    bytes_per_second.saturating_mul(8)
}

fn bytes_at<const N: usize>(raw: &[u8], offset: usize) -> Option<[u8; N]> {
    raw.get(offset..offset + N)?.try_into().ok()
}

fn u32_at(raw: &[u8], offset: usize) -> Option<u64> {
    bytes_at(raw, offset).map(|bytes| u32::from_ne_bytes(bytes).into())
}

fn u64_at(raw: &[u8], offset: usize) -> Option<u64> {
    bytes_at(raw, offset).map(u64::from_ne_bytes)
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
        let parsed = |length| parse_tcp_info(&raw[..length]).map(|info| info.reading);
        let old = parsed(104).expect("2.6.10");
        assert_eq!((old.pacing_bps, old.bytes_acked, old.rtt_min_us), (None, None, None));
        assert_eq!((old.app_limited, old.busy_us), (None, None));
        let busy = parsed(192).expect("4.10");
        assert!(busy.delivery_bps.is_some() && busy.send_buffer_limited_us.is_some());
        assert_eq!((busy.bytes_sent, busy.delivered_segments), (None, None));
        let reordering = parsed(224).expect("4.19");
        assert!(reordering.delivered_segments.is_some() && reordering.reordering_seen.is_some());
        assert_eq!((reordering.out_of_order_segments, reordering.peer_window_bytes), (None, None));
        let window = parsed(232).expect("5.4");
        assert!(window.peer_window_bytes.is_some());
        assert_eq!((window.own_window_bytes, window.timeouts), (None, None));
        let new = parsed(248).expect("6.7");
        assert!(new.own_window_bytes.is_some() && new.timeout_us.is_some());
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
        let tcp = parse_tcp_info(&[0xff; 248]).expect("long enough").reading;
        assert_eq!((tcp.pacing_bps, tcp.rtt_min_us, tcp.ssthresh_bytes), (None, None, None));
    }

    #[test]
    fn a_fresh_connection_has_a_congestion_window_and_an_mss() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let stream = TcpStream::connect(listener.local_addr().expect("address")).expect("connect");
        let tcp = read_tcp_info(&stream).expect("TCP_INFO").reading;
        assert!(tcp.cwnd_bytes > 0 && tcp.mss_bytes > 0);
        assert_eq!(tcp.ssthresh_bytes, None);
    }

    proptest! {
        #[test]
        fn any_bytes_of_any_length_parse_or_are_refused(raw in prop::collection::vec(any::<u8>(), 0..300)) {
            prop_assert_eq!(parse_tcp_info(&raw).is_some(), raw.len() >= MIN_BYTES);
        }
    }
}
