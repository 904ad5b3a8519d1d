//! Results of ndt7, M-Lab's test of one TCP connection: the archival JSON of ndt-server, and the lines
//! of `ndt7-client -format=json`.
//!
//! Both have TCP_INFO of the server, which sends in a download and receives in an upload, and counts
//! of the client's application. The samples of TCP_INFO make a transfer that was observed at the
//! server; those of a client that sends, as of `longhaul ndt7`, make one that was observed there.
//!
//! Source: `spec/data-format.md` and `spec/ndt7-protocol.md` of ndt-server (0.3.0, 0.11.0). Units:
//! microseconds and bytes.
//! Error: that of TCP_INFO ([`crate::tcp_info_json`]).
//! Wrong when: the application of an upload's server is slow, because its unread bytes are not sampled.

use crate::json_results::{read_count, store_printed_value};
use crate::tcp_info_json::TcpInfoFields;
use crate::{ImportFormat, ImportedResult, sanitize_text};
use longhaul_model::report::v1::flows::FlowsPlan;
use longhaul_model::report::v1::flows::flow_grouping::{FlowSample, FlowSeries, group_flows};
use longhaul_model::report::v1::imported::ImportedTransfer;
use longhaul_model::report::v1::observation::{HostFacts, TcpOptions, TcpReading};
use serde_json::Value;
use std::net::SocketAddr;

/// The maximum number of samples of one subtest; servers take one each 0.25 s for 10 s.
const MAX_SAMPLES: usize = 2000;

/// Reports whether the value is an archival result or a line of the client.
pub(crate) fn is_ndt7_value(value: &Value) -> bool {
    is_archival(value) || (value["Key"].is_string() && value["Value"].is_object())
}

fn is_archival(value: &Value) -> bool {
    value["StartTime"].is_string() && SUBTESTS.iter().any(|(name, _)| value[*name].is_object())
}

/// The names of the subtests, and whether the client sends.
const SUBTESTS: [(&str, bool); 2] = [("Download", false), ("Upload", true)];

/// The lines of the client so far.
#[derive(Default)]
pub(crate) struct Ndt7EventStream(Option<Ndt7Subtest>);

impl Ndt7EventStream {
    /// Adds a value and returns the results that it contains or completes.
    pub(crate) fn push(&mut self, value: &Value) -> Vec<ImportedResult> {
        if is_archival(value) {
            return parse_archival_result(value);
        }
        let (event, content) = (value["Key"].as_str().unwrap_or_default(), &value["Value"]);
        let mut ended = None;
        match event {
            "starting" => {
                ended = self.0.replace(Ndt7Subtest::new(content["Test"] == "upload"));
            }
            "complete" => ended = self.0.take().map(Ndt7Subtest::complete),
            _ => {
                if let Some(test) = &mut self.0 {
                    test.add_event(event, content);
                }
            }
        }
        ended.map(Ndt7Subtest::into_result).into_iter().collect()
    }

    /// Returns the result of a subtest whose last line is missing.
    pub(crate) fn finish(self) -> Option<ImportedResult> {
        self.0.map(Ndt7Subtest::into_result)
    }
}

fn parse_archival_result(value: &Value) -> Vec<ImportedResult> {
    let mut found = Vec::new();
    for (name, client_sends) in SUBTESTS {
        let Some(content) = value.get(name).filter(|it| it.is_object()) else { continue };
        let mut test = Ndt7Subtest::new(client_sends);
        let address = |host: &Value, port: &Value| {
            let port = u16::try_from(port.as_u64()?).ok()?;
            Some(SocketAddr::new(host.as_str()?.parse().ok()?, port))
        };
        test.client = address(&value["ClientIP"], &value["ClientPort"]);
        test.server = address(&value["ServerIP"], &value["ServerPort"]);
        for (list, by_server) in [("ServerMeasurements", true), ("ClientMeasurements", false)] {
            let all = content[list].as_array().into_iter().flatten();
            all.for_each(|one| test.add_measurement(one, by_server));
        }
        let mut one = test.complete().into_result();
        let moments = [&content["StartTime"], &value["StartTime"]];
        one.started = moments.into_iter().find_map(|it| it.as_str()?.parse().ok());
        one.observation.tool_version = value["Version"].as_str().map(sanitize_text);
        found.push(one);
    }
    found
}

/// Removes the count of the receiver's measurement messages, which are no requests: nothing waits for
/// them, although they are about a round trip apart on long paths.
fn remove_progress_messages(tcp: &mut TcpReading, of_sender: bool) {
    let count = if of_sender { &mut tcp.data_segments_in } else { &mut tcp.data_segments_out };
    *count = None;
}

/// The measurements of one direction.
struct Ndt7Subtest {
    client_sends: bool,
    is_complete: bool,
    failure: Option<String>,
    /// The name of the server, if the client printed it.
    server_name: Option<String>,
    server: Option<SocketAddr>,
    client: Option<SocketAddr>,
    /// The last count of the client's application.
    client_count: Option<ImportedTransfer>,
    options: Option<TcpOptions>,
    /// The last state of BBR; null if the server uses another congestion control.
    bbr: Value,
    /// TCP_INFO of the server, in the order of time.
    samples: Vec<FlowSample>,
    /// TCP_INFO of a client that sends.
    client_samples: Vec<FlowSample>,
    is_cut: bool,
}

impl Ndt7Subtest {
    fn new(client_sends: bool) -> Ndt7Subtest {
        Ndt7Subtest {
            client_sends,
            is_complete: false,
            failure: None,
            server_name: None,
            server: None,
            client: None,
            client_count: None,
            options: None,
            bbr: Value::Null,
            samples: Vec::new(),
            client_samples: Vec::new(),
            is_cut: false,
        }
    }

    fn complete(self) -> Ndt7Subtest {
        Ndt7Subtest { is_complete: true, ..self }
    }

    fn add_event(&mut self, event: &str, content: &Value) {
        match event {
            "connected" => self.server_name = content["Server"].as_str().map(sanitize_text),
            "measurement" => self.add_measurement(content, content["Origin"] == "server"),
            "error" => self.failure = content["Failure"].as_str().map(sanitize_text),
            _ => {}
        }
    }

    fn add_measurement(&mut self, value: &Value, by_server: bool) {
        let address = |name: &str| value["ConnectionInfo"][name].as_str()?.parse().ok();
        self.client = self.client.or_else(|| address("Client"));
        self.server = self.server.or_else(|| address("Server"));
        if by_server {
            self.add_tcp_info(&value["TCPInfo"], true);
            if value["BBRInfo"].is_object() {
                self.bbr = value["BBRInfo"].clone();
            }
        } else if let Some(bytes) = read_count(&value["AppInfo"]["NumBytes"]) {
            let duration_us = read_count(&value["AppInfo"]["ElapsedTime"]);
            self.client_count = Some(ImportedTransfer {
                bytes: Some(bytes),
                duration_us: duration_us.filter(|us| *us > 0),
                ..ImportedTransfer::default()
            });
        }
        if !by_server && self.client_sends {
            self.add_tcp_info(&value["TCPInfo"], false);
        }
    }

    fn add_tcp_info(&mut self, info: &Value, by_server: bool) {
        let fields = TcpInfoFields::of(info);
        let Some((at_us, mut tcp)) = read_count(&info["ElapsedTime"]).zip(fields.read()) else {
            return;
        };
        let samples = if by_server { &mut self.samples } else { &mut self.client_samples };
        if samples.last().is_some_and(|last| last.at_us >= at_us) {
            return;
        }
        self.is_cut = samples.len() >= MAX_SAMPLES;
        if self.is_cut {
            return;
        }
        self.options = fields.options().or(self.options);
        remove_progress_messages(&mut tcp, self.client_sends != by_server);
        samples.push(FlowSample::from_tcp_info(at_us, tcp));
    }

    fn into_result(mut self) -> ImportedResult {
        let mut one = ImportedResult::new(ImportFormat::Ndt7, "ndt7");
        let address = |of: Option<SocketAddr>| of.map(|it| it.ip().to_string());
        let seen = &mut one.observation;
        seen.protocol = Some("tcp".to_owned());
        seen.forward = Some(self.client_sends);
        seen.near = address(self.client);
        seen.far_address = address(self.server);
        seen.far = self.server_name.take().or_else(|| seen.far_address.clone());
        let counted = self.count_at_server();
        (seen.sender, seen.receiver) = (counted, self.client_count);
        if self.client_sends {
            std::mem::swap(&mut seen.sender, &mut seen.receiver);
        }
        for name in ["BW", "MaxBandwidth", "MinRTT", "PacingGain", "CwndGain"] {
            store_printed_value(&mut one, &format!("BBRInfo {name}"), &self.bbr[name]);
        }
        if self.client_samples.is_empty() {
            one.add_missing("counters of the client's kernel");
        }
        self.add_caveats(&mut one);
        self.add_transfer(&mut one);
        one
    }

    /// Returns the count of the server's kernel, which includes TLS and WebSocket.
    fn count_at_server(&self) -> Option<ImportedTransfer> {
        let FlowSample { at_us, tcp, .. } = self.samples.last()?;
        let bytes = if self.client_sends { tcp.bytes_received } else { tcp.bytes_acked };
        let retransmits = Some(tcp.retransmitted_segments).filter(|_| !self.client_sends);
        Some(ImportedTransfer {
            bytes,
            duration_us: Some(*at_us).filter(|us| *us > 0),
            retransmitted_packets: retransmits,
            rtt_min_us: tcp.rtt_min_us,
            ..ImportedTransfer::default()
        })
    }

    fn add_caveats(&self, one: &mut ImportedResult) {
        if let Some(failure) = &self.failure {
            one.import_caveats.push(format!("ndt7 ended with an error: {failure}"));
        } else if !self.is_complete {
            one.import_caveats.push("the run has no end: it was truncated or failed".to_owned());
        }
        if self.is_cut {
            one.import_caveats
                .push(format!("more than {MAX_SAMPLES} samples: the rest is left out"));
        }
    }

    /// Adds the samples as a transfer that was observed at the client, if it sends and has some, or at
    /// the server.
    fn add_transfer(mut self, one: &mut ImportedResult) {
        let mut ends = self.server.zip(self.client);
        if !self.client_samples.is_empty() {
            self.samples = self.client_samples;
            ends = self.client.zip(self.server);
        }
        if let Some((local, peer)) = ends {
            let duration_us = self.samples.last().map_or(0, |last| last.at_us);
            let count = self.samples.len().max(1) as u64;
            let plan =
                FlowsPlan { duration_us, interval_us: duration_us / count, ..FlowsPlan::default() };
            let host = HostFacts { name: local.ip().to_string(), ..HostFacts::default() };
            let flow = FlowSeries {
                congestion_control: self.bbr.is_object().then(|| "bbr".to_owned()),
                options: self.options,
                ..FlowSeries::new(local, peer, self.samples)
            };
            one.observation.transfers = group_flows([flow], &plan, &host);
        }
        if one.observation.transfers.is_empty() {
            one.add_missing("limiting factor: TCP_INFO of the server");
        }
    }
}
