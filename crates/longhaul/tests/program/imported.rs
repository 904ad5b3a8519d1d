//! Outputs of other programs, filed and shown; the same one twice; what is refused.

use crate::support::{Folder, golden, longhaul};
use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::Value;
use std::io::Write;
use std::path::{Path, PathBuf};

fn fixture(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/imports").join(name)
}

fn said(archive: &Path, arguments: &[&str]) -> String {
    let assert = longhaul().args(arguments).arg("--archive").arg(archive).assert().success();
    String::from_utf8(assert.get_output().stdout.clone()).expect("UTF-8")
}

fn refused(folder: &Folder, name: &str, content: &[u8], more: &[&str]) -> String {
    let file = folder.file(name);
    std::fs::write(&file, content).expect("written");
    let archive = folder.file("refused.sqlite3");
    let assert = longhaul()
        .arg("import")
        .arg(&file)
        .args(more)
        .arg("--archive")
        .arg(&archive)
        .assert()
        .code(2);
    assert!(!archive.exists(), "nothing is filed of a refused file");
    String::from_utf8(assert.get_output().stderr.clone()).expect("UTF-8")
}

#[test]
fn the_log_of_the_record_is_filed_once_and_shown_with_its_gap() {
    let folder = Folder::new("import-ntttcp");
    let archive = folder.file("archive.sqlite3");
    let log = fixture("ntttcp-2004.txt");
    let log = log.to_str().expect("UTF-8");
    let arguments = ["import", log, "--at", "2004-02-22", "--from", "losangeles", "--to", "geneva"];
    let first = said(&archive, &arguments);
    golden("import-ntttcp.txt", &first);
    let again = said(&archive, &arguments);
    assert_eq!(again, first.replace(" filed\n", " already filed\n"));
    let list: Value =
        serde_json::from_str(&said(&archive, &["report", "list", "--json"])).expect("JSON");
    let runs = list.as_array().expect("a list");
    assert_eq!(runs.len(), 3, "transfer, echoes, route: {list}");
    let bulk = runs.iter().find(|run| run["streams"] == 9).expect("it");
    assert_eq!(bulk["kind"], "imported");
    assert_eq!(bulk["goodput_bps"], 6_244_638_452_u64);
    let id = bulk["id"].as_str().expect("an id");
    let text = said(&archive, &["report", "show", id]);
    for line in text.lines() {
        assert!(line.chars().count() <= 80, "{line}");
    }
    golden("import-ntttcp-show.txt", &text);
    let report: Value =
        serde_json::from_str(&said(&archive, &["report", "show", id, "--json"])).expect("JSON");
    let analysis = &report["analysis"];
    assert_eq!(analysis["sum_of_streams_bps"], 6_244_877_000_u64);
    let gap = analysis["gap_bytes"].as_i64().expect("a gap");
    assert!((-19_100_000..-18_900_000).contains(&gap), "{gap}");
    let stream = &report["observation"]["streams"][0]["sender"];
    assert!(stream.get("bytes").is_none(), "absent, not zero: {stream}");
}

#[test]
fn iperf3_tells_its_time_and_comes_through_a_pipe_too() {
    let folder = Folder::new("import-iperf3");
    let archive = folder.file("archive.sqlite3");
    let json = fixture("iperf3-3.12.json");
    let filed = said(&archive, &["import", json.to_str().expect("UTF-8"), "--json"]);
    let filed: Value = serde_json::from_str(&filed).expect("JSON");
    assert_eq!(filed[0]["state"], "filed");
    let report = &filed[0]["report"];
    assert_eq!(report["plan"]["time_from"], "text");
    assert_eq!(report["analysis"]["counted_by"], "receiver");
    let assert = longhaul()
        .args(["import", "-", "--json", "--archive"])
        .arg(&archive)
        .write_stdin(std::fs::read(&json).expect("read"))
        .assert()
        .success();
    let again: Value = serde_json::from_slice(&assert.get_output().stdout).expect("JSON");
    assert_eq!(again[0]["state"], "already filed");
    let id = report["run"]["id"].as_str().expect("an id");
    let text = said(&archive, &["report", "show", id]);
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
}

/// Runs of a file, filed and shown as text: what was said of the filing, and of each run.
fn filed_and_shown(folder: &str, file: &str, more: &[&str]) -> String {
    let folder = Folder::new(folder);
    let archive = folder.file("archive.sqlite3");
    let path = fixture(file);
    let mut arguments = vec!["import", path.to_str().expect("UTF-8")];
    arguments.extend(more);
    let mut text = said(&archive, &arguments);
    text.push('\n');
    text.push_str(&said(&archive, &["report", "show", "last"]));
    for line in text.lines() {
        assert!(line.chars().count() <= 80, "{line}");
    }
    text
}

#[test]
fn xml_of_ntttcp_is_filed_and_shown() {
    let more = ["--at", "2026-11-22", "--to", "geneva"];
    let text = filed_and_shown("import-xml", "ntttcp-5.39.xml", &more);
    golden("import-ntttcp-xml.txt", &text);
}

#[test]
fn results_of_perfsonar_are_filed_and_shown() {
    let text = filed_and_shown("import-pscheduler", "pscheduler-throughput.json", &[]);
    golden("import-pscheduler.txt", &text);
}

#[test]
fn a_result_of_ndt7_is_filed_with_what_limited_it() {
    let text = filed_and_shown("import-ndt7", "ndt7-download.json", &[]);
    golden("import-ndt7.txt", &text);
    let folder = Folder::new("import-ndt7-list");
    let archive = folder.file("archive.sqlite3");
    said(&archive, &["import", fixture("ndt7-download.json").to_str().expect("UTF-8")]);
    let list = said(&archive, &["report", "list", "--json"]);
    let list: Value = serde_json::from_str(&list).expect("JSON");
    assert_eq!(list[0]["limited_by"], "receive_window", "{list}");
}

fn compressed(content: &[u8]) -> Vec<u8> {
    let mut packed = GzEncoder::new(Vec::new(), Compression::best());
    packed.write_all(content).expect("memory");
    packed.finish().expect("memory")
}

#[test]
fn a_compressed_file_of_flent_is_the_one_that_is_not_compressed() {
    let folder = Folder::new("import-flent");
    let archive = folder.file("archive.sqlite3");
    let plain = fixture("flent-tcp_bidirectional.json");
    let packed = folder.file("evening.flent.gz");
    std::fs::write(&packed, compressed(&std::fs::read(&plain).expect("read"))).expect("written");
    let first = said(&archive, &["import", packed.to_str().expect("UTF-8")]);
    golden("import-flent.txt", &first);
    let again = said(&archive, &["import", plain.to_str().expect("UTF-8")]);
    assert_eq!(again, first.replace(" filed\n", " already filed\n"));
}

#[test]
fn damaged_and_growing_compressed_files_are_refused() {
    let folder = Folder::new("import-compressed");
    let bomb = compressed(&vec![b' '; (16 << 20) + 1]);
    assert!(refused(&folder, "bomb.gz", &bomb, &[]).contains("larger than 16 MiB"));
    let whole = compressed(&std::fs::read(fixture("ndt7-download.json")).expect("read"));
    let said = refused(&folder, "cut.gz", &whole[..whole.len() / 2], &[]);
    assert!(said.contains("cannot import") && said.contains("decompress it"), "{said}");
}

#[test]
fn an_imported_transfer_makes_a_record_where_it_tells_enough() {
    let folder = Folder::new("import-record");
    let archive = folder.file("archive.sqlite3");
    let log = fixture("ntttcp-2004.txt");
    let log = log.to_str().expect("UTF-8");
    let filed = said(&archive, &["import", log, "--at", "2004-02-22", "--to", "geneva", "--json"]);
    let filed: Value = serde_json::from_str(&filed).expect("JSON");
    let id = |index: usize| filed[index]["report"]["run"]["id"].as_str().expect("an id");
    let legs = folder.file("legs.toml");
    std::fs::write(&legs, "stops = [\"Los Angeles (LAX)\", \"Geneva\"]\n").expect("written");
    let bundle = folder.file("bundle");
    let (legs, bundle) = (legs.to_str().expect("UTF-8"), bundle.to_str().expect("UTF-8"));
    let arguments = ["record", "make", "--legs", legs, "--out", bundle, "--json", "--run", id(0)];
    let record: Value = serde_json::from_str(&said(&archive, &arguments)).expect("JSON");
    assert_eq!(record["observation"]["received_bytes"], 498_587_545_600_u64);
    assert_eq!(record["analysis"]["class"], "ipv4_multiple_streams");
    let caveats = record["caveats"].as_array().expect("caveats");
    let told = |code: &str| caveats.iter().filter(|it| it["code"] == code).count();
    assert_eq!((told("imported"), told("not_counted_by_receiver")), (1, 1));
    let verify = || longhaul().args(["record", "verify", bundle]).assert();
    verify().success();
    let run = folder.file("bundle").join("imported.json");
    let text = std::fs::read_to_string(&run).expect("it is there");
    std::fs::write(&run, text.replace("498587545600", "598587545600")).expect("written");
    verify().code(1);
    let refused = longhaul()
        .args(["record", "make", "--run", id(2), "--archive"])
        .arg(&archive)
        .assert()
        .code(2);
    let why = String::from_utf8_lossy(&refused.get_output().stderr).into_owned();
    assert!(why.contains("missing: bytes and duration"), "{why}");
}

#[test]
fn imported_traces_stand_in_the_table_of_routes() {
    let folder = Folder::new("import-routes");
    let archive = folder.file("archive.sqlite3");
    let before = std::fs::read_to_string(fixture("traceroute-linux.txt")).expect("read");
    let after = before.replace("198.51.100.", "198.18.7.");
    for (name, text, at) in
        [("a.txt", before, "2026-11-20T10:00:00Z"), ("b.txt", after, "2026-11-21T10:00:00Z")]
    {
        let file = folder.file(name);
        std::fs::write(&file, text).expect("written");
        let file = file.to_str().expect("UTF-8");
        said(&archive, &["import", file, "--at", at, "--from", "near", "--to", "far"]);
    }
    let arguments = ["report", "routes", "far", "--since", "2026-11-19", "--json"];
    let tables: Value = serde_json::from_str(&said(&archive, &arguments)).expect("JSON");
    let traces = tables[0]["traces"].as_array().expect("traces");
    assert_eq!(traces.len(), 2, "{tables}");
    assert_eq!(traces[1]["route_change"]["kind"], "one_hop", "{tables}");
}

#[test]
fn a_dry_run_files_nothing_and_every_fixture_is_read() {
    let folder = Folder::new("import-dry");
    let archive = folder.file("archive.sqlite3");
    let names = [
        "ping-linux.txt",
        "traceroute-linux.txt",
        "mtr.txt",
        "ntttcp-linux-1.4.xml",
        "pscheduler-rtt.json",
        "pscheduler-trace.json",
        "ndt7-download.json",
        "flent-tcp_bidirectional.json",
    ];
    let files = names.map(|name| fixture(name).to_str().expect("UTF-8").to_owned());
    let mut arguments = vec!["import", "--dry-run", "--at", "2026-11-22"];
    arguments.extend(files.iter().map(String::as_str));
    let text = said(&archive, &arguments);
    assert_eq!(text.matches("not filed").count(), 10, "{text}");
    assert!(!archive.exists());
}

#[test]
fn what_cannot_be_filed_is_refused_with_what_to_do() {
    let folder = Folder::new("import-refused");
    let ping = std::fs::read(fixture("traceroute-linux.txt")).expect("read");
    let said = refused(&folder, "when.txt", &ping, &[]);
    assert!(said.contains("has no start time") && said.contains("--at"), "{said}");
    let said = refused(&folder, "binary", b"PING \0\0", &["--at", "2026-11-22"]);
    assert!(said.contains("NUL bytes"), "{said}");
    let said = refused(&folder, "other.txt", b"hello\n", &["--at", "2026-11-22"]);
    assert!(said.contains("no output of a known program"), "{said}");
    let said = refused(&folder, "cut.json", b"{\"start\":", &[]);
    assert!(said.contains("not valid JSON"), "{said}");
    let large = vec![b' '; (16 << 20) + 1];
    let said = refused(&folder, "large", &large, &[]);
    assert!(said.contains("16 MiB"), "{said}");
}

#[test]
fn hostile_texts_reach_no_terminal() {
    let folder = Folder::new("import-hostile");
    let file = folder.file("\u{1b}[31mping.txt");
    let text = "PING \u{1b}[2J<b>x</b> (192.0.2.7) 56(84) bytes of data.\n\
                1 packets transmitted, 1 received, 0% packet loss\n";
    std::fs::write(&file, text).expect("written");
    let archive = folder.file("archive.sqlite3");
    let name = file.to_str().expect("UTF-8");
    let filed = said(&archive, &["import", name, "--at", "2026-11-22"]);
    let list = said(&archive, &["report", "list"]);
    let shown = said(&archive, &["report", "show", "last"]);
    for text in [filed, list, shown] {
        assert!(!text.contains('\u{1b}'), "{text:?}");
    }
}
