//! Command lines that people know from iperf3, mtr and traceroute: those that mean the same here work,
//! and all others end with the command that does it. Each row is a test of its own.

use crate::loopback::FarEnd;
use crate::support::{self, Folder, free_port, longhaul};
use serde_json::Value;
use std::process::Output;

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Runs `longhaul test` with these options against a server of its own; it must succeed.
fn test_with(options: &[&str]) -> Output {
    let server = FarEnd::start(&[]);
    let mut command = server.command("test", &["--no-save", "-n", "300K"]);
    command.args(options).assert().success().get_output().clone()
}

fn report_with(options: &[&str]) -> Value {
    let output = test_with(&[options, &["--json"]].concat());
    serde_json::from_slice(&output.stdout).expect("JSON")
}

/// Tests that `longhaul test` takes options and plans what they say.
macro_rules! planned {
    ($($name:ident: $options:expr, $key:expr => $value:expr;)+) => {$(
        #[test]
        fn $name() {
            let report = report_with(&$options);
            assert_eq!(report["plan"].pointer($key), Some(&Value::from($value)), "{}", report["plan"]);
        }
    )+};
}

planned! {
    parallel_is_the_number_of_streams: ["--parallel", "2"], "/streams" => 2;
    num_is_the_number_of_bytes: ["--num", "200K"], "/stop/bytes" => 204_800;
    bandwidth_is_the_rate: ["--bandwidth", "80M"], "/write_rate_bps" => 80_000_000;
    len_is_the_length_of_writes: ["--len", "8K"], "/write_bytes" => 8192;
    set_mss_is_the_segment_size: ["--set-mss", "1000"], "/mss_bytes" => 1000;
    congestion_is_the_congestion_control: ["--congestion", "cubic"], "/congestion_control" => "cubic";
    linux_congestion_is_too: ["--linux-congestion", "cubic"], "/congestion_control" => "cubic";
    fq_rate_is_the_pacing_of_each_stream: ["--fq-rate", "500M"], "/pacing_bps" => 500_000_000;
    tos_sets_the_upper_six_bits: ["--tos", "0x20"], "/dscp" => 8;
    the_letter_of_tos_does_too: ["-S", "184"], "/dscp" => 46;
    of_tos_and_dscp_the_last_counts: ["-S", "184", "--dscp", "CS1"], "/dscp" => 8;
    udp_without_a_limit_sends_as_fast_as_it_can: ["-u", "-b", "0"],
        "/transport/udp/rate_bps" => 100_000_000_000_000_u64;
    an_interval_does_not_change_the_samples: ["-i", "1"], "/interval_us" => 100_000;
    samples_have_an_interval_of_their_own: ["--sample-interval", "50ms"], "/interval_us" => 50_000;
    cores_are_this_hosts_and_the_servers: ["-A", "0,0"], "/affinity/cores/responder/0" => 0;
    the_last_number_of_bytes_counts: ["-n", "5M", "-n", "100K"], "/stop/bytes" => 102_400;
    the_last_number_of_streams_counts: ["-P", "8", "--parallel", "2"], "/streams" => 2;
    no_save_may_be_repeated: ["--no-save", "--no-save", "-P", "1"], "/streams" => 1;
    server_output_is_always_there: ["--get-server-output"], "/streams" => 1;
}

#[test]
fn blockcount_is_the_number_of_writes() {
    let server = FarEnd::start(&[]);
    let mut command = server.command("test", &["--no-save", "--json", "--blockcount", "5"]);
    let output = command.assert().success().get_output().clone();
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(report["plan"]["stop"]["blocks"], 5);
}

#[test]
fn a_rate_of_zero_is_unlimited() {
    assert_eq!(report_with(&["-b", "0"])["plan"].get("write_rate_bps"), None);
}

#[test]
fn the_last_time_counts() {
    let server = FarEnd::start(&[]);
    let mut command = server.command("test", &["--no-save", "--json", "-t", "60", "-t", "300ms"]);
    let output = command.assert().success().get_output().clone();
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(report["plan"]["stop"]["time_us"], 300_000);
}

#[test]
fn every_letter_of_iperf3_that_means_the_same_is_accepted() {
    for options in [
        &["-P", "2", "-R", "-N", "-w", "128K", "-l", "16K", "-M", "1400", "-4"][..],
        &["--bidir", "-C", "cubic", "-B", "127.0.0.1", "-i", "1"],
        &["-u", "-b", "20M", "-l", "1000"],
        &["-Z", "-k", "3", "-J"],
    ] {
        let server = FarEnd::start(&[]);
        // -k and -n exclude each other.
        let bytes: &[&str] = if options.contains(&"-k") { &[] } else { &["-n", "100K"] };
        server.command("test", &[&["--no-save"], bytes, options].concat()).assert().success();
    }
}

#[test]
fn cport_is_the_local_port_of_the_first_stream() {
    let port = free_port();
    let given = port.to_string();
    let report = report_with(&["--cport", &given, "-P", "2"]);
    for (stream, port) in [(0, port), (1, port + 1)] {
        let local = &report["observation"]["streams"][stream]["sender"]["local"];
        assert_eq!(local, &format!("127.0.0.1:{port}"));
    }
}

#[test]
fn lines_are_printed_without_a_terminal_if_their_interval_is_given() {
    let server = FarEnd::start(&[]);
    let run = |options: &[&str]| {
        let options = [&["--no-save", "-t", "1"], options].concat();
        text(&server.command("test", &options).assert().success().get_output().stderr)
    };
    let lines = run(&["-i", "0.3"]);
    assert!(lines.starts_with("    time "), "{lines}");
    assert!(lines.lines().count() >= 3, "{lines}");
    for silent in [&[][..], &["-i", "0"], &["-i", "0.3", "--json"], &["-i", "0.3", "-q"]] {
        let told = run(silent);
        assert!(!told.contains("goodput"), "{silent:?}: {told}");
    }
}

#[test]
fn the_unit_of_rates_is_chosen_as_in_iperf3() {
    for (letter, unit) in [("m", "Mbit/s"), ("k", "kbit/s"), ("M", "MiB/s")] {
        let shown = text(&test_with(&["-f", letter]).stdout);
        assert!(shown.contains(unit), "{shown}");
        assert!(!shown.contains("Gbit/s"), "{shown}");
    }
    // The long name has iperf3's values and ours.
    let shown = text(&test_with(&["--format", "iperf3"]).stdout);
    assert!(serde_json::from_str::<Value>(&shown).is_ok_and(|it| it["end"].is_object()), "{shown}");
}

#[test]
fn a_title_stands_before_every_line() {
    let shown = text(&test_with(&["-T", "night run"]).stdout);
    assert!(shown.lines().count() > 3, "{shown}");
    assert!(shown.lines().all(|line| line.starts_with("night run:  ")), "{shown}");
    let json = text(&test_with(&["-T", "night run", "-f", "iperf3"]).stdout);
    let json: Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!(json["title"], "night run");
}

#[test]
fn a_log_file_gets_all_output_and_keeps_what_it_had() {
    let folder = Folder::new("logfile");
    let file = folder.file("runs.log");
    std::fs::write(&file, "earlier\n").expect("write");
    let name = file.to_str().expect("UTF-8");
    let output = test_with(&["--logfile", name, "-i", "0.1"]);
    assert!(output.stdout.is_empty() && output.stderr.is_empty(), "{output:?}");
    let logged = std::fs::read_to_string(&file).expect("the log");
    assert!(logged.starts_with("earlier\n"), "{logged}");
    assert!(logged.contains("limited by"), "{logged}");
}

/// The events of a run with `--json-stream`.
fn events_of(output: &Output) -> Vec<Value> {
    let lines = text(&output.stdout);
    lines.lines().map(|line| serde_json::from_str(line).expect("one object per line")).collect()
}

#[test]
fn json_stream_prints_an_event_per_line() {
    for direction in [&[][..], &["-R"], &["--bidir"]] {
        let output = test_with(&[&["--json-stream", "-i", "0.1", "-b", "8M"], direction].concat());
        let events = events_of(&output);
        let names: Vec<&str> = events.iter().filter_map(|it| it["event"].as_str()).collect();
        let intervals = names.len() - 2;
        assert_eq!(names.first(), Some(&"start"), "{names:?}");
        assert_eq!(names.last(), Some(&"end"), "{names:?}");
        assert!(intervals >= 2 && names[1..=intervals].iter().all(|it| *it == "interval"));
        let start = &events[0]["data"];
        assert!(start["version"].as_str().is_some_and(|it| it.starts_with("iperf 3")), "{start}");
        assert!(start["connected"][0]["local_port"].as_u64() > Some(0), "{start}");
        let sum = |event: &Value| event["data"]["sum"]["bytes"].as_u64().unwrap_or(0);
        let moved: u64 = events[1..=intervals].iter().map(sum).sum();
        let end = &events[intervals + 1]["data"];
        // Each interval is computed when it is over, and the last one from all samples.
        assert!(moved > 0 && moved <= end["sum_sent"]["bytes"].as_u64().unwrap_or(0) + 262_144);
    }
}

#[test]
fn json_stream_of_the_iperf3_command_is_the_same() {
    let server = FarEnd::start(&[]);
    let output = longhaul()
        .args(["iperf3", "-c", "127.0.0.1", "-p", &server.port, "-n", "300K", "--no-save"])
        .args(["-J", "--json-stream"])
        .assert()
        .success();
    let events = events_of(output.get_output());
    assert_eq!(events.last().map(|event| &event["event"]), Some(&Value::from("end")));
}

#[test]
fn json_stream_of_a_run_that_fails_ends_with_the_error() {
    let port = free_port().to_string();
    let line = ["test", "127.0.0.1", "-p", &port, "--json-stream", "--no-save"];
    let assert = longhaul().args(line).assert().code(3);
    let shown = text(&assert.get_output().stdout);
    assert!(shown.starts_with("{\"event\":\"error\",\"data\":\"cannot connect to "), "{shown}");
}

/// Tests that a command line is refused with exit code 2, and with these words.
macro_rules! refused {
    ($($name:ident: $line:expr => $($words:expr),+;)+) => {$(
        #[test]
        fn $name() {
            let words: Vec<&str> = $line.split(' ').filter(|word| !word.is_empty()).collect();
            let assert = longhaul().args(&words).assert().code(2);
            let output = assert.get_output();
            let told = text(&output.stderr);
            assert!(output.stdout.is_empty() && support::skip_lab_warning(&told).starts_with("error: "), "{told}");
            for words in [$($words),+] {
                assert!(told.contains(words), "{words}: {told}");
            }
            assert!(!told.contains("as a value"), "{told}");
        }
    )+};
}

refused! {
    a_host_alone: "far" => "\n  tip: measure throughput: longhaul test far\n";
    a_host_with_options: "198.51.100.7 -P 4 -t 5"
        => "tip: measure throughput: longhaul test 198.51.100.7 -P 4 -t 5\n";
    a_client_as_in_iperf3: "-c far -P 4 -R" => "longhaul test far -P 4 -R\n";
    a_client_after_its_options: "-P 4 -c far" => "longhaul test far -P 4\n";
    a_long_client: "--client=far --bidir" => "longhaul test far --bidir\n";
    a_client_with_a_meaning_of_iperf3: "-c far --connect-timeout 500"
        => "longhaul iperf3 -c far --connect-timeout 500\n";
    a_client_as_a_word: "client far -t 5" => "longhaul test far -t 5\n";
    a_client_without_a_host: "client" => "longhaul test HOST\n";
    a_server_as_in_iperf3: "-s -p 5202" => "run the server: longhaul serve -p 5202\n";
    a_server_for_one_test: "-s -1" => "run the server: longhaul serve -1\n";
    a_server_as_a_word: "server" => "run the server: longhaul serve\n";
    a_mistyped_command: "tset far" => "similar subcommand exists: 'test'";
    lab_up: "lab up --name x" => "unrecognized subcommand 'up'", "longhaul lab run PATH -- COMMAND";
    client_of_a_test: "test -c far -P 4" => "longhaul test far";
    server_of_a_test: "test -s" => "run the server: longhaul serve";
    debug: "test far -d" => "use --full for all figures";
    a_flow_label: "test far -L 7" => "unexpected argument '-L'", "nothing here corresponds to it";
    a_file_as_payload: "test far -F x" => "longhaul copy FILE far:";
    multipath: "test far -m" => "use TCP";
    dont_fragment_without_udp: "test far --dont-fragment" => "required arguments were not provided:\n  --udp";
    a_daemon: "iperf3 -s -D" => "service manager";
    an_unknown_option: "test far --nosuch" => "unexpected argument '--nosuch' found\n";
    a_similar_option: "test far --strems 4" => "unexpected argument '--strems' found";
    bytes_for_a_search: "tune far -n 5M" => "measure throughput: longhaul test far -n 5M\n";
    an_interval_for_loads: "load far -i 1" => "this works with `longhaul test`";
    a_timeout_without_a_unit: "test far --connect-timeout 500"
        => "'500' for '--connect-timeout <TIME>': 500ms or 500s? give a unit";
    a_core_that_is_not_there: "test far -A 1023" => "affinity: core of this host 1023";
    a_core_of_an_iperf3_client: "iperf3 -c far -A 1023,0" => "core of this host 1023";
    a_core_for_a_search: "tune far -A 1023" => "core of this host 1023";
    two_forms_of_output: "test far --format iperf3 --json" => "'--format iperf3' cannot be used with";
    wide_reports_of_mtr: "path far -rw" => "-w is --watch here; leave mtr's -w out";
    a_wait_of_traceroute: "path far -w 5" => "-w is --watch here; use --timeout 5";
    queries_of_traceroute: "path far -q 1" => "-q is --quiet here; use --queries 1";
    a_first_hop: "path far -f 3" => "leave it out; every hop is probed";
    an_address_of_mtr: "path far -a 192.0.2.1" => "give the local address with -B";
    csv_of_mtr: "path far --csv" => "print JSON with -J";
}

#[test]
fn a_core_that_the_server_does_not_have_is_refused_by_it() {
    let server = FarEnd::start(&[]);
    let mut command = server.command("test", &["--no-save", "-n", "100K", "-A", "0,1023"]);
    let told = text(&command.assert().code(3).get_output().stderr);
    assert!(told.contains("core of the server 1023 is not allowed; allowed: 0"), "{told}");
}

#[test]
fn milliseconds_are_the_unit_of_iperf3s_timeout() {
    let port = free_port().to_string();
    let line = ["iperf3", "-c", "127.0.0.1", "-p", &port, "--connect-timeout", "500"];
    let told = text(&longhaul().args(line).assert().code(3).get_output().stderr);
    assert!(told.contains("refused"), "{told}");
}

#[test]
fn options_of_mtr_and_traceroute_that_mean_the_same_are_accepted() {
    for options in [
        &["-n", "-r", "-c", "1"][..],
        &["-n", "-z", "-b", "--report-wide"],
        &["-n", "-U", "--report"],
        &["-n", "-u", "-m", "3"],
    ] {
        let mut command = longhaul();
        command.args(["path", "127.0.0.1", "-p", "9", "--udp", "--no-save", "--no-mtu"]);
        command.args(options).assert().success();
    }
    for letter in ["-I", "-T"] {
        // Without privileges these probes cannot be sent, which is no matter of the command line.
        let mut command = longhaul();
        command.args(["path", "127.0.0.1", "-p", "9", "--no-save", "--no-mtu", "-n", letter]);
        let code = command.assert().get_output().status.code();
        assert!(code.is_some_and(|code| [0, 5].contains(&code)), "{letter}: {code:?}");
    }
}

#[test]
fn the_time_of_a_load_may_be_a_word_of_its_own() {
    for line in ["path far.invalid --load 4s -P 8", "path --load 4s far.invalid"] {
        let told = text(&longhaul().args(line.split(' ')).assert().code(3).get_output().stderr);
        assert!(
            support::skip_lab_warning(&told).starts_with("error: cannot resolve far.invalid\n"),
            "{told}"
        );
    }
    let told = text(
        &longhaul().args(["path", "far", "--load", "1s"]).assert().code(2).get_output().stderr,
    );
    assert!(told.contains("must be 3 s to 300 s"), "{told}");
}

#[test]
fn an_import_need_not_be_saved() {
    let folder = Folder::new("import_no_save");
    let archive = folder.file("archive.sqlite3");
    let json = test_with(&["-f", "iperf3"]).stdout;
    let file = folder.file("run.json");
    std::fs::write(&file, json).expect("write");
    longhaul()
        .args(["import", "--no-save", "--archive"])
        .args([&archive, &file])
        .assert()
        .success();
    assert!(!archive.exists());
}

#[test]
fn a_locale_without_utf8_gets_ascii() {
    let server = FarEnd::start(&[]);
    let shown = |variable: &str, locale: &str| {
        let mut command = server.command("test", &["--no-save", "-t", "2"]);
        for name in ["LC_ALL", "LC_CTYPE", "LANG"] {
            command.env_remove(name);
        }
        text(&command.env(variable, locale).assert().success().get_output().stdout)
    };
    assert!(shown("LC_ALL", "C").is_ascii());
    assert!(shown("LANG", "de_DE.ISO-8859-1").is_ascii());
    assert!(shown("LANG", "C.UTF-8").contains('█'));
}
