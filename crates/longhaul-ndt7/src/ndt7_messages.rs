//! The measurements that both ends send, and the result of a subtest, as JSON.
//!
//! Units: bytes, microseconds, bytes per second, as in M-Lab's files.

use longhaul_model::foreign_text::ForeignDeserializer;
use longhaul_model::report::v1::observation::TcpReading;
use serde::{Deserialize, Serialize};
use serde_json::Number;
use serde_with_macros::skip_serializing_none;
use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;

/// The maximum size of a measurement of a peer; those of M-Lab's servers have less than 2 KB.
pub const MAX_MESSAGE_BYTES: usize = 16 << 10;
/// The maximum number of counters in one object of a measurement.
const MAX_COUNTERS: usize = 128;
const MAX_COUNTER_NAME_BYTES: usize = 32;

/// A subtest: the direction of the data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SubtestKind {
    /// The server sends.
    Download,
    /// The client sends.
    Upload,
}

impl SubtestKind {
    pub const ALL: [SubtestKind; 2] = [SubtestKind::Download, SubtestKind::Upload];

    /// Returns the name in messages and URLs.
    pub const fn name(self) -> &'static str {
        match self {
            SubtestKind::Download => "download",
            SubtestKind::Upload => "upload",
        }
    }

    /// Returns the path of its URL.
    pub const fn url_path(self) -> &'static str {
        match self {
            SubtestKind::Download => "/ndt/v7/download",
            SubtestKind::Upload => "/ndt/v7/upload",
        }
    }
}

impl fmt::Display for SubtestKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Counters by their names in Go, as ndt-server writes them.
pub type NamedCounters = BTreeMap<String, Number>;

/// A measurement of one end.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct Ndt7Measurement {
    pub app_info: Option<AppCount>,
    /// Only servers send it.
    pub connection_info: Option<ConnectionEnds>,
    pub origin: Option<String>,
    pub test: Option<String>,
    #[serde(rename = "BBRInfo")]
    pub bbr_info: Option<NamedCounters>,
    #[serde(rename = "TCPInfo")]
    pub tcp_info: Option<NamedCounters>,
}

/// The count of the application.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct AppCount {
    /// Time since the end of the WebSocket handshake, in microseconds.
    pub elapsed_time: u64,
    /// Payload of messages, without the overhead of WebSocket, TLS and TCP.
    pub num_bytes: u64,
}

/// The addresses of a connection, as the server sees them.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct ConnectionEnds {
    pub client: String,
    pub server: String,
    #[serde(rename = "UUID")]
    pub uuid: Option<String>,
}

impl Ndt7Measurement {
    /// Parses a measurement of the peer; `None` if it is none, or too large.
    pub fn parse(text: &str) -> Option<Ndt7Measurement> {
        if text.len() > MAX_MESSAGE_BYTES {
            return None;
        }
        let mut source = serde_json::Deserializer::from_str(text);
        let mut parsed = Ndt7Measurement::deserialize(ForeignDeserializer(&mut source)).ok()?;
        source.end().ok()?;
        let is_name = |name: &String| {
            name.len() <= MAX_COUNTER_NAME_BYTES
                && name.bytes().all(|it| it.is_ascii_alphanumeric())
        };
        for counters in [&mut parsed.tcp_info, &mut parsed.bbr_info].into_iter().flatten() {
            counters.retain(|name, _| is_name(name));
            if counters.len() > MAX_COUNTERS {
                return None;
            }
        }
        Some(parsed)
    }

    /// Returns the JSON text.
    ///
    /// # Panics
    /// Never: all fields are texts and numbers.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("texts and numbers")
    }
}

/// Returns the counters of a connection with ndt-server's names. Those that the kernel does not have
/// are absent.
pub fn name_tcp_counters(reading: &TcpReading, elapsed_us: u64) -> NamedCounters {
    let segments = |bytes: u64| bytes / reading.mss_bytes.max(1);
    let bytes_per_second = |bps: Option<u64>| bps.map(|bps| bps / 8);
    let counters = [
        ("ElapsedTime", Some(elapsed_us)),
        ("CAState", Some(reading.ca_state.into())),
        ("AppLimited", reading.app_limited.map(u64::from)),
        ("SndMSS", Some(reading.mss_bytes)),
        ("Unacked", Some(segments(reading.unacked_bytes))),
        ("Lost", Some(reading.lost_segments)),
        ("RTT", Some(reading.rtt_us)),
        ("RTTVar", Some(reading.rttvar_us)),
        ("SndSsThresh", reading.ssthresh_bytes.map(segments)),
        ("SndCwnd", Some(segments(reading.cwnd_bytes))),
        ("Reordering", Some(reading.reordering_segments)),
        ("RcvRTT", reading.receive_rtt_us),
        ("TotalRetrans", Some(reading.retransmitted_segments)),
        ("PacingRate", bytes_per_second(reading.pacing_bps)),
        ("BytesAcked", reading.bytes_acked),
        ("BytesReceived", reading.bytes_received),
        ("SegsOut", reading.segments_out),
        ("SegsIn", reading.segments_in),
        ("NotsentBytes", reading.unsent_bytes),
        ("MinRTT", reading.rtt_min_us),
        ("DataSegsIn", reading.data_segments_in),
        ("DataSegsOut", reading.data_segments_out),
        ("Delivered", reading.delivered_segments),
        ("DeliveryRate", bytes_per_second(reading.delivery_bps)),
        ("BusyTime", reading.busy_us),
        ("RWndLimited", reading.receive_window_limited_us),
        ("SndBufLimited", reading.send_buffer_limited_us),
        ("BytesSent", reading.bytes_sent),
        ("BytesRetrans", reading.bytes_retransmitted),
        ("DSackDups", reading.dsack_duplicates),
        ("ReordSeen", reading.reordering_seen),
        ("RcvOooPack", reading.out_of_order_segments),
        ("SndWnd", reading.peer_window_bytes),
    ];
    let present = counters.into_iter().filter_map(|(name, count)| Some((name, count?)));
    present.map(|(name, count)| (name.to_owned(), count.into())).collect()
}

/// The result of one subtest in the format of M-Lab's archive.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct Ndt7Result {
    pub version: String,
    #[serde(rename = "ClientIP")]
    pub client_ip: String,
    pub client_port: u16,
    #[serde(rename = "ServerIP")]
    pub server_ip: String,
    pub server_port: u16,
    /// RFC 3339.
    pub start_time: String,
    pub end_time: String,
    pub download: Option<SubtestResult>,
    pub upload: Option<SubtestResult>,
}

/// The measurements of both ends.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct SubtestResult {
    pub start_time: String,
    pub end_time: String,
    #[serde(rename = "UUID")]
    pub uuid: String,
    pub client_measurements: Vec<Ndt7Measurement>,
    pub server_measurements: Vec<Ndt7Measurement>,
}

impl Ndt7Result {
    /// Makes the result of a subtest, without measurements.
    pub fn new(kind: SubtestKind, client: SocketAddr, server: SocketAddr, start: String) -> Self {
        let subtest = SubtestResult {
            start_time: start.clone(),
            end_time: start.clone(),
            uuid: String::new(),
            client_measurements: Vec::new(),
            server_measurements: Vec::new(),
        };
        let (download, upload) = match kind {
            SubtestKind::Download => (Some(subtest), None),
            SubtestKind::Upload => (None, Some(subtest)),
        };
        Ndt7Result {
            version: concat!("longhaul-", env!("CARGO_PKG_VERSION")).to_owned(),
            client_ip: client.ip().to_string(),
            client_port: client.port(),
            server_ip: server.ip().to_string(),
            server_port: server.port(),
            start_time: start.clone(),
            end_time: start,
            download,
            upload,
        }
    }

    /// Adds the measurements of both ends.
    #[must_use]
    pub fn with_measurements(
        mut self,
        client: Vec<Ndt7Measurement>,
        server: Vec<Ndt7Measurement>,
        end: String,
    ) -> Ndt7Result {
        let uuid = server.iter().find_map(|one| one.connection_info.as_ref()?.uuid.clone());
        if let Some(subtest) = self.download.as_mut().or(self.upload.as_mut()) {
            subtest.client_measurements = client;
            subtest.server_measurements = server;
            subtest.uuid = uuid.unwrap_or_default();
            subtest.end_time.clone_from(&end);
        }
        Ndt7Result { end_time: end, ..self }
    }

    /// Returns the JSON text, on one line.
    ///
    /// # Panics
    /// Never: all fields are texts and numbers.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("texts and numbers")
    }
}
