//! Whatever is wrong with what the user says, or with the far end: one clear error, the stated
//! exit code, and an end before the deadline.

use crate::support::{self, Folder, longhaul};
use std::io::Write;
use std::net::{TcpListener, UdpSocket};

/// Standard error of a call that must end with `code` and say nothing on standard output.
fn complaint(arguments: &[&str], code: i32) -> String {
    let assert = longhaul().args(arguments).assert().code(code);
    let output = assert.get_output();
    assert!(output.stdout.is_empty(), "{arguments:?} wrote to stdout");
    String::from_utf8(output.stderr.clone()).expect("UTF-8")
}

/// Options of `test`, and what must be said of them.
const ABSURD: &[(&[&str], &str)] = &[
    (&["-P", "0"], "'0' for '--streams <N>': must be 1 to "),
    (&["-P", "1000000"], "'1000000' for '--streams <N>': must be 1 to "),
    (&["-P", "many"], "'many' for '--streams <N>': not a whole number"),
    (&["-t", "-5"], "'-5'"),
    (&["-t", "1e99"], "'1e99' for '--time <TIME>': expected a duration"),
    (&["-n", "0"], "'0' for '--bytes <SIZE>': must be 1 B to "),
    (&["-n", "lots"], "'lots' for '--bytes <SIZE>': expected a size"),
    (&["-k", "0"], "'0' for '--blocks <N>': must be 1 to "),
    (&["-w", "0"], "'0' for '--window <SIZE>': must be 1 B to 1 GiB"),
    (&["-w", "99T"], "'99T' for '--window <SIZE>': must be 1 B to 1 GiB"),
    (&["--send-buffer", "2G"], "'2G' for '--send-buffer <SIZE>': must be"),
    (&["--receive-buffer", "2G"], "'2G' for '--receive-buffer <SIZE>': must be"),
    (&["-l", "0"], "'0' for '--length <SIZE>': must be 1 B to 64 MiB"),
    (&["--read-length", "1G"], "'1G' for '--read-length <SIZE>': must be"),
    (&["-C", "no such"], "'no such' for '--congestion-control <NAME>': not the name"),
    (&["--pacing", "0"], "'0' for '--pacing <RATE>': must be 1 kbit/s to"),
    (&["-f", "x"], "'x' for '--format <FORMAT>': expected text, iperf3, or the unit"),
    (&["-S", "256"], "'256' for '--tos <TOS>': must be 0 to 255"),
    (&["-b", "fast"], "'fast' for '--bitrate <RATE>': expected a rate"),
    (&["--read-rate", "0"], "'0' for '--read-rate <RATE>': must be"),
    (&["-M", "1"], "'1' for '--mss <BYTES>': must be 88 to 32767"),
    (&["--dscp", "AF99"], "'AF99' for '--dscp <DSCP>': expected 0 to 63, or a name"),
    (&["-B", "nowhere"], "'nowhere' for '--bind <ADDR>': "),
    (&["--bind-dev", "a/b"], "'a/b' for '--bind-dev <DEV>': not an interface name"),
    (&["-A", "0,1,2"], "a list needs a slash after the cores of this host: 0,1,2/"),
    (&["-A", "3-1"], "'3-1' for '--affinity <CORES>': expected auto, off, or cores"),
    (&["-i", "2min"], "'2min' for '--interval <TIME>': must be 10 ms to 60 s"),
    (&["--sample-interval", "0"], "'0' for '--sample-interval <TIME>': must be 10 ms to 60 s"),
    (&["-O", "10"], "'10 s' for '--omit <TIME>': must be less than the 10 s"),
    (&["-p", "0"], "'0' for '--port <PORT>': must be 1 to 65535"),
    (&["-p", "70000"], "'70000' for '--port <PORT>': must be 1 to 65535"),
    (&["--expect", "speed > 1"], "'speed > 1' for '--expect <CONDITION>': `speed` is not"),
    (&["--connect-timeout", "0s"], "'0s' for '--connect-timeout <TIME>': must be 1 ms"),
    (&["-u", "-l", "8"], "'8' for '--length <SIZE>': must be "),
    (&["-t", "1", "-n", "1"], "'--time <TIME>' cannot be used with '--bytes <SIZE>'"),
    (&["-R", "--bidir"], "'--reverse' cannot be used with '--bidir'"),
    (&["-4", "-6"], "'--ipv4' cannot be used with '--ipv6'"),
    (&["-u", "-M", "1000"], "'--udp' cannot be used with '--mss <BYTES>'"),
    (&["--token", ""], "cannot use the token in --token: it is empty"),
    (&["--token-file", "/nonexistent/token"], "cannot read the token file"),
    (&["--windows", "64K"], "unexpected argument '--windows' found"),
    (&["extra"], "unexpected argument 'extra' found"),
];

#[test]
fn absurd_values_of_every_option_name_option_value_and_range() {
    for (options, message) in ABSURD {
        let mut arguments = vec!["test", "far.invalid"];
        arguments.extend(*options);
        let text = complaint(&arguments, 2);
        assert!(support::skip_lab_warning(&text).starts_with("error: "), "{options:?}: {text}");
        assert!(text.contains(message), "{options:?}: {text}");
        assert_eq!(text.matches("error: ").count(), 1, "{options:?}: {text}");
    }
}

#[test]
fn other_commands_refuse_what_they_cannot_do() {
    for (arguments, message) in [
        (&["serve", "--max-streams", "0"][..], "'0' for '--max-streams <N>'"),
        (&["serve", "--anonymous", "--token", "x"], "cannot be used with"),
        (&["serve", "--anonymous-time", "0"], "'0' for '--anonymous-time <TIME>'"),
        (&["report", "list", "-n", "0"], "'0' for '--limit <N>': must be 1 to"),
        (&["lab", "show", "la-genova"], "did you mean `la-geneva`?"),
        (&["lab", "show", "la-geneva", "--set", "hops.1.forward.rate=slow"], "--set hops.1"),
        (&["lab", "run", "la-geneva"], "required arguments were not provided"),
        (&["test", "two words"], "'two words' for '<HOST>': not a host name or address"),
    ] {
        let text = complaint(arguments, 2);
        assert!(support::skip_lab_warning(&text).starts_with("error: "), "{arguments:?}: {text}");
        assert!(text.contains(message), "{arguments:?}: {text}");
    }
    // No command at all gets the help, on stderr.
    assert!(complaint(&[], 2).contains("Usage: longhaul"));
}

#[test]
fn an_unknown_host_is_named() {
    let text = complaint(&["test", "no-such-host.invalid"], 3);
    assert!(
        support::skip_lab_warning(&text)
            .starts_with("error: cannot resolve no-such-host.invalid\n"),
        "{text}"
    );
    assert!(text.contains("\n  caused by: "), "{text}");
    assert!(text.contains("\nhint: check the name"), "{text}");
}

#[test]
fn a_closed_port_says_how_to_start_the_far_end() {
    // Bound and not listening: nobody else can take the port meanwhile.
    let taken = UdpSocket::bind("127.0.0.1:0").expect("a port");
    let port = taken.local_addr().expect("its number").port().to_string();
    let text = complaint(&["test", "127.0.0.1", "-p", &port], 3);
    assert!(text.contains("error: cannot connect to 127.0.0.1"), "{text}");
    assert!(text.contains("refused"), "{text}");
    assert!(
        text.contains("hint: start `longhaul serve` on that host: nothing listens on this port")
    );
}

#[test]
fn a_far_end_that_says_nothing_is_given_up() {
    let silent = TcpListener::bind("127.0.0.1:0").expect("a listener");
    let port = silent.local_addr().expect("its number").port().to_string();
    let text = complaint(&["test", "127.0.0.1", "-p", &port, "--connect-timeout", "300ms"], 3);
    assert!(support::skip_lab_warning(&text).starts_with("error: "), "{text}");
    assert!(text.contains("\nhint: "), "{text}");
}

#[test]
fn a_far_end_of_another_kind_is_told_from_ours() {
    let other = TcpListener::bind("127.0.0.1:0").expect("a listener");
    let port = other.local_addr().expect("its number").port().to_string();
    let answer = std::thread::spawn(move || {
        let (mut peer, _) = other.accept().expect("a peer");
        peer.write_all(b"SSH-2.0-OpenSSH_9.2\r\n").expect("a greeting");
    });
    let text = complaint(&["test", "127.0.0.1", "-p", &port], 3);
    answer.join().expect("the other end");
    assert!(support::skip_lab_warning(&text).starts_with("error: "), "{text}");
    assert!(text.contains("longhaul serve"), "{text}");
}

/// The bytes of hostile servers to whoever connects; they wait for the end of the connection, or not.
const HOSTILE_BYTES: [(&str, &[u8], bool); 8] = [
    ("close", b"", false),
    ("another protocol", b"SSH-2.0-OpenSSH_9.2\r\n", true),
    ("garbage", &[0x80, 0xff, 0, 1, 2, 0xfe, 0x7f, 0x55], true),
    ("half a TLS record", b"\x16\x03\x03\x40\x00half of it", true),
    ("a TLS record that is too long", b"\x16\x03\x03\xff\xff", true),
    ("a TLS alert", b"\x15\x03\x03\x00\x02\x02\x28", false),
    ("HTTP", b"HTTP/1.1 400 Bad Request\r\nconnection: close\r\n\r\n", false),
    ("a busy server of iperf3", b"\xff", false),
];

/// Sends the bytes to everybody until the test ends; returns the port.
fn serve_bytes(bytes: &'static [u8], waits: bool) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
    let port = listener.local_addr().expect("its number").port();
    std::thread::spawn(move || {
        for mut peer in listener.incoming().map_while(Result::ok) {
            std::thread::spawn(move || {
                let _ = peer.write_all(bytes);
                if waits {
                    let _ = std::io::copy(&mut peer, &mut std::io::sink());
                }
            });
        }
    });
    port
}

#[test]
fn a_hostile_server_ends_every_command_with_a_named_error() {
    const COMMANDS: [&str; 6] = ["test", "tune", "load", "available", "record", "copy"];
    let attack = |(kind, bytes, waits): (&str, &'static [u8], bool)| {
        let host = format!("127.0.0.1:{}", serve_bytes(bytes, waits));
        for command in COMMANDS {
            let mut run = longhaul();
            run.args([command, "--connect-timeout", "3s"]);
            match command {
                "copy" => run.args([&format!("{host}:file"), "-"]),
                _ => run.arg(&host),
            };
            let assert = run.arg("--no-save").assert();
            let output = assert.get_output();
            let told = String::from_utf8_lossy(&output.stderr).into_owned();
            let place = format!("{command}, {kind}: {told}");
            assert!(matches!(output.status.code(), Some(3 | 4)), "{place}");
            let has = |start: &str| told.lines().any(|line| line.starts_with(start));
            assert!(has("error: ") && has("hint: "), "{place}");
            println!("attack: tried 1");
        }
    };
    std::thread::scope(|scope| {
        for kind in HOSTILE_BYTES {
            scope.spawn(move || attack(kind));
        }
    });
}

#[test]
fn an_archive_in_an_impossible_place_ends_with_6_only_for_report() {
    let folder = Folder::new("impossible");
    std::fs::write(folder.file("file"), "not a folder").expect("write");
    let inside = folder.file("file/archive.sqlite3");
    let inside = inside.to_str().expect("UTF-8");
    let text = complaint(&["report", "list", "--archive", inside], 6);
    assert!(
        support::skip_lab_warning(&text).starts_with("error: cannot open the archive "),
        "{text}"
    );
}

#[test]
fn a_record_is_not_printed_in_iperf3s_shape() {
    let said = complaint(&["record", "127.0.0.1", "--format", "iperf3"], 2);
    assert!(said.contains("cannot print a record in the format of iperf3"), "{said}");
    assert!(said.contains("omit --format"), "{said}");
}
