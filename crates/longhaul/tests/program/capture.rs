//! Captures as their users meet them: made by a test at both ends, read back by `longhaul capture`
//! and by tshark, cut off, refused.

use crate::loopback::FarEnd;
use crate::support::{Folder, golden, longhaul};
use serde_json::Value;
use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::process::Command;

/// What a command says that must succeed.
fn said(arguments: &[&str]) -> String {
    let assert = longhaul().args(arguments).assert().success();
    String::from_utf8(assert.get_output().stdout.clone()).expect("UTF-8")
}

fn shown(file: &Path) -> Value {
    let file = file.to_str().expect("UTF-8");
    serde_json::from_str(&said(&["capture", "show", file, "--json"])).expect("JSON")
}

/// Lines of tshark on a file.
fn tshark(file: &Path, options: &[&str]) -> Vec<String> {
    let mut command = Command::new("tshark");
    let output = command.arg("-r").arg(file).args(options).output();
    let output = output.expect("tshark is here; `cargo xtask ci` installs it");
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    text.lines().map(str::to_owned).collect()
}

/// MSS, shift, SACK and timestamps of each packet of a handshake.
fn handshakes_by_tshark(file: &Path) -> Vec<String> {
    let mut found = tshark(
        file,
        &[
            "-Y",
            "tcp.flags.syn == 1",
            "-T",
            "fields",
            "-e",
            "tcp.srcport",
            "-e",
            "tcp.options.mss_val",
            "-e",
            "tcp.options.wscale.shift",
        ],
    );
    found.sort();
    found
}

fn handshakes_of(reading: &Value) -> Vec<String> {
    let port = |address: &Value| {
        let address = address.as_str().expect("an address");
        address.rsplit(':').next().expect("a port").to_owned()
    };
    let mut found = Vec::new();
    for flow in reading["flows"].as_array().expect("flows") {
        for end in ["opener", "listener"] {
            let offer = &flow["handshake"][end];
            found.push(format!(
                "{}\t{}\t{}",
                port(&flow[end]),
                offer["mss_bytes"],
                offer["window_shift"]
            ));
        }
    }
    found.sort();
    found
}

/// Packets with payload towards the far end that tshark finds out of their place, by the port that
/// they came from. What it calls a retransmission and what out of order are one here: it tells them
/// apart by 3 ms (docs/methods/captures.md).
fn out_of_place_by_tshark(file: &Path) -> HashMap<String, u64> {
    let wanted = "(tcp.analysis.retransmission || tcp.analysis.out_of_order) && tcp.len > 0 \
                  && tcp.dstport == 5201";
    let fields = ["-Y", wanted, "-T", "fields", "-e", "tcp.srcport"];
    let mut found = HashMap::new();
    for port in tshark(file, &fields) {
        *found.entry(port).or_default() += 1;
    }
    found
}

#[test]
fn on_a_path_that_loses_packets_tshark_finds_as_many_sent_again() {
    let folder = Folder::new("capture-lossy");
    let (near, far) = (folder.file("run.pcapng"), folder.file("run-far.pcapng"));
    let mut words = vec!["lab", "run", "slac-sdsc"];
    words.extend(["--set", "hops.3.forward.loss=0.01", "--"]);
    words.extend(["longhaul", "test", "far", "-n", "2M", "-P", "2", "--no-save"]);
    words.extend(["--json", "--capture", near.to_str().expect("UTF-8")]);
    let report: Value = serde_json::from_str(&said(&words)).expect("JSON");
    let streams = report["observation"]["streams"].as_array().expect("both");
    let by_kernel = streams.iter().map(|stream| {
        let samples = stream["sender"]["samples"].as_array().expect("samples");
        let last = &samples.last().expect("a sample")["tcp"];
        last["retransmitted_segments"].as_u64().expect("a count")
    });
    let by_kernel: u64 = by_kernel.sum();
    for file in [&near, &far] {
        let reading = shown(file);
        let theirs = out_of_place_by_tshark(file);
        let mut all = 0;
        for flow in reading["flows"].as_array().expect("flows") {
            let opener = flow["opener"].as_str().expect("an address");
            let port = opener.rsplit(':').next().expect("a port");
            let way = &flow["forward"]["tcp"];
            let count = |name: &str| way[name].as_u64().expect("a count");
            let again = count("retransmitted_packets");
            all += again;
            let ours = again + count("reordered_packets");
            let theirs = theirs.get(port).copied().unwrap_or(0);
            let off = ours.abs_diff(theirs);
            assert!(off <= 1 + ours / 50, "{ours} here, {theirs} by tshark: {way}");
        }
        assert!(all > 0, "one packet in a hundred was lost");
        // One packet of the capture may be several segments, and what is lost is not at the far end.
        assert!(all <= by_kernel, "{all} packets, {by_kernel} segments");
    }
}

#[test]
fn both_ends_capture_and_tshark_agrees() {
    let folder = Folder::new("capture-both");
    let (near, far) = (folder.file("run.pcapng"), folder.file("run-far.pcapng"));
    let report = said(&[
        "lab",
        "run",
        "slac-sdsc",
        "--",
        "longhaul",
        "test",
        "far",
        "-n",
        "2M",
        "-P",
        "2",
        "--capture",
        near.to_str().expect("UTF-8"),
        "--capture-bytes",
        "200",
        "--no-save",
        "--json",
    ]);
    let report: Value = serde_json::from_str(&report).expect("JSON");
    let ends = &report["observation"]["ends"];
    for (file, end, rtt) in
        [(&near, "sender", "answered_us"), (&far, "receiver", "acknowledged_us")]
    {
        let reading = shown(file);
        assert_eq!(reading["damage"], Value::Null);
        assert_eq!(reading["other_packets"], 0);
        let packets = reading["packets"].as_u64().expect("a count");
        assert_eq!(ends[end]["capture"]["packets"], packets, "{ends}");
        let name = file.file_name().expect("a name").to_str();
        assert_eq!(ends[end]["capture"]["file"].as_str(), name);
        assert_eq!(tshark(file, &[]).len() as u64, packets);
        assert_eq!(handshakes_by_tshark(file), handshakes_of(&reading));
        let id = report["run"]["id"].as_str().expect("an id");
        assert!(reading["comments"][0].as_str().expect("a comment").contains(id));
        let flows = reading["flows"].as_array().expect("flows");
        assert_eq!(flows.len(), 2, "the streams, and not the control connection");
        let mut payload = 0;
        for flow in flows {
            let handshake = &flow["handshake"];
            assert_eq!(handshake["agreed"]["window_scaling"], true);
            let round_trip = handshake[rtt].as_u64().expect("a round trip");
            assert!(round_trip >= 29_000, "slac-sdsc has 29.4 ms: {handshake}");
            payload += flow["forward"]["tcp"]["unique_bytes"].as_u64().expect("bytes");
        }
        let delivered = ends["receiver"]["bytes"].as_u64().expect("bytes");
        // What a late reader of the ring lost is told.
        let dropped = ends[end]["capture"]["dropped_packets"].as_u64() > Some(0);
        assert!(payload >= delivered || dropped, "{payload} of {delivered}");
        let variety = &reading["payload"];
        assert!(variety["distinct_packets"].as_u64() > Some(1), "{variety}");
    }
}

#[test]
fn a_run_without_the_privilege_or_against_a_far_end_that_refuses_goes_on_and_says_so() {
    let far = FarEnd::start(&["--no-capture"]);
    let folder = Folder::new("capture-refused");
    let file = folder.file("run.pcapng");
    let file = file.to_str().expect("UTF-8");
    let whole = far.command("test", &["-t", "0.3", "--no-save", "--json", "--capture", file]);
    // The same command without CAP_NET_RAW, whoever runs the tests.
    let mut without = Command::new("setpriv");
    without.args(["--bounding-set=-net_raw", "--inh-caps=-net_raw"]);
    without.arg(whole.get_program()).args(whole.get_args());
    for (name, value) in whole.get_envs() {
        match value {
            Some(value) => without.env(name, value),
            None => without.env_remove(name),
        };
    }
    let output = without.output().expect("setpriv of util-linux is here");
    assert!(output.status.success(), "{output:?}");
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let caveats = report["caveats"].as_array().expect("caveats");
    let of = |code: &str| caveats.iter().find(|caveat| caveat["code"] == code);
    let missing = of("capture_missing").expect("it says what is missing");
    assert!(missing["text"].as_str().expect("text").contains("CAP_NET_RAW"));
    let refused = of("capture_refused").expect("the far end refused");
    assert!(refused["text"].as_str().expect("text").contains("server"));
    assert!(fs::read_dir(&folder.0).expect("a folder").next().is_none(), "no empty files");
}

/// Time, whether the opener sent it, flags, sequence, acknowledged, options, payload bytes.
type Packet<'a> = (u32, bool, u8, u32, u32, &'a [u8], usize);

/// A connection of five packets, from another hand than ours: classic pcap, Ethernet.
fn sample() -> Vec<u8> {
    let mut file = Vec::new();
    for word in [0xa1b2_c3d4_u32, 0x0004_0002, 0, 0, 65_535, 1] {
        file.extend(word.to_le_bytes());
    }
    let syn = [2, 4, 5, 180, 4, 2, 1, 3, 3, 7, 0, 0];
    let packets: [Packet; 5] = [
        (0, true, 2, 0, 0, &syn, 0),
        (100_000, false, 0x12, 0, 1, &syn, 0),
        (100_100, true, 0x10, 1, 1, &[], 0),
        (100_200, true, 0x18, 1, 1, &[], 100),
        (200_300, false, 0x10, 1, 101, &[], 0),
    ];
    for (at_us, from_opener, flags, sequence, acknowledged, options, payload) in packets {
        let mut tcp = Vec::new();
        let (near, far) = (40_000_u16, 5201_u16);
        let (from, to) = if from_opener { (near, far) } else { (far, near) };
        tcp.extend([from.to_be_bytes(), to.to_be_bytes()].concat());
        tcp.extend([sequence.to_be_bytes(), acknowledged.to_be_bytes()].concat());
        tcp.extend([(5 + options.len() as u8 / 4) << 4, flags, 0x10, 0, 0, 0, 0, 0]);
        tcp.extend(options);
        tcp.extend(vec![7; payload]);
        let mut frame = vec![2; 12];
        frame.extend([8, 0, 0x45, 0]);
        frame.extend((20 + tcp.len() as u16).to_be_bytes());
        frame.extend([0, 0, 0x40, 0, 64, 6, 0, 0]);
        let (opener, listener) = ([192, 0, 2, 1], [198, 51, 100, 2]);
        frame.extend(if from_opener { [opener, listener] } else { [listener, opener] }.concat());
        frame.extend(tcp);
        let length = frame.len() as u32;
        for word in [1_077_408_000, at_us, length, length] {
            file.extend(u32::to_le_bytes(word));
        }
        file.extend(frame);
    }
    file
}

#[test]
fn a_capture_is_shown_and_printed_and_never_overwritten() {
    let folder = Folder::new("capture-shown");
    fs::write(folder.file("sample.pcap"), sample()).expect("a file");
    let here = |arguments: &[&str]| {
        let mut command = longhaul();
        command.current_dir(&folder.0).arg("capture").args(arguments);
        command
    };
    let text_of = |arguments: &[&str]| {
        let assert = here(arguments).assert().success();
        String::from_utf8(assert.get_output().stdout.clone()).expect("UTF-8")
    };
    let both = text_of(&["show", "sample.pcap"]) + "\n" + &text_of(&["text", "sample.pcap"]);
    for line in both.lines() {
        assert!(line.chars().count() <= 80, "{line}");
    }
    golden("capture-sample.txt", &both);
    let mut test = longhaul();
    let refused = test.args(["test", "192.0.2.1", "--capture"]).arg(folder.file("sample.pcap"));
    let refused = refused.assert().code(2);
    let told = String::from_utf8(refused.get_output().stderr.clone()).expect("UTF-8");
    assert!(told.contains("it exists"), "{told}");
}

#[test]
fn damaged_files_are_read_up_to_the_damage_and_garbage_is_refused() {
    let folder = Folder::new("capture-damaged");
    let whole = sample();
    for (name, bytes, code, packets) in [
        ("cut.pcap", whole[..whole.len() - 3].to_vec(), 1, Some(4)),
        ("head.pcap", whole[..10].to_vec(), 1, Some(0)),
        ("empty.pcap", Vec::new(), 2, None),
        ("other.pcap", b"<html>\x1b[31m".to_vec(), 2, None),
    ] {
        let file = folder.file(name);
        fs::write(&file, bytes).expect("a file");
        let mut command = longhaul();
        let assert = command.args(["capture", "show", "--json"]).arg(&file).assert().code(code);
        let output = assert.get_output();
        if let Some(packets) = packets {
            let reading: Value = serde_json::from_slice(&output.stdout).expect("JSON");
            assert_eq!(reading["packets"], packets, "{name}");
            assert!(reading["damage"].as_str().expect("why").contains("byte"), "{name}");
        } else {
            let told = String::from_utf8(output.stderr.clone()).expect("UTF-8");
            assert!(told.contains("hint:") && !told.contains('\x1b'), "{name}: {told}");
        }
    }
}

/// Captures of tcpdump's tests, with the counts of tcptrace (fixtures/captures).
#[test]
fn foreign_captures_are_counted_as_tcptrace_counts_them() {
    let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/captures"));
    let table = fs::read_to_string(folder.join("tcptrace.tsv")).expect("the table");
    let mut rows = table.lines().map(|line| line.split('\t').collect::<Vec<_>>());
    let names = rows.next().expect("names")[3..].to_vec();
    let (mut readings, mut compared) = (HashMap::new(), 0);
    for row in rows {
        let [file, from, to, expected @ ..] = &row[..] else { panic!("{row:?}") };
        let reading = readings.entry(file.to_string()).or_insert_with(|| shown(&folder.join(file)));
        let flows = reading["flows"].as_array().expect("flows").iter();
        let ways = flows.flat_map(|flow| {
            let (opener, listener) = (&flow["opener"], &flow["listener"]);
            [(opener, listener, &flow["forward"]), (listener, opener, &flow["reverse"])]
        });
        let mut ways = ways.filter(|way| way.0 == from && way.1 == to);
        let (_, _, way) = ways.next().unwrap_or_else(|| panic!("{file} lacks {from} to {to}"));
        assert!(ways.next().is_none(), "{file}: {from} to {to} is there twice");
        let found =
            names.iter().map(|name| way.get(name).unwrap_or(&way["tcp"][*name]).to_string());
        assert_eq!(found.collect::<Vec<_>>(), expected, "{file}: {from} to {to}, {names:?}");
        compared += 1;
    }
    assert_eq!((readings.len(), compared), (11, 45));
}
