//! Fireflies: datagrams in which the hosts of scientific experiments tell which transfer a connection
//! belongs to (SciTags).
//!
//! A datagram is JSON, with or without a header of syslog before it. It tells the start, the progress
//! or the end of a flow, its experiment and activity, its bytes, and TCP_INFO if the sender adds it.
//!
//! Source: firefly.schema.json 1.0.0 of scitags.org; flowd-go 2.x, flowd 1.1. Units: bytes; the
//! sender's clock. Error: none. Wrong when: the sender is not who it says; datagrams are not signed.

use crate::json_results::read_count;
use crate::sanitize_text;
use crate::tcp_info_json::{TcpInfoFields, remove_absent_fields, write_tcp_info};
use jiff::Timestamp;
use longhaul_model::report::v1::observation::TcpReading;
use serde_json::{Value, json};
use std::net::{IpAddr, SocketAddr};

/// The maximum size of a datagram; those without all of TCP_INFO fit into 1500 bytes.
pub const MAX_FIREFLY_BYTES: usize = 8192;
/// The port at which fireflies are received.
pub const FIREFLY_PORT: u16 = 10514;
/// The bits of a flow label that SciTags leaves to chance, but for the uppermost one: Linux refuses
/// it to programs.
pub const RANDOM_LABEL_BITS: u32 = 0x4_0103;
/// The largest numbers of an experiment (9 bits) and of an activity (6 bits) in a flow label.
const MAX_EXPERIMENT: u32 = 511;
const MAX_ACTIVITY: u32 = 63;
/// Experiments and activities, from the registry of scitags.org.
const REGISTRY: &str = include_str!("scitags.tsv");

/// The state of a flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FlowState {
    Start,
    Ongoing,
    End,
}

/// The addresses of a flow, with its protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FlowAddresses {
    /// The host that sends the firefly, and whose TCP_INFO it carries.
    pub source: SocketAddr,
    pub destination: SocketAddr,
    pub is_tcp: bool,
}

/// The experiment and the activity of a flow (SciTag), by their numbers in the registry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FlowTag {
    pub experiment: u32,
    pub activity: u32,
}

impl FlowTag {
    /// Parses `EXPERIMENT:ACTIVITY`, or one number with both: 64 times the experiment plus the
    /// activity, as FTS, gfal-copy and xrdcp take it.
    ///
    /// # Errors
    /// The text is neither, or a number is out of range.
    pub fn parse(text: &str) -> Result<FlowTag, String> {
        let number = |text: &str| text.parse::<u32>().ok();
        let tag = match text.split_once(':') {
            Some((experiment, activity)) => number(experiment).zip(number(activity)),
            None => number(text).map(|both| (both >> 6, both & MAX_ACTIVITY)),
        };
        let (experiment, activity) = tag.ok_or("expected EXPERIMENT:ACTIVITY, such as 2:19")?;
        if !(1..=MAX_EXPERIMENT).contains(&experiment) || activity > MAX_ACTIVITY {
            return Err(format!(
                "experiments are 1 to {MAX_EXPERIMENT}, activities 0 to {MAX_ACTIVITY}"
            ));
        }
        Ok(FlowTag { experiment, activity })
    }

    /// Returns the flow label of IPv6 packets, without its random bits: the experiment with its bits
    /// in reverse order in bits 17 to 9, the activity in bits 7 to 2.
    pub fn flow_label(self) -> u32 {
        let experiment = (self.experiment & MAX_EXPERIMENT).reverse_bits() >> 23;
        (experiment << 9) | ((self.activity & MAX_ACTIVITY) << 2)
    }

    /// Returns the names in the registry, or else the numbers: `atlas/Staging`, `atlas/77`, `99/1`.
    pub fn name(self) -> String {
        let find = |activity: u32| {
            REGISTRY.lines().find_map(|line| {
                let mut fields = line.split('\t');
                let numbers = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
                (numbers == (self.experiment, activity)).then(|| fields.next()).flatten()
            })
        };
        let number = |number: u32| number.to_string();
        let experiment = find(0).map_or_else(|| number(self.experiment), str::to_owned);
        let activity = find(self.activity.max(1)).filter(|_| self.activity > 0);
        format!("{experiment}/{}", activity.map_or_else(|| number(self.activity), str::to_owned))
    }
}

/// The content of a datagram.
#[derive(Debug, Clone, PartialEq)]
pub struct FireflyMessage {
    pub state: FlowState,
    pub flow: FlowAddresses,
    pub scitag: FlowTag,
    /// The program that moves the data, as it calls itself. Not part of the tag.
    pub application: Option<String>,
    pub started: Timestamp,
    /// The end of the flow, or else the time of the datagram.
    pub reported_at: Option<Timestamp>,
    pub sent_bytes: Option<u64>,
    pub received_bytes: Option<u64>,
    pub congestion_control: Option<String>,
    pub tcp: Option<TcpReading>,
}

impl FlowState {
    const fn name(self) -> &'static str {
        match self {
            FlowState::Start => "start",
            FlowState::Ongoing => "ongoing",
            FlowState::End => "end",
        }
    }
}

impl FireflyMessage {
    /// Writes a datagram as flowd-go does, with a header of syslog (RFC 5424) that names the host.
    pub fn to_datagram(&self, host: &str) -> Vec<u8> {
        let FlowAddresses { source, destination, is_tcp } = self.flow;
        let time = self.reported_at.unwrap_or(self.started);
        let is_end = self.state == FlowState::End;
        let mut lifecycle = json!({
            "state": self.state.name(),
            "start-time": self.started.to_string(),
            "current-time": time.to_string(),
            "end-time": is_end.then(|| time.to_string()),
        });
        let mut usage = json!({"received": self.received_bytes, "sent": self.sent_bytes});
        let mut context = json!({
            "experiment-id": self.scitag.experiment,
            "activity-id": self.scitag.activity,
            "application": self.application,
        });
        [&mut lifecycle, &mut usage, &mut context].into_iter().for_each(remove_absent_fields);
        let mut message = json!({
            "version": 1,
            "flow-lifecycle": lifecycle,
            "flow-id": {
                "afi": if source.is_ipv4() { "ipv4" } else { "ipv6" },
                "src-ip": source.ip().to_string(),
                "dst-ip": destination.ip().to_string(),
                "protocol": if is_tcp { "tcp" } else { "udp" },
                "src-port": source.port(),
                "dst-port": destination.port(),
            },
            "usage": usage,
            "context": context,
        });
        if let Some(tcp) = &self.tcp {
            message["netlink"] = json!({"tcpInfo": write_tcp_info(tcp)});
            if let Some(algorithm) = &self.congestion_control {
                message["netlink"]["cong"] = json!({"algorithm": algorithm});
            }
        }
        let host = if host.is_empty() { "-" } else { host };
        format!("<134>1 {time} {host} longhaul - firefly-json - {message}").into_bytes()
    }
}

/// Parses a datagram, or returns the reason why it is no firefly.
pub fn parse_firefly(datagram: &[u8]) -> Result<FireflyMessage, &'static str> {
    if datagram.len() > MAX_FIREFLY_BYTES {
        return Err("too long");
    }
    let begin = datagram.iter().position(|byte| *byte == b'{').ok_or("no JSON")?;
    let value: Value = serde_json::from_slice(&datagram[begin..]).map_err(|_| "not valid JSON")?;
    let lifecycle = &value["flow-lifecycle"];
    let state = match lifecycle["state"].as_str() {
        Some("start") => FlowState::Start,
        Some("ongoing") => FlowState::Ongoing,
        Some("end") => FlowState::End,
        _ => return Err("no state of a flow"),
    };
    let moment = |key: &str| lifecycle[key].as_str()?.parse::<Timestamp>().ok();
    let context = &value["context"];
    let identifier = |key: &str| u32::try_from(context[key].as_u64()?).ok();
    let scitag = identifier("experiment-id").zip(identifier("activity-id"));
    let (experiment, activity) = scitag.ok_or("no experiment and activity")?;
    let (tcp, congestion_control) = read_enrichment(&value);
    Ok(FireflyMessage {
        state,
        flow: read_addresses(&value["flow-id"]).ok_or("no addresses")?,
        scitag: FlowTag { experiment, activity },
        application: read_text(&context["application"]),
        started: moment("start-time").ok_or("no start time")?,
        reported_at: moment("end-time")
            .filter(|_| state == FlowState::End)
            .or(moment("current-time")),
        sent_bytes: read_count(&value["usage"]["sent"]),
        received_bytes: read_count(&value["usage"]["received"]),
        congestion_control,
        tcp,
    })
}

fn read_text(value: &Value) -> Option<String> {
    value.as_str().map(sanitize_text).filter(|it| !it.is_empty())
}

fn read_addresses(flow: &Value) -> Option<FlowAddresses> {
    let end = |address: &str, port: &str| {
        let address: IpAddr = flow[address].as_str()?.parse().ok()?;
        let port = u16::try_from(flow[port].as_u64()?).ok()?;
        Some(SocketAddr::new(address.to_canonical(), port))
    };
    let is_tcp = match flow["protocol"].as_str()? {
        "tcp" => true,
        "udp" => false,
        _ => return None,
    };
    let (source, destination) = (end("src-ip", "src-port")?, end("dst-ip", "dst-port")?);
    Some(FlowAddresses { source, destination, is_tcp })
}

/// Reads TCP_INFO of the source from any of the places in which flowd and flowd-go put it.
fn read_enrichment(value: &Value) -> (Option<TcpReading>, Option<String>) {
    let sources = [&value["netlink"], &value["skOps"]];
    let tcp = sources.iter().find_map(|source| {
        let places = [&source["tcpInfo"], *source];
        places.into_iter().find_map(|info| TcpInfoFields::of(info).read())
    });
    let congestion = sources.iter().find_map(|source| read_text(&source["cong"]["algorithm"]));
    (tcp, congestion)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn firefly(state: &str, more: &Value) -> Value {
        let mut value = json!({
            "version": 1,
            "flow-lifecycle": {"state": state, "start-time": "2026-11-22T10:00:00.5+00:00"},
            "flow-id": {"afi": "ipv6", "src-ip": "2001:db8::1", "dst-ip": "2001:db8::2",
                        "protocol": "tcp", "src-port": 40000, "dst-port": 1094},
            "context": {"experiment-id": 2, "activity-id": 19, "application": "xrootd \u{1b}[2J"},
        });
        for (key, part) in more.as_object().expect("an object") {
            match part.as_object().zip(value[key].as_object_mut()) {
                Some((part, there)) => there.extend(part.clone()),
                None => value[key] = part.clone(),
            }
        }
        value
    }

    fn parse(value: &Value) -> Result<FireflyMessage, &'static str> {
        parse_firefly(value.to_string().as_bytes())
    }

    #[test]
    fn a_datagram_with_a_header_of_syslog_tells_the_flow_and_its_tag() {
        let end = json!({"flow-lifecycle": {"end-time": "2026-11-22T10:00:10.5Z"},
                         "usage": {"sent": 1_000_000, "received": 10}});
        let text = format!(
            "<134>1 2026-11-22T10:00:11.808092+00:00 dtn flowd-go - firefly-json - {}",
            firefly("end", &end)
        );
        let seen = parse_firefly(text.as_bytes()).expect("a firefly");
        assert_eq!((seen.state, seen.sent_bytes), (FlowState::End, Some(1_000_000)));
        assert_eq!(seen.flow.destination, "[2001:db8::2]:1094".parse().expect("an address"));
        assert_eq!(seen.scitag.name(), "atlas/Staging");
        assert_eq!(seen.application.as_deref(), Some("xrootd \u{fffd}[2J"));
        let reported_at = seen.reported_at.expect("an end");
        assert_eq!(reported_at.duration_since(seen.started).as_secs(), 10);
        assert_eq!(seen.tcp, None);
    }

    #[test]
    fn numbers_that_the_registry_does_not_have_are_shown_as_numbers() {
        let name = |experiment, activity| FlowTag { experiment, activity }.name();
        assert_eq!(name(2, 777), "atlas/777");
        assert_eq!(name(4_000_000_000, 1), "4000000000/1");
        assert_eq!(name(3, 0), "cms/0");
        assert_eq!(name(3, 1), "cms/default");
    }

    #[test]
    fn tcp_info_is_read_as_each_program_writes_it() {
        let full = json!({"netlink": {"cong": {"algorithm": "bbr"}, "tcpInfo": {
            "sndMss": 1448, "rtt": 80_100, "rttVar": 100, "sndCwnd": 10, "bytesAcked": 5_000_000,
            "bytesRecv": 7, "busyTime": 9, "rwndLimited": 8, "sndWnd": 65_536, "bytesSent": 6}}});
        let one = parse(&firefly("ongoing", &full)).expect("a firefly");
        let tcp = one.tcp.expect("counters");
        assert_eq!((tcp.rtt_us, tcp.cwnd_bytes), (80_100, 14_480));
        assert_eq!((tcp.bytes_acked, tcp.bytes_received), (Some(5_000_000), Some(7)));
        assert_eq!(tcp.receive_window_limited_us, Some(8));
        assert_eq!(one.congestion_control.as_deref(), Some("bbr"));
        let flat = json!({"netlink": {"state": "established", "snd_mss": 1448, "rtt": 80,
            "min_rtt": 79_900, "bytes_acked": 5, "rwnd_limited": 3}});
        let tcp = parse(&firefly("end", &flat)).expect("a firefly").tcp.expect("counters");
        assert_eq!((tcp.rtt_us, tcp.rtt_min_us), (80_000, Some(79_900)));
        assert_eq!(tcp.receive_window_limited_us, Some(3));
        let lean = json!({"skOps": {"tcpInfo": {"sndMss": 1448, "rtt": 80_000, "bytesSent": 9}}});
        let tcp = parse(&firefly("ongoing", &lean)).expect("a firefly").tcp.expect("counters");
        assert_eq!((tcp.bytes_acked, tcp.bytes_sent), (None, Some(9)));
    }

    #[test]
    fn what_is_no_firefly_is_refused_with_the_reason() {
        let refused = |more: Value| parse(&firefly("start", &more)).expect_err("refused");
        assert_eq!(refused(json!({"flow-lifecycle": {"state": "flying"}})), "no state of a flow");
        assert_eq!(refused(json!({"flow-lifecycle": {"start-time": "now"}})), "no start time");
        assert_eq!(refused(json!({"flow-id": {"src-port": 65_536}})), "no addresses");
        assert_eq!(refused(json!({"flow-id": {"protocol": "sctp"}})), "no addresses");
        assert_eq!(refused(json!({"context": {"activity-id": -1}})), "no experiment and activity");
        assert_eq!(parse_firefly(b"<134>1 hello").expect_err("refused"), "no JSON");
        assert_eq!(parse_firefly(b"{\"a\": ").expect_err("refused"), "not valid JSON");
        assert_eq!(parse_firefly(&vec![b'{'; 8193]).expect_err("refused"), "too long");
    }

    /// A message with counters whose units are whole in JSON.
    fn message_with_counters() -> FireflyMessage {
        let tcp = TcpReading {
            rtt_us: 80_100,
            rttvar_us: 20,
            mss_bytes: 1448,
            cwnd_bytes: 14_480,
            ssthresh_bytes: Some(28_960),
            reordering_segments: 3,
            pacing_bps: Some(8_000_000),
            app_limited: Some(false),
            bytes_acked: Some(5_000_000),
            bytes_received: Some(7),
            busy_us: Some(9),
            receive_window_limited_us: Some(8),
            send_buffer_limited_us: Some(0),
            bytes_sent: Some(6_000_000),
            bytes_retransmitted: Some(0),
            ..TcpReading::default()
        };
        let time = |text: &str| text.parse().expect("a time");
        FireflyMessage {
            state: FlowState::End,
            flow: FlowAddresses {
                source: "[2001:db8::1]:40000".parse().expect("an address"),
                destination: "[2001:db8::2]:5201".parse().expect("an address"),
                is_tcp: true,
            },
            scitag: FlowTag { experiment: 2, activity: 19 },
            application: Some("longhaul v1".to_owned()),
            started: time("2026-11-22T10:00:00.5Z"),
            reported_at: Some(time("2026-11-22T10:00:10Z")),
            sent_bytes: Some(5_000_000),
            received_bytes: Some(7),
            congestion_control: Some("cubic".to_owned()),
            tcp: Some(tcp),
        }
    }

    #[test]
    fn a_written_firefly_is_read_with_the_same_content() {
        let mut message = message_with_counters();
        assert_eq!(parse_firefly(&message.to_datagram("dtn")), Ok(message.clone()));
        message.state = FlowState::Start;
        message.reported_at = None;
        (message.sent_bytes, message.received_bytes) = (None, None);
        message.tcp = None;
        message.congestion_control = None;
        let read = parse_firefly(&message.to_datagram("")).expect("a firefly");
        assert_eq!(read, FireflyMessage { reported_at: Some(message.started), ..message });
    }

    #[test]
    fn a_written_firefly_has_the_members_of_the_schema() {
        let message = FireflyMessage { tcp: None, ..message_with_counters() };
        let text = String::from_utf8(message.to_datagram("dtn")).expect("UTF-8");
        let expected = r#"<134>1 2026-11-22T10:00:10Z dtn longhaul - firefly-json - {"context":{"activity-id":19,"application":"longhaul v1","experiment-id":2},"flow-id":{"afi":"ipv6","dst-ip":"2001:db8::2","dst-port":5201,"protocol":"tcp","src-ip":"2001:db8::1","src-port":40000},"flow-lifecycle":{"current-time":"2026-11-22T10:00:10Z","end-time":"2026-11-22T10:00:10Z","start-time":"2026-11-22T10:00:00.5Z","state":"end"},"usage":{"received":7,"sent":5000000},"version":1}"#;
        assert_eq!(text, expected);
    }

    #[test]
    fn a_tag_is_two_numbers_or_their_sum_and_has_the_range_of_the_flow_label() {
        let atlas = FlowTag { experiment: 2, activity: 19 };
        assert_eq!(FlowTag::parse("2:19"), Ok(atlas));
        assert_eq!(FlowTag::parse("147"), Ok(atlas));
        assert!(FlowTag::parse("511:63").is_ok());
        for text in ["512:1", "2:64", "0:1", "63", "32768"] {
            let why = FlowTag::parse(text).expect_err(text);
            assert_eq!(why, "experiments are 1 to 511, activities 0 to 63", "{text}");
        }
        for text in ["", "2", "2:", ":19", "2.19", "2:-1", "atlas:1", "2:19:1"] {
            assert!(FlowTag::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_flow_label_has_the_bits_of_flowd() {
        let label = |experiment, activity| FlowTag { experiment, activity }.flow_label();
        // 00 010000000 0 010011 00: the experiment 2 with its bits reversed, and the activity 19.
        assert_eq!(label(2, 19), 0x1_004c);
        assert_eq!(label(1, 0), 1 << 17);
        assert_eq!(label(511, 63), !RANDOM_LABEL_BITS & 0x7_ffff);
    }

    proptest! {
        #[test]
        fn no_datagram_makes_the_parser_panic(
            bytes in proptest::collection::vec(any::<u8>(), 0..200),
            cut in 0..400_usize,
        ) {
            let _ = parse_firefly(&bytes);
            let whole = firefly("end", &json!({})).to_string().into_bytes();
            let mut part = whole[..cut.min(whole.len())].to_vec();
            part.extend(&bytes);
            let _ = parse_firefly(&part);
        }
    }
}
