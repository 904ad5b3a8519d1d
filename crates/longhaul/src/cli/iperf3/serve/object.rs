//! One test as iperf3's server has it in JSON.
//!
//! What a client does is not known while its test is told, and iperf3 writes 0 for it: bytes of the
//! far end, shares of its processor. Readers of that shape want these keys, so they are here too.

use super::test::socket;
use crate::cli::iperf3::system;
use jiff::Timestamp;
use longhaul_probe::iperf3::wire::{Limit, Test, Transport};
use longhaul_probe::serve::follow::{
    Accepted, Datagrams, Interval, Started, StreamInterval, TcpState, Totals,
};
use serde_json::{Map, Value, json};

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
    seen: Vec<Seen>,
    test: Test,
    top: Map<String, Value>,
}

/// The extremes of one stream's TCP state, over the ends of its intervals.
#[derive(Debug, Clone, Copy, Default)]
struct Seen {
    most_cwnd: u64,
    most_window: u64,
    most_rtt_us: u64,
    least_rtt_us: Option<u64>,
    sum_rtt_us: u64,
    count: u64,
}

impl Seen {
    fn note(&mut self, tcp: &TcpState) {
        let rtt = tcp.rtt.as_micros() as u64;
        self.most_cwnd = self.most_cwnd.max(tcp.cwnd_bytes);
        let window = tcp.peer_window_bytes.unwrap_or(0);
        self.most_window = self.most_window.max(window);
        self.most_rtt_us = self.most_rtt_us.max(rtt);
        self.least_rtt_us = Some(self.least_rtt_us.map_or(rtt, |least| least.min(rtt)));
        self.sum_rtt_us += rtt;
        self.count += 1;
    }
}

/// Text and Unix time of this moment.
pub fn now() -> (String, i64) {
    let now = Timestamp::now();
    let text = now.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string();
    (text, now.as_second())
}

/// One whole object, as iperf3 ends it.
pub fn pretty(value: &Value) -> String {
    // A value of our own making is always written.
    serde_json::to_string_pretty(value).unwrap_or_default() + "\n"
}

/// One line of `--json-stream`.
pub fn event(accepted: &Accepted, name: &str, data: &Value) -> String {
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

fn cookie(accepted: &Accepted) -> String {
    let bytes = accepted.cookie.0.iter().take_while(|byte| **byte != 0);
    bytes.map(|byte| char::from(*byte)).collect()
}

pub fn jitter_ms(datagrams: &Datagrams) -> f64 {
    datagrams
        .jitter
        .map_or(0.0, |jitter| jitter.as_secs_f64() * 1e3)
}

impl Object {
    /// `keeps`: the whole object will be wanted at the end.
    pub fn new(accepted: &Accepted, keeps: bool) -> Object {
        let (asked, test) = (&accepted.asked, &accepted.test);
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
            seen: vec![Seen::default(); test.all_streams()],
            test: test.clone(),
            top,
        }
    }

    pub fn started(&mut self, started: &Started) {
        let connected = started.streams.iter().enumerate().map(|(index, stream)| {
            json!({
                "socket": socket(index, self.test.transport),
                "local_host": stream.local.ip().to_canonical().to_string(),
                "local_port": stream.local.port(),
                "remote_host": stream.peer.ip().to_canonical().to_string(),
                "remote_port": stream.peer.port(),
            })
        });
        let connected: Vec<Value> = connected.collect();
        self.start["connected"] = json!(connected);
        self.start["sndbuf_actual"] = json!(started.send_buffer_bytes.unwrap_or(0));
        self.start["rcvbuf_actual"] = json!(started.receive_buffer_bytes.unwrap_or(0));
    }

    pub fn interval(&mut self, interval: &Interval) -> Value {
        let span = (interval.from.as_secs_f64(), interval.to.as_secs_f64());
        let mut streams = Vec::new();
        for (index, stream) in interval.streams.iter().enumerate() {
            if let (Some(tcp), Some(seen)) = (&stream.tcp, self.seen.get_mut(index)) {
                seen.note(tcp);
            }
            let mut line = counted(span, stream);
            line.insert(
                "socket".to_owned(),
                json!(socket(index, self.test.transport)),
            );
            line.insert("omitted".to_owned(), json!(interval.omitted));
            line.extend(stream.tcp.iter().flat_map(tcp_keys));
            streams.push(Value::Object(line));
        }
        let mut value = json!({ "streams": streams });
        for (name, sends) in self.ways("sum") {
            let mut sum = counted(span, &added_up(&interval.streams, sends));
            sum.insert("omitted".to_owned(), json!(interval.omitted));
            value[name] = Value::Object(sum);
        }
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

    /// Sums by direction, that of the first stream under the plain name.
    fn ways(&self, name: &str) -> Vec<(String, bool)> {
        let first = self.test.server_sends(0);
        let mut ways = vec![(name.to_owned(), first)];
        if self.test.all_streams() > self.test.streams as usize {
            ways.push((format!("{name}_bidir_reverse"), !first));
        }
        ways
    }

    pub fn end(&mut self, totals: &Totals<'_>) {
        let lasted = totals.lasted.as_secs_f64();
        let udp = self.test.transport == Transport::Udp;
        let streams = totals.streams.iter().enumerate().map(|(index, stream)| {
            if udp {
                json!({"udp": self.whole_udp(index, stream, lasted)})
            } else {
                self.whole_tcp(index, stream, lasted)
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
                let sum = added_up(&totals.streams, sends);
                self.end[name_of_way] = Value::Object(sum_of(name, &sum, lasted));
            }
        }
        let results = totals.results;
        self.end["cpu_utilization_percent"] = json!({
            "host_total": results.cpu_util_total,
            "host_user": results.cpu_util_user,
            "host_system": results.cpu_util_system,
            "remote_total": 0,
            "remote_user": 0,
            "remote_system": 0,
        });
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

    fn whole_tcp(&self, index: usize, stream: &StreamInterval, lasted: f64) -> Value {
        let mut own = counted((0.0, lasted), stream);
        own.insert(
            "socket".to_owned(),
            json!(socket(index, self.test.transport)),
        );
        let mut far = own.clone();
        far.insert("bytes".to_owned(), json!(0));
        far.insert("bits_per_second".to_owned(), json!(0));
        far.remove("retransmits");
        if !stream.sends {
            return json!({"sender": far, "receiver": own});
        }
        let seen = self.seen.get(index).copied().unwrap_or_default();
        for (name, value) in [
            ("max_snd_cwnd", seen.most_cwnd),
            ("max_snd_wnd", seen.most_window),
            ("max_rtt", seen.most_rtt_us),
            ("min_rtt", seen.least_rtt_us.unwrap_or(0)),
            (
                "mean_rtt",
                seen.sum_rtt_us.checked_div(seen.count).unwrap_or(0),
            ),
        ] {
            own.insert(name.to_owned(), json!(value));
        }
        json!({"sender": own, "receiver": far})
    }

    fn whole_udp(&self, index: usize, stream: &StreamInterval, lasted: f64) -> Value {
        let mut line = counted((0.0, lasted), stream);
        let datagrams = stream.datagrams.unwrap_or_default();
        line.extend(losses(&datagrams));
        line.insert(
            "socket".to_owned(),
            json!(socket(index, self.test.transport)),
        );
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

fn start(accepted: &Accepted) -> Value {
    let (asked, test) = (&accepted.asked, &accepted.test);
    let (time, seconds) = now();
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
    if test.transport == Transport::Tcp {
        match asked.mss.filter(|mss| *mss > 0) {
            Some(mss) => start["tcp_mss"] = json!(mss),
            None => start["tcp_mss_default"] = json!(0),
        }
    }
    start
}

fn test_start(test: &Test) -> Value {
    let (seconds, bytes, blocks) = match test.limit {
        Limit::Seconds(seconds) => (seconds, 0, 0),
        Limit::Bytes(bytes) => (0, bytes, 0),
        Limit::Blocks(blocks) => (0, 0, blocks),
    };
    let protocol = match test.transport {
        Transport::Tcp => "TCP",
        Transport::Udp => "UDP",
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

/// Span, bytes and rate of a line, and what its transport counts.
fn counted((from, to): (f64, f64), stream: &StreamInterval) -> Map<String, Value> {
    let seconds = (to - from).max(0.0);
    let mut line = Map::new();
    let mut put = |name: &str, value: Value| {
        line.insert(name.to_owned(), value);
    };
    put("start", json!(from));
    put("end", json!(to));
    put("seconds", json!(seconds));
    put("bytes", json!(stream.bytes));
    let rate = if seconds > 0.0 {
        stream.bytes as f64 * 8.0 / seconds
    } else {
        0.0
    };
    put("bits_per_second", json!(rate));
    put("sender", json!(stream.sends));
    if let Some(resent) = stream.resent {
        put("retransmits", json!(resent));
    }
    if let Some(datagrams) = &stream.datagrams {
        if stream.sends {
            put("packets", json!(datagrams.count));
        } else {
            line.extend(losses(datagrams));
        }
    }
    line
}

fn losses(datagrams: &Datagrams) -> [(String, Value); 4] {
    let share = if datagrams.count == 0 {
        0.0
    } else {
        100.0 * datagrams.lost as f64 / datagrams.count as f64
    };
    [
        ("jitter_ms", json!(jitter_ms(datagrams))),
        ("lost_packets", json!(datagrams.lost)),
        ("packets", json!(datagrams.count)),
        ("lost_percent", json!(share)),
    ]
    .map(|(name, value)| (name.to_owned(), value))
}

fn tcp_keys(tcp: &TcpState) -> [(String, Value); 5] {
    [
        ("snd_cwnd", tcp.cwnd_bytes),
        ("snd_wnd", tcp.peer_window_bytes.unwrap_or(0)),
        ("rtt", tcp.rtt.as_micros() as u64),
        ("rttvar", tcp.rttvar.as_micros() as u64),
        ("pmtu", tcp.path_mtu_bytes),
    ]
    .map(|(name, value)| (name.to_owned(), json!(value)))
}

/// The sums of one direction: `name` says of which end.
fn sum_of(name: &str, sum: &StreamInterval, lasted: f64) -> Map<String, Value> {
    let own = match name {
        "sum_sent" => sum.sends,
        "sum_received" => !sum.sends,
        _ => true,
    };
    let mut line = counted((0.0, lasted), sum);
    if let Some(datagrams) = &sum.datagrams {
        line.extend(losses(datagrams));
    }
    if !own {
        line.insert("bytes".to_owned(), json!(0));
        line.insert("bits_per_second".to_owned(), json!(0));
        line.remove("retransmits");
    }
    line
}

/// All streams of one direction together.
fn added_up(streams: &[StreamInterval], sends: bool) -> StreamInterval {
    let way: Vec<&StreamInterval> = streams.iter().filter(|it| it.sends == sends).collect();
    let datagrams = || way.iter().filter_map(|it| it.datagrams.as_ref());
    let jitters: Vec<_> = datagrams().filter_map(|it| it.jitter).collect();
    let jitter = (!jitters.is_empty())
        .then(|| jitters.iter().sum::<std::time::Duration>() / jitters.len() as u32);
    StreamInterval {
        sends,
        bytes: way.iter().map(|it| it.bytes).sum(),
        resent: way.iter().filter_map(|it| it.resent).reduce(|a, b| a + b),
        tcp: None,
        datagrams: datagrams().next().map(|_| Datagrams {
            count: datagrams().map(|it| it.count).sum(),
            lost: datagrams().map(|it| it.lost).sum(),
            out_of_order: datagrams().map(|it| it.out_of_order).sum(),
            jitter,
        }),
    }
}
