//! Tests of NTttcp's XML and pScheduler's results.

use super::{fixture, only};
use crate::{ImportFormat, ImportedResult, parse_output};

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
fn one_way_latency_and_mtu_of_pscheduler_are_printed_values() {
    let printed = |text: &str| {
        let one = parse_output(text, None).expect("read").remove(0);
        let figures = one.observation.printed.into_iter();
        figures.map(|it| format!("{} {}", it.name, it.text)).collect::<Vec<_>>()
    };
    let latency = r#"{"test": {"type": "latencybg", "spec": {"bucket-width": 0.0001}}, "result":
        {"succeeded": true, "packets-sent": 100, "packets-lost": 1, "max-clock-error": 0.31,
        "histogram-latency": {"100.5": 50, "91": 2, "204": 45, "1000": 2, "x": 9}}}"#;
    let delays = ["delay min 9.100 ms", "delay median 10.050 ms", "delay p95 20.400 ms"];
    for figure in
        ["packets-sent 100", "packets-lost 1", "max-clock-error 0.31"].iter().chain(&delays)
    {
        assert!(printed(latency).iter().any(|it| it == figure), "{figure}");
    }
    assert!(printed(latency).contains(&"delay max 100.000 ms".to_owned()));
    let bare = r#"{"succeeded": true, "histogram-latency": {"5": 1}}"#;
    assert!(printed(bare).contains(&"delay median 5.000 ms".to_owned()), "the usual width");
    assert_eq!(printed(r#"{"succeeded": true, "mtu": 8900}"#), ["mtu 8900"]);
}

/// Returns a result of perfSONAR's tests, in the document that a transform of its archivers receives.
fn archived(kind: &str, tool: &str, name: &str) -> ImportedResult {
    let result: serde_json::Value = serde_json::from_str(&fixture(name)).expect("JSON");
    let document = serde_json::json!({
        "task": {
            "test": {"type": kind, "spec": {"source": "10.0.0.1", "dest": "10.0.0.2"}},
            "tool": tool,
        },
        "run": {"start-time": "2017-06-20T15:06:46Z", "participants": ["10.0.0.1"],
                "result-merged": result},
    });
    parse_output(&document.to_string(), None).expect(name).remove(0)
}

#[test]
fn results_of_perfsonar_have_the_figures_that_its_own_tests_expect() {
    let tcp = archived("throughput", "iperf3", "perfsonar/throughput-tcp.json");
    assert_eq!(tcp.import_caveats, [""; 0]);
    assert_eq!(tcp.started.expect("a time").to_string(), "2017-06-20T15:06:46Z");
    let (seen, sender) = (&tcp.observation, tcp.observation.sender.expect("a sender"));
    assert_eq!((seen.near.as_deref(), seen.far.as_deref()), (Some("10.0.0.1"), Some("10.0.0.2")));
    assert_eq!((sender.printed_bps, sender.bytes), (Some(7_309_196_000), Some(18_273_067_604)));
    assert_eq!((sender.duration_us, sender.retransmitted_packets), (Some(20_000_086), Some(33)));
    let streams = seen.streams.iter().filter_map(|it| it.sender);
    let streams: Vec<_> =
        streams.map(|it| (it.printed_bps, it.retransmitted_packets, it.rtt_mean_us)).collect();
    let expected = [
        (Some(3_687_368_000), Some(15), Some(78_525)),
        (Some(3_621_827_000), Some(18), Some(78_412)),
    ];
    assert_eq!(streams, expected);
    assert_eq!(seen.intervals[1].cwnd_bytes, Some(15_283_184));
    let udp = archived("throughput", "iperf3", "perfsonar/throughput-udp.json").observation;
    let sender = udp.sender.expect("a sender");
    assert_eq!((udp.protocol.as_deref(), sender.bytes), (Some("udp"), Some(61_943_992)));
    assert_eq!((sender.datagrams, sender.lost_datagrams), (Some(42_779), Some(0)));
    assert_eq!(sender.jitter_us, Some(18));
    let rtt = archived("rtt", "ping", "perfsonar/rtt-ping.json").observation;
    let pings = rtt.pings.as_ref().expect("pings");
    assert_eq!(pings.rtts_us, [53_800, 53_800, 53_900, 53_900, 53_800]);
    assert_eq!((pings.rtt_min_us, pings.rtt_max_us), (Some(53_848), Some(53_934)));
    assert_eq!((rtt.protocol.as_deref(), pings.received_packets), (Some("icmp"), Some(5)));
}

#[test]
fn routes_of_perfsonar_keep_silent_hops_and_both_paths() {
    let hops = archived("trace", "tracepath", "perfsonar/trace-tracepath.json").observation.hops;
    assert_eq!((hops.len(), hops[6].unanswered_packets), (9, Some(1)));
    assert_eq!((&hops[6].addresses[..], &hops[7].rtts_us[..]), (&[][..], &[67_718][..]));
    assert_eq!(hops[8].host.as_deref(), Some("newy-pt1.es.net"));
    let hops = only("perfsonar/trace-two-paths.json").observation.hops;
    assert_eq!((hops.len(), &hops[1].addresses[..]), (3, &["163.253.1.243".to_owned()][..]));
    assert_eq!(hops[1].rtts_us, [38_200; 2]);
    let named = hops[1].host.as_deref().expect("the second path names it");
    assert!(named.ends_with("core1.kans.net.internet2.edu"), "{named}");
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
    let other = r#"{"test": {"type": "dns"}, "result": {"succeeded": true}}"#;
    let why = parse_output(other, None).expect_err("not read");
    assert!(why.contains("`dns`"), "{why}");
    let why = parse_output(other, Some(ImportFormat::Iperf3Json)).expect_err("not from iperf3");
    assert!(why.contains("not from iperf3"), "{why}");
}
