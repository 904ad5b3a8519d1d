//! Tests of NTttcp's XML and pScheduler's results.

use super::{fixture, only};
use crate::{ImportFormat, parse_output};

#[test]
fn the_megabyte_of_each_ntttcp_is_known_by_its_rate() {
    let windows = only("ntttcp-5.39.xml");
    let sender = windows.observation.sender.expect("ntttcps is the sender");
    assert_eq!(sender.bytes, Some(10_546_500_000), "2^20 bytes");
    assert_eq!(sender.duration_us, Some(30_012_345));
    assert_eq!(sender.retransmitted_packets, Some(52));
    assert_eq!(windows.observation.near.as_deref(), Some("LOSANGELES"));
    assert_eq!(windows.observation.streams.len(), 2);
    assert_eq!(windows.observation.streams[1].name, "1");
    assert_eq!(windows.observation.receiver, None);
    assert_eq!(windows.started, None);
    let linux = only("ntttcp-linux-1.4.xml");
    let receiver = linux.observation.receiver.expect("ntttcpr is the receiver");
    assert_eq!(receiver.bytes, Some(7_012_345_678), "10^6 bytes");
    assert_eq!(linux.observation.far.as_deref(), Some("geneva"));
    for one in [windows, linux] {
        assert_eq!(one.import_caveats, [""; 0]);
        assert_eq!(one.observation.forward, Some(true));
    }
}

#[test]
fn zeros_that_ntttcp_for_linux_prints_for_nothing_are_not_taken() {
    let one = only("ntttcp-linux-1.4.xml");
    let printed = |name: &str| one.observation.printed.iter().find(|it| it.name == name);
    assert!(printed("packets_sent").is_none() && printed("total_buffers").is_none());
    let speed = printed("cpu_speed MHz").expect("it has one");
    assert_eq!(speed.text, "2593.905");
    assert!(printed("os").expect("it has one").text.contains("<Debian>"));
}

#[test]
fn several_results_in_one_text_and_one_that_is_cut_off() {
    let xml = fixture("ntttcp-5.39.xml");
    let samples = format!("log line\n<samples>\n{xml}{xml}</samples>\n");
    let found = parse_output(&samples, None).expect("two");
    assert_eq!(found.len(), 2);
    assert_eq!(found[0].format, ImportFormat::NtttcpXml);
    let cut = &xml[..xml.find("<realtime metric=\"s\">30.012345").expect("the total")];
    let one = parse_output(cut, None).expect("what there is").remove(0);
    assert_eq!(one.observation.sender.and_then(|it| it.bytes), None);
    assert_eq!(one.observation.streams.len(), 2);
    assert!(
        one.import_caveats.iter().any(|it| it.contains("truncated")),
        "{:?}",
        one.import_caveats
    );
}

#[test]
fn hostile_xml_expands_nothing_and_ends_at_once() {
    let deep = "<ntttcps>".repeat(100_000);
    let doubled = format!("<ntttcps{}>", " a=\"\"".repeat(100_000));
    let many = "<ntttcps <".repeat(100_000);
    let entities = "<ntttcps><!DOCTYPE x [<!ENTITY a \"aaaa\">]>&a;</ntttcps>";
    for text in [deep.as_str(), &doubled, &many, entities] {
        assert!(parse_output(text, None).is_err());
    }
    let text = "<ntttcpr computername=\"a&#27;[2J&lt;b&gt;\" version=\"5.39\">\
                <realtime metric=\"s\">1.0</realtime><x>&#7;&unknown;</x></ntttcpr>";
    let one = parse_output(text, None).expect("a time").remove(0);
    assert_eq!(one.observation.far.as_deref(), Some("a\u{fffd}[2J<b>"));
    assert_eq!(one.observation.printed[0].text, "\u{fffd}\u{fffd}");
}

#[test]
fn throughput_of_pscheduler_has_the_rate_of_the_receiver_and_bytes_of_the_sender() {
    let one = only("pscheduler-throughput.json");
    assert_eq!(one.started.expect("a time").to_string(), "2026-11-22T10:00:02Z");
    let sender = one.observation.sender.expect("a sender");
    assert_eq!(sender.bytes, Some(550_645_792));
    assert_eq!(sender.duration_us, Some(3_000_097));
    assert_eq!(sender.retransmitted_packets, Some(3));
    let receiver = one.observation.receiver.expect("a receiver");
    assert_eq!((receiver.bytes, receiver.duration_us), (None, None));
    assert!(receiver.printed_bps > Some(0));
    assert_eq!(one.observation.intervals.len(), 6);
    assert_eq!(one.observation.intervals[2].cwnd_bytes, Some(8_388_608));
    assert_eq!(one.observation.intervals[2].rtt_us, Some(172_140));
    assert_eq!(one.observation.protocol.as_deref(), Some("tcp"));
    assert_eq!(one.observation.near.as_deref(), Some("ps-near.example.net"));
    assert_eq!(one.import_caveats, [""; 0]);
}

#[test]
fn a_rate_under_the_name_of_bytes_is_not_taken_for_bytes() {
    let text = |bytes: u64| {
        format!(
            r#"{{"succeeded": true, "diags": "", "intervals": [], "summary": {{"streams": [],
            "summary": {{"start": 0, "end": 10, "throughput-bits": 8e9, "throughput-bytes": {bytes},
            "rtt": 5, "jitter": 1}}}}}}"#
        )
    };
    let one = |bytes| parse_output(&text(bytes), None).expect("read").remove(0);
    let bytes = |bytes| one(bytes).observation.sender.expect("a sender").bytes;
    assert_eq!(bytes(10_000_000_000), Some(10_000_000_000));
    assert_eq!(bytes(1_000_000_000), None);
    assert_eq!(one(1_000_000_000).import_caveats, [""; 0]);
    assert!(one(3_000_000_000).import_caveats[0].contains("left out"));
    let sender = one(1).observation.sender.expect("a sender");
    assert_eq!(
        (sender.rtt_mean_us, sender.jitter_us),
        (None, None),
        "units of a tool nobody named"
    );
}

#[test]
fn round_trips_and_routes_of_pscheduler() {
    let one = only("pscheduler-rtt.json");
    assert_eq!(one.started.expect("a time").to_string(), "2026-11-22T10:05:00Z");
    let pings = one.observation.pings.as_ref().expect("pings");
    assert_eq!(pings.rtts_us, [172_114, 172_020, 172_310]);
    assert_eq!((pings.sent_packets, pings.received_packets), (Some(4), Some(3)));
    assert_eq!(one.observation.far_address.as_deref(), Some("192.0.2.7"));
    assert_eq!(one.observation.near.as_deref(), Some("ps-near.example.net"));
    let one = only("pscheduler-trace.json");
    let hops = &one.observation.hops;
    assert_eq!(hops.len(), 4);
    assert_eq!(hops[1].unanswered_packets, Some(1));
    assert_eq!(hops[2].addresses, ["198.51.100.1"]);
    assert_eq!(hops[3].rtts_us, [172_100]);
    assert_eq!(one.observation.far_address.as_deref(), Some("192.0.2.7"));
    assert_eq!(one.observation.protocol, None, "its packets are not told");
}

#[test]
fn echoes_that_nobody_answered_have_no_round_trip() {
    let text = r#"{"loss": 1.0, "lost": 5, "sent": 5, "received": 0, "succeeded": true,
        "roundtrips": []}"#;
    let one = parse_output(text, None).expect("a result").remove(0);
    let pings = one.observation.pings.expect("pings");
    assert_eq!((pings.received_packets, pings.rtt_min_us), (Some(0), None));
}

#[test]
fn a_failed_run_says_so_and_other_tests_are_refused_by_name() {
    let failed = r#"{"test": {"type": "throughput"}, "result": {"succeeded": false,
        "error": "no \u001b[2J route", "diags": "", "intervals": [], "summary": {}}}"#;
    let one = parse_output(failed, None).expect("a result").remove(0);
    assert_eq!(one.observation.sender, None);
    assert!(one.import_caveats[0].contains("no \u{fffd}[2J route"), "{:?}", one.import_caveats);
    let other = r#"{"test": {"type": "latency"}, "result": {"succeeded": true}}"#;
    let why = parse_output(other, None).expect_err("not read");
    assert!(why.contains("`latency`"), "{why}");
    let why = parse_output(other, Some(ImportFormat::Iperf3Json)).expect_err("not from iperf3");
    assert!(why.contains("not from iperf3"), "{why}");
}
