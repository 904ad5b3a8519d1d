//! A test as JSON: one object at its end, or one event a line while it goes.

use super::Show;
use super::client_request::ClientRequest;
use crate::cli::args::Iperf3Args;
use crate::cli::iperf3::system;
use crate::cli::iperf3::writer::Writer;
use crate::render::iperf3_report_json::live_json::{self, SenderExtremes, StreamBothEnds};
use longhaul_iperf3::client_run::{ClientTestObserver, ObservedResults, TestControlInfo};
use longhaul_iperf3::iperf3_service::server_observer::{IntervalReport, StartedStreams};
use longhaul_iperf3::text_output::text_opening::PrintedLimit;
use longhaul_model::report::v1::plan::RunDirection;
use serde_json::{Map, Value, json};
use std::io;

/// Collects a test, or tells it line by line.
pub struct Document<'a> {
    args: &'a Iperf3Args,
    asked: &'a ClientRequest,
    writer: Writer,
    start: Map<String, Value>,
    /// In the order in which they were; not kept where they are told and not wanted again.
    intervals: Vec<Value>,
    extremes: Vec<SenderExtremes>,
    end: Value,
    rest: Map<String, Value>,
    datagram_bytes: u64,
    trouble: Option<io::Error>,
}

impl<'a> Document<'a> {
    pub fn new(args: &'a Iperf3Args, asked: &'a ClientRequest, writer: Writer) -> Document<'a> {
        let mut start = Map::new();
        start.insert("connected".to_owned(), json!([]));
        start.insert("version".to_owned(), json!(system::program()));
        start.insert("system_info".to_owned(), json!(system::system_info()));
        Document {
            args,
            asked,
            writer,
            start,
            intervals: Vec::new(),
            extremes: Vec::new(),
            end: json!({}),
            rest: Map::new(),
            datagram_bytes: 0,
            trouble: None,
        }
    }

    fn tell(&mut self, event: &str, data: &Value) {
        if self.args.json_stream && self.trouble.is_none() {
            // By hand: the name of the event comes first, as there.
            let line = format!("{{\"event\":\"{event}\",\"data\":{data}}}\n");
            self.trouble = self.writer.plain(&line).err();
        }
    }

    /// The whole object, where it is wanted.
    fn print(&mut self) -> io::Result<()> {
        if let Some(trouble) = self.trouble.take() {
            return Err(trouble);
        }
        if self.args.json_stream && !self.args.json_stream_full_output {
            return Ok(());
        }
        let mut whole = Map::new();
        whole.insert("start".to_owned(), Value::Object(self.start.clone()));
        let intervals = std::mem::take(&mut self.intervals);
        whole.insert("intervals".to_owned(), Value::Array(intervals));
        whole.insert("end".to_owned(), self.end.take());
        let given = [
            ("title", &self.args.client.title),
            ("extra_data", &self.args.client.extra_data),
        ];
        for (name, text) in given {
            if let Some(text) = text {
                whole.insert(name.to_owned(), json!(text));
            }
        }
        whole.append(&mut self.rest);
        self.writer.plain(&format!("{:#}\n", Value::Object(whole)))
    }

    fn test_start(&self) -> Value {
        let asked = self.asked;
        let (duration, bytes, blocks) = match asked.limit {
            PrintedLimit::Seconds(seconds) => (seconds, 0, 0),
            PrintedLimit::Bytes(bytes) => (0, bytes, 0),
            PrintedLimit::Blocks(blocks) => (0, 0, blocks),
        };
        json!({
            "protocol": if asked.udp { "UDP" } else { "TCP" },
            "num_streams": asked.plan.streams,
            "blksize": asked.block_bytes(self.datagram_bytes),
            "omit": asked.omit_s,
            "duration": duration,
            "bytes": bytes,
            "blocks": blocks,
            "reverse": u8::from(asked.plan.direction == RunDirection::Reverse),
            "bidir": u8::from(asked.plan.direction == RunDirection::Both),
            "tos": asked.tos,
            "target_bitrate": asked.rate_bps,
            "fqrate": asked.plan.pacing_bps.unwrap_or(0),
        })
    }

    fn end(&self, followed: &ObservedResults) -> Value {
        let streams = self.asked.plan.streams as usize;
        let both = self.asked.plan.direction == RunDirection::Both;
        let all = both_ends(followed, streams * if both { 2 } else { 1 }, self.asked.udp);
        let all = all.unwrap_or_default();
        let mut end = live_json::build_end(&all, &self.extremes, self.asked.udp);
        let (own, far) = (followed.own.as_ref(), followed.peer.as_ref());
        end.insert(
            "cpu_utilization_percent".to_owned(),
            live_json::build_cpu_utilization(own, far),
        );
        let sends = all.first().is_some_and(|both| both.sends);
        let (sender, receiver) = if sends { (own, far) } else { (far, own) };
        for (name, results) in [("sender", sender), ("receiver", receiver)] {
            let control = results.and_then(|results| results.congestion_used.as_ref());
            if let Some(control) = control.filter(|_| !self.asked.udp) {
                end.insert(format!("{name}_tcp_congestion"), json!(control));
            }
        }
        Value::Object(end)
    }
}

/// Both ends of every stream; `None`: the far end told nothing, or nothing that fits.
pub fn both_ends(
    followed: &ObservedResults,
    streams: usize,
    udp: bool,
) -> Option<Vec<StreamBothEnds>> {
    let counted = followed.counted.as_ref()?;
    let far = followed.peer.as_ref()?.by_index(streams).ok()?;
    let both = counted.streams.iter().zip(far).map(|(own, told)| {
        let own_side = (counted.duration, own.clone());
        let far_side = live_json::totals_from_server(told, !own.sends, udp, counted.duration);
        let (sent, received) = if own.sends {
            (own_side, far_side)
        } else {
            (far_side, own_side)
        };
        StreamBothEnds {
            sends: own.sends,
            sent,
            received,
        }
    });
    Some(both.collect())
}

impl ClientTestObserver for Document<'_> {
    fn connected(&mut self, control: &TestControlInfo) {
        self.datagram_bytes = control.datagram_bytes;
        let (time, seconds) = system::now();
        let cookie = control.cookie.0.iter().take_while(|byte| **byte != 0);
        let cookie: String = cookie.map(|byte| *byte as char).collect();
        let told = [
            ("timestamp", json!({"time": time, "timesecs": seconds})),
            (
                "connecting_to",
                json!({"host": self.asked.target.host, "port": self.asked.target.port}),
            ),
            ("cookie", json!(cookie)),
            ("target_bitrate", json!(self.asked.rate_bps)),
        ];
        for (name, value) in told {
            self.start.insert(name.to_owned(), value);
        }
        let mss = self.asked.plan.mss_bytes;
        let name = if mss.is_some() {
            "tcp_mss"
        } else {
            "tcp_mss_default"
        };
        if let Some(mss) = mss.or(control.mss_bytes).filter(|_| !self.asked.udp) {
            self.start.insert(name.to_owned(), json!(mss));
        }
    }

    fn started(&mut self, started: &StartedStreams) {
        let connected = live_json::build_connections(started, live_json::socket_number);
        let window = self.asked.plan.send_buffer_bytes.unwrap_or(0);
        let mut known = vec![
            ("connected", connected),
            ("sock_bufsize", json!(window)),
            ("test_start", self.test_start()),
        ];
        let buffers = [
            ("sndbuf_actual", started.send_buffer_bytes),
            ("rcvbuf_actual", started.receive_buffer_bytes),
        ];
        for (name, bytes) in buffers {
            known.extend(bytes.map(|bytes| (name, json!(bytes))));
        }
        for (name, value) in known {
            self.start.insert(name.to_owned(), value);
        }
        self.extremes = vec![SenderExtremes::default(); started.streams.len()];
        let start = Value::Object(self.start.clone());
        self.tell("start", &start);
    }

    fn interval(&mut self, interval: IntervalReport, _last: bool) {
        if !interval.omitted {
            for (extremes, stream) in self.extremes.iter_mut().zip(&interval.streams) {
                extremes.note(stream);
            }
        }
        let shown = live_json::build_interval(&interval, live_json::socket_number);
        self.tell("interval", &shown);
        if !self.args.json_stream || self.args.json_stream_full_output {
            self.intervals.push(shown);
        }
    }
}

impl Show for Document<'_> {
    fn finish(&mut self, followed: &ObservedResults) -> io::Result<()> {
        self.end = self.end(followed);
        let end = self.end.clone();
        self.tell("end", &end);
        let Some(far) = &followed.peer else {
            // An error follows, and then the object.
            return Ok(());
        };
        // A server of 3.12 that was asked once tells all clients after that.
        if !self.args.client.get_server_output {
            return self.print();
        }
        if let Some(text) = &far.server_output_text {
            self.rest
                .insert("server_output_text".to_owned(), json!(text));
            self.tell("server_output_text", &json!(text));
        }
        if let Some(output) = &far.server_output_json {
            self.rest
                .insert("server_output_json".to_owned(), output.clone());
            self.tell("server_output_json", output);
        }
        self.print()
    }

    fn fail(&mut self, text: &str) -> io::Result<bool> {
        self.tell("error", &json!(text));
        self.rest.insert("error".to_owned(), json!(text));
        self.print()?;
        Ok(true)
    }
}
