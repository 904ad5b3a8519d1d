//! TCP_INFO as JSON: read as ndt-server and flowd write it, and written as flowd-go does.
//!
//! The names of the fields are those of the kernel; the programs differ in case and underscores.
//!
//! Source: `tcp/tcpinfo.go` of m-lab/tcp-info; `types/enrichment.go` and `enrichment_compat.go` of
//! flowd-go; `netlink/pyroute_tcp.py` of flowd. Units: as in Linux, so that rates are bytes per second.
//! Error: counters that the kernel does not have are zero in the JSON, and read as absent where no
//! connection has zero. flowd's RTTs are rounded down to milliseconds.

use crate::json_results::read_count;
use longhaul_model::report::v1::observation::{SSTHRESH_INFINITE, TcpOptions, TcpReading};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// The fields of one reading, by their names in lower case without underscores.
pub(crate) struct TcpInfoFields<'a>(BTreeMap<String, &'a Value>);

impl TcpInfoFields<'_> {
    pub(crate) fn of(info: &Value) -> TcpInfoFields<'_> {
        let plain = |name: &String| name.replace('_', "").to_ascii_lowercase();
        let fields = info.as_object().into_iter().flatten();
        TcpInfoFields(fields.map(|(name, value)| (plain(name), value)).collect())
    }

    fn number(&self, name: &str) -> Option<u64> {
        self.0.get(name).and_then(|value| read_count(value))
    }

    /// Returns a number above zero. A zero stands for a counter that the kernel does not have.
    fn positive(&self, name: &str) -> Option<u64> {
        self.number(name).filter(|it| *it > 0)
    }

    /// Returns a counter that came into the kernel together with another one.
    fn beside(&self, other: &str, name: &str) -> Option<u64> {
        self.positive(other).and_then(|_| self.number(name))
    }

    fn rate_bps(&self, name: &str) -> Option<u64> {
        self.positive(name).map(|bytes| bytes.saturating_mul(8))
    }

    /// Returns the unit of round-trip times: flowd writes the state as a word, and milliseconds.
    fn rtt_unit_us(&self) -> u64 {
        if self.0.get("state").is_some_and(|it| it.is_string()) { 1000 } else { 1 }
    }

    /// Reads the counters; `None` without an RTT and a segment size.
    pub(crate) fn read(&self) -> Option<TcpReading> {
        let mss_bytes = self.positive("sndmss")?;
        let segments = |name: &str| self.number(name).map(|count| count.saturating_mul(mss_bytes));
        let time = |name: &str| self.positive(name).map(|it| it.saturating_mul(self.rtt_unit_us()));
        let is_finite = self.number("sndssthresh").is_some_and(|it| it < SSTHRESH_INFINITE);
        let reading = TcpReading {
            rtt_us: time("rtt")?,
            rttvar_us: time("rttvar").unwrap_or(0),
            ca_state: self.number("castate").and_then(|it| it.try_into().ok()).unwrap_or(0),
            mss_bytes,
            cwnd_bytes: segments("sndcwnd").unwrap_or(0),
            ssthresh_bytes: segments("sndssthresh").filter(|_| is_finite),
            unacked_bytes: segments("unacked").unwrap_or(0),
            lost_segments: self.number("lost").unwrap_or(0),
            retransmitted_segments: self.number("totalretrans").unwrap_or(0),
            reordering_segments: self.number("reordering").unwrap_or(3),
            rtt_min_us: self.positive("minrtt").filter(|us| *us < u64::from(u32::MAX)),
            receive_rtt_us: time("rcvrtt"),
            ..TcpReading::default()
        };
        Some(self.add_counters(&reading))
    }

    fn add_counters(&self, reading: &TcpReading) -> TcpReading {
        let flags = self.number("applimited").or_else(|| self.number("deliveryrateapplimited"));
        TcpReading {
            pacing_bps: self.rate_bps("pacingrate"),
            delivery_bps: self.rate_bps("deliveryrate"),
            app_limited: flags.map(|flags| flags & 1 != 0),
            bytes_acked: self.number("bytesacked"),
            bytes_received: self.number("bytesreceived").or_else(|| self.number("bytesrecv")),
            segments_out: self.number("segsout"),
            segments_in: self.number("segsin"),
            data_segments_out: self.number("datasegsout"),
            data_segments_in: self.number("datasegsin"),
            delivered_segments: self.positive("delivered"),
            marked_segments: self.positive("delivered_ce"),
            unsent_bytes: self.number("notsentbytes"),
            busy_us: self.number("busytime"),
            receive_window_limited_us: self.number("rwndlimited"),
            send_buffer_limited_us: self.number("sndbuflimited"),
            bytes_sent: self.positive("bytessent"),
            bytes_retransmitted: self.beside("bytessent", "bytesretrans"),
            dsack_duplicates: self.beside("bytessent", "dsackdups"),
            reordering_seen: self.beside("bytessent", "reordseen"),
            out_of_order_segments: self.beside("sndwnd", "rcvooopack"),
            peer_window_bytes: self.positive("sndwnd"),
            ..*reading
        }
    }

    /// Reads the negotiated options; the shifts of both windows share a byte, as in the kernel.
    pub(crate) fn options(&self) -> Option<TcpOptions> {
        let (options, shifts) = self.number("options").zip(self.number("wscale"))?;
        Some(TcpOptions::from_kernel((options & 0xff) as u8, (shifts & 0xff) as u8))
    }
}

/// Writes the counters with the names of flowd-go. Those that were not read are absent.
pub(crate) fn write_tcp_info(reading: &TcpReading) -> Value {
    let segments = |bytes: u64| bytes / reading.mss_bytes.max(1);
    let bytes_per_second = |bps: Option<u64>| bps.map(|bps| bps / 8);
    let mut info = json!({
        "caState": reading.ca_state,
        "deliveryRateAppLimited": reading.app_limited.map(u8::from),
        "sndMss": reading.mss_bytes,
        "unAcked": segments(reading.unacked_bytes),
        "lost": reading.lost_segments,
        "rtt": reading.rtt_us,
        "rttVar": reading.rttvar_us,
        "sndSsThresh": reading.ssthresh_bytes.map_or(SSTHRESH_INFINITE, segments),
        "sndCwnd": segments(reading.cwnd_bytes),
        "reordering": reading.reordering_segments,
        "rcvRtt": reading.receive_rtt_us,
        "totalRetrans": reading.retransmitted_segments,
        "pacingRate": bytes_per_second(reading.pacing_bps),
        "bytesAcked": reading.bytes_acked,
        "bytesRecv": reading.bytes_received,
        "segsOut": reading.segments_out,
        "segsIn": reading.segments_in,
        "notsentBytes": reading.unsent_bytes,
        "minRtt": reading.rtt_min_us,
        "dataSegsIn": reading.data_segments_in,
        "dataSegsOut": reading.data_segments_out,
        "delivered": reading.delivered_segments,
        "deliveryRate": bytes_per_second(reading.delivery_bps),
        "busyTime": reading.busy_us,
        "rwndLimited": reading.receive_window_limited_us,
        "sndBufLimited": reading.send_buffer_limited_us,
        "bytesSent": reading.bytes_sent,
        "bytesRetrans": reading.bytes_retransmitted,
        "dsAckDups": reading.dsack_duplicates,
        "reordSeen": reading.reordering_seen,
        "rcvOooPack": reading.out_of_order_segments,
        "sndWnd": reading.peer_window_bytes,
    });
    remove_absent_fields(&mut info);
    info
}

/// Removes the fields of an object that are null.
pub(crate) fn remove_absent_fields(value: &mut Value) {
    if let Some(fields) = value.as_object_mut() {
        fields.retain(|_, field| !field.is_null());
    }
}
