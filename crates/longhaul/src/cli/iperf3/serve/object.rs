//! One test as iperf3's server has it in JSON.
//!
//! What a client does is not known while its test is told, and iperf3 writes 0 for it: bytes of the
//! far end, shares of its processor. Readers of that shape want these keys, so they are here too.

use super::test::socket;
use crate::cli::iperf3::system;
use crate::render::iperf3_report_json::live_json::{self, SenderExtremes};
use longhaul_iperf3::iperf3_messages::{RequestedTest, TestLimit, TestTransport};
use longhaul_iperf3::iperf3_service::server_observer::{
    AcceptedTest, IntervalReport, StartedStreams, StreamInterval, TestTotals,
};
use serde_json::{Map, Value, json};
use std::time::Duration;

/// Lines of streams that are kept; later intervals are counted, and left out.
const MOST_ROWS: usize = 20_000;

/// The object while the test goes on.
pub struct Object {
    pub start: Value,
    pub end: Value,
    intervals: Vec<Value>,
    keeps: bool,
    rows: usize,
    left_out: u64,
    seen: Vec<SenderExtremes>,
    test: RequestedTest,
    top: Map<String, Value>,
}

/// One whole object, as iperf3 ends it.
pub fn pretty(value: &Value) -> String {
    // A value of our own making is always written.
    serde_json::to_string_pretty(value).unwrap_or_default() + "\n"
}

/// One line of `--json-stream`.
pub fn event(accepted: &AcceptedTest, name: &str, data: &Value) -> String {
    let cookie = cookie(accepted);
    let line = json!({"event": name, "data": data, "cookie": cookie});
    format!("{line}\n")
}

/// An object of no test.
pub fn empty(error: &str) -> Value {
    let start = json!({
        "connected": [],
        "version": system::program(),
        "system_info": system::system_info(),
    });
    json!({"start": start, "intervals": [], "end": {}, "error": error})
}

fn cookie(accepted: &AcceptedTest) -> String {
    let bytes = accepted.cookie.0.iter().take_while(|byte| **byte != 0);
    bytes.map(|byte| char::from(*byte)).collect()
}

impl Object {
    /// `keeps`: the whole object will be wanted at the end.
    pub fn new(accepted: &AcceptedTest, keeps: bool) -> Object {
        let (asked, test) = (&accepted.requested, &accepted.test);
        let mut top = Map::new();
        for (name, text) in [("title", &asked.title), ("extra_data", &asked.extra_data)] {
            if let Some(text) = text {
                top.insert(name.to_owned(), json!(text));
            }
        }
        Object {
            start: start(accepted),
            end: json!({}),
            intervals: Vec::new(),
            keeps: keeps || test.server_output,
            rows: 0,
            left_out: 0,
            seen: vec![SenderExtremes::default(); test.all_streams()],
            test: test.clone(),
            top,
        }
    }

    pub fn started(&mut self, started: &StartedStreams) {
        self.start["connected"] = live_json::build_connections(started, |index| self.socket(index));
        self.start["sndbuf_actual"] = json!(started.send_buffer_bytes.unwrap_or(0));
        self.start["rcvbuf_actual"] = json!(started.receive_buffer_bytes.unwrap_or(0));
    }

    pub fn interval(&mut self, interval: &IntervalReport) -> Value {
        for (seen, stream) in self.seen.iter_mut().zip(&interval.streams) {
            seen.note(stream);
        }
        let value = live_json::build_interval(interval, |index| self.socket(index));
        if self.keeps {
            self.rows += interval.streams.len();
            if self.rows <= MOST_ROWS {
                self.intervals.push(value.clone());
            } else {
                self.left_out += 1;
            }
        }
        value
    }

    fn socket(&self, index: usize) -> u64 {
        socket(index, self.test.transport)
    }

    /// Sums by direction, that of the first stream under the plain name.
    fn ways(&self, name: &str) -> Vec<(String, bool)> {
        let first = self.test.server_sends(0);
        let mut ways = vec![(name.to_owned(), first)];
        if self.test.all_streams() > self.test.streams as usize {
            ways.push((format!("{name}_bidir_reverse"), !first));
        }
        ways
    }

    pub fn end(&mut self, totals: &TestTotals<'_>) {
        let udp = self.test.transport == TestTransport::Udp;
        let streams = totals.streams.iter().enumerate().map(|(index, stream)| {
            let whole = (totals.duration, stream.clone());
            if udp {
                json!({"udp": self.whole_udp(index, &whole)})
            } else {
                self.whole_tcp(index, &whole)
            }
        });
        let streams: Vec<Value> = streams.collect();
        self.end = json!({ "streams": streams });
        let names: &[&str] = if udp {
            &["sum", "sum_sent", "sum_received"]
        } else {
            &["sum_sent", "sum_received"]
        };
        for name in names {
            for (name_of_way, sends) in self.ways(name) {
                let sum = live_json::sum_direction(&totals.streams, sends).unwrap_or_default();
                let sum = StreamInterval { sends, ..sum };
                self.end[name_of_way] = Value::Object(sum_of(name, &(totals.duration, sum)));
            }
        }
        let results = totals.results;
        self.end["cpu_utilization_percent"] = live_json::build_cpu_utilization(Some(results), None);
        let sends = totals.streams.iter().any(|stream| stream.sends);
        let whose = if sends {
            "sender_tcp_congestion"
        } else {
            "receiver_tcp_congestion"
        };
        if let (Some(control), false) = (&results.congestion_used, udp) {
            self.end[whose] = json!(control);
        }
    }

    fn whole_tcp(&self, index: usize, whole: &(Duration, StreamInterval)) -> Value {
        let mut own = counted(whole);
        own.insert("socket".to_owned(), json!(self.socket(index)));
        let mut far = own.clone();
        forget(&mut far);
        if !whole.1.sends {
            return json!({"sender": far, "receiver": own});
        }
        if let Some(seen) = self.seen.get(index) {
            seen.insert_into(&mut own);
        }
        json!({"sender": own, "receiver": far})
    }

    fn whole_udp(&self, index: usize, whole: &(Duration, StreamInterval)) -> Value {
        let mut line = counted(whole);
        let datagrams = whole.1.datagrams.unwrap_or_default();
        live_json::insert_losses(&mut line, &datagrams);
        line.insert("socket".to_owned(), json!(self.socket(index)));
        line.insert("out_of_order".to_owned(), json!(datagrams.out_of_order));
        Value::Object(line)
    }

    pub fn error(&mut self, words: &str) {
        self.top.insert("error".to_owned(), json!(words));
    }

    pub fn whole(&self) -> Value {
        let mut whole = self.top.clone();
        whole.insert("start".to_owned(), self.start.clone());
        whole.insert("intervals".to_owned(), json!(self.intervals));
        whole.insert("end".to_owned(), self.end.clone());
        if self.left_out > 0 {
            whole.insert("intervals_left_out".to_owned(), json!(self.left_out));
        }
        Value::Object(whole)
    }
}

fn start(accepted: &AcceptedTest) -> Value {
    let (asked, test) = (&accepted.requested, &accepted.test);
    let (time, seconds) = system::now();
    let rate = test.rate_bps.unwrap_or(0);
    let mut start = json!({
        "connected": [],
        "version": system::program(),
        "system_info": system::system_info(),
        "sock_bufsize": test.window_bytes.unwrap_or(0),
        "timestamp": {"time": time, "timesecs": seconds},
        "accepted_connection": {
            "host": accepted.peer.ip().to_canonical().to_string(),
            "port": accepted.peer.port(),
        },
        "cookie": cookie(accepted),
        "target_bitrate": rate,
        "test_start": test_start(test),
    });
    if test.transport == TestTransport::Tcp {
        match asked.mss.filter(|mss| *mss > 0) {
            Some(mss) => start["tcp_mss"] = json!(mss),
            None => start["tcp_mss_default"] = json!(0),
        }
    }
    start
}

fn test_start(test: &RequestedTest) -> Value {
    let (seconds, bytes, blocks) = match test.limit {
        TestLimit::Seconds(seconds) => (seconds, 0, 0),
        TestLimit::Bytes(bytes) => (0, bytes, 0),
        TestLimit::Blocks(blocks) => (0, 0, blocks),
    };
    let protocol = match test.transport {
        TestTransport::Tcp => "TCP",
        TestTransport::Udp => "UDP",
    };
    let both = test.all_streams() > test.streams as usize;
    json!({
        "protocol": protocol,
        "num_streams": test.streams,
        "blksize": test.length_bytes,
        "omit": test.omit_seconds,
        "duration": seconds,
        "bytes": bytes,
        "blocks": blocks,
        "reverse": u8::from(!both && test.server_sends(0)),
        "tos": test.tos,
        "target_bitrate": test.rate_bps.unwrap_or(0),
    })
}

fn counted(whole: &(Duration, StreamInterval)) -> Map<String, Value> {
    let mut line = live_json::build_side(whole);
    line.insert("sender".to_owned(), json!(whole.1.sends));
    line
}

/// Leaves of a line what is known of the far end: when, and not how much.
fn forget(line: &mut Map<String, Value>) {
    line.insert("bytes".to_owned(), json!(0));
    line.insert("bits_per_second".to_owned(), json!(0));
    line.remove("retransmits");
}

/// The sums of one direction: `name` says of which end.
fn sum_of(name: &str, sum: &(Duration, StreamInterval)) -> Map<String, Value> {
    let own = match name {
        "sum_sent" => sum.1.sends,
        "sum_received" => !sum.1.sends,
        _ => true,
    };
    let mut line = counted(sum);
    if let Some(datagrams) = &sum.1.datagrams {
        live_json::insert_losses(&mut line, datagrams);
    }
    if !own {
        forget(&mut line);
    }
    line
}
