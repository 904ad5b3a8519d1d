//! Tests of the results of ndt7 and flent.

use super::{fixture, only};
use crate::{ImportedResult, parse_output};
use serde_json::{Value, json};

fn parse(value: &Value) -> Result<Vec<ImportedResult>, String> {
    parse_output(&value.to_string(), None)
}

fn fixture_value(name: &str) -> Value {
    serde_json::from_str(&fixture(name)).expect("JSON")
}

#[test]
fn a_download_of_ndt7_is_a_transfer_seen_at_its_server() {
    let one = only("ndt7-download.json");
    assert_eq!(one.import_caveats, [""; 0]);
    let seen = &one.observation;
    assert_eq!(one.started.expect("a time").to_string(), "2026-11-22T10:15:05.987853779Z");
    assert_eq!(
        (seen.near.as_deref(), seen.far.as_deref()),
        (Some("198.51.100.20"), Some("192.0.2.7"))
    );
    assert_eq!((seen.forward, seen.tool_version.as_deref()), (Some(false), Some("v0.23.1")));
    let sender = seen.sender.expect("the server's kernel counts");
    assert_eq!((sender.bytes, sender.duration_us), (Some(127_868_441), Some(10_003_000)));
    assert_eq!((sender.retransmitted_packets, sender.rtt_min_us), (Some(3), Some(79_800)));
    let receiver = seen.receiver.expect("the client counts");
    assert_eq!((receiver.bytes, receiver.duration_us), (Some(127_625_277), Some(10_001_500)));
    let [transfer] = &seen.transfers[..] else { panic!("{:?}", seen.transfers) };
    assert!(transfer.sends && transfer.peer == "198.51.100.20");
    assert_eq!(transfer.plan.congestion_control.as_deref(), Some("bbr"));
    let samples = &transfer.run.streams[0].sender.samples;
    assert_eq!(samples.len(), 20);
    let tcp = samples[19].tcp.as_ref().expect("TCP_INFO");
    assert_eq!((tcp.peer_window_bytes, tcp.pacing_bps), (Some(1 << 20), Some(302_720_000)));
    assert_eq!((tcp.mss_bytes, tcp.ssthresh_bytes), (1428, None));
    assert_eq!(tcp.receive_window_limited_us, Some(9_500_000));
}

#[test]
fn results_of_mlab_servers_have_the_counts_of_their_kernels() {
    let down = only("mlab/ndt7-download-2022.json").observation;
    let sender = down.sender.expect("the server's kernel counts");
    assert_eq!((sender.bytes, sender.duration_us), (Some(95_049_504), Some(9_919_546)));
    assert_eq!((sender.retransmitted_packets, sender.rtt_min_us), (Some(1455), Some(2959)));
    assert_eq!((down.far.as_deref(), down.receiver), (Some("2001:4c08:2003:3f::203"), None));
    let samples = &down.transfers[0].run.streams[0].sender.samples;
    assert_eq!(samples.len(), 3);
    let tcp = samples[2].tcp.as_ref().expect("TCP_INFO");
    assert_eq!((tcp.peer_window_bytes, tcp.pacing_bps), (Some(8_564_992), Some(276_880_120)));
    assert_eq!((tcp.data_segments_out, tcp.data_segments_in), (Some(67_328), None));
    let up = only("mlab/ndt7-upload-2020.json").observation;
    let receiver = up.receiver.expect("the server's kernel counts");
    assert_eq!((receiver.bytes, receiver.duration_us), (Some(3_356_080), Some(10_000_111)));
    assert_eq!((up.forward, up.tool_version.as_deref()), (Some(true), Some("v0.14.2")));
    assert!(up.printed.iter().any(|it| it.name == "BBRInfo MaxBandwidth" && it.text == "58084"));
    let stream = &up.transfers[0].run.streams[0].receiver.samples;
    let tcp = stream.last().and_then(|it| it.tcp.as_ref()).expect("TCP_INFO");
    assert_eq!((tcp.data_segments_in, tcp.data_segments_out), (Some(2296), None));
}

#[test]
fn lines_of_the_client_of_ndt7_are_a_run_for_each_direction() {
    let addresses = json!({"Client": "[2001:db8::1]:4001", "Server": "[2001:db8::2]:443"});
    let tcp = |us: u64| {
        json!({"SndMSS": 1208, "RTT": 30_000, "BytesAcked": 900, "BytesReceived": us * 2,
               "ElapsedTime": us})
    };
    let client = |test: &str, us: u64| {
        json!({"Key": "measurement", "Value": {"Origin": "client", "Test": test,
               "AppInfo": {"NumBytes": us * 3, "ElapsedTime": us}}})
    };
    let server = |us: u64| {
        json!({"Key": "measurement", "Value": {"Origin": "server", "Test": "upload",
               "ConnectionInfo": addresses, "TCPInfo": tcp(us)}})
    };
    let event = |key: &str, more: Value| json!({"Key": key, "Value": more});
    let lines = [
        event("starting", json!({"Test": "download"})),
        event("connected", json!({"Test": "download", "Server": "ndt.example\u{1b}.net"})),
        client("download", 1_000_000),
        event("error", json!({"Test": "download", "Failure": "read: reset"})),
        event("complete", json!({"Test": "download"})),
        event("starting", json!({"Test": "upload"})),
        client("upload", 900_000),
        server(1_000_000),
        server(2_000_000),
        server(1_500_000),
        json!({"ServerFQDN": "ndt.example.net", "Upload": {"Value": 1, "Unit": "Mbit/s"}}),
    ];
    let text = lines.map(|line| line.to_string()).join("\n");
    let found = parse_output(&text, None).expect("two runs");
    let [download, upload] = &found[..] else { panic!("{found:?}") };
    assert_eq!(download.started, None, "the client prints no time");
    assert_eq!(download.observation.far.as_deref(), Some("ndt.example\u{fffd}.net"));
    assert_eq!(download.observation.receiver.and_then(|it| it.bytes), Some(3_000_000));
    assert_eq!(download.import_caveats, ["ndt7 ended with an error: read: reset"]);
    assert!(download.observation.missing[1].contains("TCP_INFO"));
    assert!(upload.import_caveats[0].contains("no end"), "{:?}", upload.import_caveats);
    assert_eq!(upload.observation.forward, Some(true));
    assert_eq!(upload.observation.receiver.and_then(|it| it.bytes), Some(4_000_000));
    assert_eq!(upload.observation.sender.and_then(|it| it.bytes), Some(2_700_000));
    assert_eq!(upload.observation.transfers[0].run.streams[0].receiver.samples.len(), 2);
    assert!(!upload.observation.transfers[0].sends);
}

#[test]
fn measurements_of_ndt7_that_no_kernel_makes_are_left_out_and_too_many_are_cut() {
    let mut file = fixture_value("ndt7-download.json");
    let whole = file["Download"]["ServerMeasurements"][0].clone();
    let spoiled = |key: &str, value: Value| {
        let mut one = whole.clone();
        one["TCPInfo"][key] = value;
        one
    };
    let spoiled = [
        spoiled("SndMSS", json!(0)),
        spoiled("RTT", json!(-1)),
        spoiled("ElapsedTime", json!("soon")),
        json!({"TCPInfo": null}),
        json!(7),
    ];
    file["Download"]["ServerMeasurements"] = json!(spoiled);
    let one = parse(&file).expect("the client counted").remove(0);
    assert!(one.observation.transfers.is_empty() && one.observation.sender.is_none());
    let many = (1..3000).map(|us| {
        let mut one = whole.clone();
        (one["TCPInfo"]["ElapsedTime"], one["TCPInfo"]["BytesAcked"]) =
            (json!(us), json!(us * 999));
        one
    });
    file["Download"]["ServerMeasurements"] = many.collect();
    let one = parse(&file).expect("read").remove(0);
    assert_eq!(one.observation.transfers[0].run.streams[0].sender.samples.len(), 2000);
    assert_eq!(one.import_caveats, ["more than 2000 samples: the rest is left out"]);
    file["Download"] = json!({"ServerMeasurements": null});
    let empty = parse(&file).expect("a run that failed").remove(0);
    assert!(empty.observation.receiver.is_none() && !empty.observation.missing.is_empty());
}

#[test]
fn each_direction_and_each_series_of_echoes_of_flent_is_a_result() {
    let found = parse_output(&fixture("flent-tcp_bidirectional.json"), None).expect("it is read");
    let [upload, download, echoes] = &found[..] else { panic!("{found:?}") };
    for one in &found {
        assert_eq!(one.started.expect("a time").to_string(), "2025-11-22T10:15:05.117314Z");
        assert_eq!(one.observation.near.as_deref(), Some("near"));
        assert_eq!(one.observation.far.as_deref(), Some("far.example.net"));
        assert_eq!(one.observation.tool_version.as_deref(), Some("2.2.0"));
    }
    let seen = &upload.observation;
    assert_eq!((seen.forward, seen.streams.len()), (Some(true), 1));
    let (sender, receiver) = (seen.sender.expect("client"), seen.receiver.expect("server"));
    assert_eq!((sender.bytes, receiver.bytes), (Some(2_641_072), Some(2_510_000)));
    assert_eq!((sender.printed_bps, sender.rounding_bps), (Some(9_980_000), Some(5000)));
    assert_eq!((sender.retransmitted_packets, receiver.printed_bps), (Some(4), None));
    assert_eq!(seen.intervals.len(), 10);
    let first = &seen.intervals[0];
    assert_eq!((first.started_us, first.duration_us), (0, 210_000));
    assert_eq!(first.printed_bps, Some(9_100_000));
    let receiver = download.observation.receiver.expect("client");
    assert_eq!(
        (download.observation.forward, receiver.printed_bps),
        (Some(false), Some(87_900_000))
    );
    let pings = echoes.observation.pings.as_ref().expect("echoes");
    assert_eq!((pings.rtts_us.len(), pings.rtt_min_us), (16, Some(80_100)));
    assert_eq!((pings.sent_packets, pings.received_packets), (None, Some(16)));
    assert_eq!(echoes.observation.protocol.as_deref(), Some("icmp"));
    assert_eq!(echoes.import_caveats, ["the echoes were sent while TCP streams ran"]);
}

#[test]
fn tests_of_flent_that_are_not_read_are_refused_by_name() {
    let mut file = fixture_value("flent-tcp_bidirectional.json");
    file["metadata"]["HOSTS"] = json!(["one", "other"]);
    assert!(parse(&file).expect_err("refused").contains("several servers"));
    file["metadata"]["HOSTS"] = json!(["one"]);
    file["metadata"]["NAME"] = json!("voip-1up\u{7}");
    let why = parse(&file).expect_err("refused");
    assert!(why.contains("`voip-1up\u{fffd}`") && why.contains("rrul*"), "{why}");
    file["metadata"]["NAME"] = json!("tcp_upload");
    file["results"] = json!({"TCP upload sum": [1], "TCP upload::1::tcp_rtt": [1], "load": [1]});
    assert!(parse(&file).expect_err("refused").contains("no series"));
}

#[test]
fn a_file_of_flent_without_raw_values_and_counts_has_what_it_has() {
    let mut file = fixture_value("flent-tcp_bidirectional.json");
    file["raw_values"] = json!({});
    file["metadata"]["TIME"] = json!("2015-07-13T03:37:02.175661");
    file["metadata"]["SERIES_META"] = json!({"TCP upload": {"MEAN_VALUE": 9.9}});
    file["results"]["TCP upload"][6] = json!(1e300);
    let found = parse(&file).expect("it is read");
    let [upload, download, echoes] = &found[..] else { panic!("{found:?}") };
    assert_eq!(upload.started, None, "a local time");
    let sender = upload.observation.sender.expect("a rate");
    assert_eq!((sender.bytes, sender.printed_bps), (None, Some(9_900_000)));
    assert_eq!(upload.observation.receiver, None);
    assert_eq!(upload.observation.intervals.len(), 9, "nulls and wild numbers are left out");
    assert_eq!(upload.observation.intervals[0].started_us, 1_000_000);
    assert_eq!((download.observation.sender, download.observation.receiver), (None, None));
    assert!(echoes.observation.missing[0].contains("interpolated"));
    assert_eq!(echoes.observation.pings.as_ref().expect("echoes").rtts_us.len(), 16);
}
