//! Tests of every format: real output of its program, and arbitrary texts.

use super::*;
use proptest::prelude::*;

mod foreign;
mod json_files;

#[expect(clippy::disallowed_methods, reason = "a test reads what others wrote")]
fn fixture(name: &str) -> String {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/imports/");
    std::fs::read_to_string(format!("{folder}{name}")).expect("the fixture is there")
}

fn only(name: &str) -> ImportedResult {
    let mut found = parse_output(&fixture(name), None).expect(name);
    assert_eq!(found.len(), 1, "{name}: {found:?}");
    found.remove(0)
}

#[test]
fn one_file_may_hold_a_transfer_pings_and_a_route() {
    let found = parse_output(&fixture("ntttcp-2004.txt"), None).expect("it is read");
    let tools: Vec<_> = found.iter().map(|one| one.observation.tool.as_str()).collect();
    assert_eq!(tools, ["ntttcp", "ping", "traceroute"]);
    let seen = &found[0].observation;
    assert_eq!(seen.streams.len(), 9);
    let total = seen.sender.expect("the sender's log");
    assert_eq!(total.bytes, Some(498_587_545_600));
    assert_eq!(total.printed_bps, Some(6_244_876_000));
    assert_eq!(total.retransmitted_packets, Some(52));
    assert_eq!(seen.streams[8].sender.expect("its").duration_us, Some(638_740_000));
    assert_eq!(seen.far.as_deref(), Some("192.91.239.7"));
    assert!(found[0].import_caveats[0].contains("18.9"), "{:?}", found[0].import_caveats);
    let pings = found[1].observation.pings.as_ref().expect("pings");
    assert_eq!((pings.sent_packets, pings.rtt_min_us), (Some(20), Some(172_000)));
    let hops = &found[2].observation.hops;
    assert_eq!(hops.len(), 9);
    assert_eq!(hops[0].bounded_packets, Some(3));
    assert_eq!(hops[8].rtts_us, [172_000; 3]);
    assert_eq!(hops[2].addresses, ["198.32.8.95"]);
}

#[test]
fn iperf3_json_gives_both_ends_and_the_time() {
    let one = only("iperf3-3.12.json");
    assert!(one.started.is_some());
    assert_eq!(one.observation.tool_version.as_deref(), Some("3.12"));
    assert_eq!(one.observation.streams.len(), 2);
    assert_eq!(one.observation.forward, Some(true));
    assert_eq!(one.import_caveats, [""; 0]);
    for end in [one.observation.sender, one.observation.receiver] {
        let end = end.expect("both ends");
        assert!(end.bytes > Some(0) && end.duration_us > Some(0));
        assert_eq!(end.rounding_bytes, None, "JSON has every byte");
    }
    assert!(one.observation.intervals.iter().all(|it| it.rtt_us > Some(0)));
}

#[test]
fn a_reading_that_json_does_not_have_is_absent() {
    let text = r#"{"start": {"version": "iperf 3.0", "connected": []}, "intervals": [],
        "end": {"streams": [{"sender": {"socket": 5, "bytes": -1, "seconds": 1e300,
        "bits_per_second": 1e9, "retransmits": null}}], "sum_sent": {"bytes": 12}}}"#;
    let one = parse_output(text, None).expect("it is iperf3's").remove(0);
    let sender = one.observation.streams[0].sender.expect("a sender");
    assert_eq!((sender.bytes, sender.duration_us), (None, None));
    assert_eq!(sender.retransmitted_packets, None);
    assert_eq!(sender.printed_bps, Some(1_000_000_000));
    assert!(one.started.is_none() && one.observation.receiver.is_none());
    assert!(one.observation.missing.contains(&"receiver counts".to_owned()));
}

#[test]
fn a_stream_of_json_events_is_one_run() {
    let text = r#"{"event":"start","data":{"version":"iperf 3.17","timestamp":{"timesecs":1700000000}}}
        {"event":"interval","data":{"streams":[{"socket":5,"start":0,"seconds":1,"bytes":125}]}}
        {"event":"end","data":{"streams":[{"sender":{"socket":5}}],"sum_received":{"bytes":125,"seconds":1}}}"#;
    let one = parse_output(text, None).expect("it is iperf3's").remove(0);
    assert_eq!(one.observation.intervals.len(), 1);
    assert_eq!(one.observation.receiver.and_then(|it| it.bytes), Some(125));
}

#[test]
fn ping_of_linux_with_its_times() {
    let one = only("ping-linux.txt");
    let pings = one.observation.pings.as_ref().expect("pings");
    assert_eq!(pings.rtts_us, [172_114, 172_020, 172_310]);
    assert_eq!((pings.sent_packets, pings.received_packets), (Some(4), Some(3)));
    assert_eq!(pings.rtt_max_us, Some(172_310));
    assert_eq!(one.observation.far_address.as_deref(), Some("192.0.2.7"));
    assert_eq!(one.started.expect("-D").as_second(), 1_700_000_000);
}

#[test]
fn traceroute_with_silent_and_balanced_hops() {
    let one = only("traceroute-linux.txt");
    let hops = &one.observation.hops;
    assert_eq!(hops.len(), 4);
    assert_eq!(hops[1].unanswered_packets, Some(3));
    assert_eq!(hops[1].host, None);
    assert_eq!(hops[2].addresses, ["198.51.100.1", "198.51.100.2"]);
    assert_eq!(hops[3].rtts_us, [172_100, 172_000, 172_400]);
}

#[test]
fn mtr_leaves_the_zeros_of_silent_hops_out() {
    let one = only("mtr.txt");
    assert_eq!(one.observation.near.as_deref(), Some("near.example.net"));
    assert_eq!(one.observation.far.as_deref(), Some("192.0.2.7"));
    assert!(one.started.is_some());
    let hops = &one.observation.hops;
    assert_eq!(hops[1].loss_ratio, Some(1.0));
    assert_eq!(hops[1].rtt_min_us, None);
    assert_eq!(hops[2].rtt_min_us, Some(172_000));
}

#[test]
fn what_is_no_known_output_is_refused_with_the_reason() {
    let deep = "[".repeat(100_000);
    for (text, why) in [
        ("", "no output"),
        ("hello\n", "no output"),
        ("{}", "not from iperf3"),
        ("{\"start\": {\"version\": \"iperf 3", "not valid JSON"),
        (&format!("{{\"a\":{deep}"), "not valid JSON"),
        ("PING far\n", "no output"),
    ] {
        let said = parse_output(text, None).expect_err(text);
        assert!(said.contains(why), "{said}");
    }
}

#[test]
fn a_log_that_is_cut_off_says_so() {
    let whole = fixture("ntttcp-2004.txt");
    let cut = &whole[..whole.find("498587.545600").expect("the total")];
    let one = parse_output(cut, None).expect("the threads are there").remove(0);
    assert_eq!(one.observation.sender.and_then(|it| it.bytes), None);
    assert!(one.import_caveats[0].contains("truncated"), "{:?}", one.import_caveats);
    let one = parse_output(
        "PING far (192.0.2.7) 56(84) bytes of data.\n64 bytes from far: time=1.0 ms\n",
        None,
    );
    assert!(one.expect("read")[0].import_caveats[0].contains("truncated"));
}

#[test]
fn hostile_texts_are_tamed_and_thousands_of_streams_are_cut() {
    let text = "PING \u{1b}[2J<script> (1.2.3.4) 56 bytes\n1 packets transmitted, 1 received\n";
    let one = parse_output(text, None).expect("read").remove(0);
    assert_eq!(one.observation.far.as_deref(), Some("\u{fffd}[2J<script>"));
    let streams = vec![r#"{"sender":{"socket":5,"bytes":1,"seconds":1}}"#; 5000].join(",");
    let many = format!(r#"{{"start":{{"version":"iperf 3.17"}},"end":{{"streams":[{streams}]}}}}"#);
    let one = parse_output(&many, None).expect("read").remove(0);
    assert_eq!(one.observation.streams.len(), MAX_STREAMS);
    assert!(one.import_caveats.iter().any(|flaw| flaw.contains("more than 4096 streams")));
}

#[test]
fn numbers_that_no_network_has_are_absent() {
    for text in ["1e300", "inf", "NaN", "-1", "9".repeat(400).as_str(), "", "1.2.3"] {
        assert_eq!(printed_numbers::parse_scaled(text, 1e6), None, "{text}");
    }
}

/// Fragments of the formats, so that arbitrary texts get past the headers.
fn pieces() -> impl Strategy<Value = String> {
    let words = [
        "Thread",
        "Realtime(s)",
        "Throughput(KB/s)",
        "Total Bytes(MEG)",
        "======",
        "\n",
        "638.7",
        "0",
        "Connecting to host ",
        "[  5]",
        "0.00-1.00",
        "sec",
        "GBytes",
        "Mbits/sec",
        "sender",
        "local",
        "connected to",
        "PING far (1.2.3.4) 56 bytes\n",
        "time=",
        "time<",
        "ms",
        "min/avg/max = ",
        "/",
        "traceroute to far (1.2.3.4), 30 hops\n",
        "1",
        "*",
        "HOST: a Loss%\n",
        "1.|--",
        "100.0%",
        "Pinging far [",
        "]",
        "Minimum = ",
        "Packets: Sent = ",
        ",",
        "ü",
        "18446744073709551616",
        "-l ",
        "ntttcps -m 9,",
        "Sender Log:",
        "Time: ",
        "Start: ",
        "4300k",
        "<ntttcps version=\"5.33-linux\">",
        "<thread index=\"1\">",
        "<realtime metric=\"s\">",
        "</realtime>",
        "<total_bytes metric=\"MB\">",
        "</total_bytes>",
        "<throughput metric=\"mbps\">",
        "</throughput>",
        "</thread>",
        "</ntttcps>",
        "&lt;",
        "&#7;",
        "<![CDATA[",
    ];
    let piece = prop_oneof![
        8 => prop::sample::select(words.to_vec()).prop_map(str::to_owned),
        1 => "\\PC{0,4}",
        1 => Just(" ".to_owned()),
    ];
    prop::collection::vec(piece, 0..80).prop_map(|parts| parts.join(" "))
}

proptest! {
    #[test]
    fn no_text_makes_a_parser_panic(text in prop_oneof![pieces(), ".{0,400}"]) {
        for format in FORMATS {
            let _ = parse_output(&text, Some(format));
        }
        println!("attack: tried 1");
    }

    #[test]
    fn no_cut_or_changed_byte_of_a_real_output_makes_a_parser_panic(
        name in prop::sample::select(vec![
            "ntttcp-2004.txt", "iperf3-3.12.json",
            "ping-linux.txt", "traceroute-linux.txt", "mtr.txt", "ntttcp-5.39.xml",
            "ntttcp-linux-1.4.xml", "pscheduler-throughput.json", "pscheduler-rtt.json",
            "pscheduler-trace.json", "ndt7-download.json", "flent-tcp_bidirectional.json",
            "mlab/ndt7-upload-2020.json", "perfsonar/trace-two-paths.json",
        ]),
        cut in 0.0..1.0_f64,
        byte in any::<u8>(),
    ) {
        let mut bytes = fixture(name).into_bytes();
        let at = (bytes.len() as f64 * cut) as usize;
        bytes[at] = byte;
        for part in [&bytes[..], &bytes[..at]] {
            let _ = parse_output(&String::from_utf8_lossy(part), None);
        }
        println!("attack: tried 1");
    }
}
