//! `longhaul latency --twamp-control` against `longhaul serve --twamp`, over loopback.

use crate::far_end::FarEndServer;
use crate::latency::measure_latency;
use crate::support::{Folder, HUNG, free_port, longhaul};
use std::fs;
use std::io::Read;
use std::net::TcpStream;

/// Starts a server of TWAMP on a port of its own.
fn start_twamp(options: &[&str]) -> (FarEndServer, u16) {
    let port = free_port();
    let twamp = format!("--twamp={port}");
    let server = FarEndServer::start(&[&[twamp.as_str()], options].concat());
    (server, port)
}

#[test]
fn a_session_is_reflected_on_the_port_that_the_server_names() {
    let reflector = free_port();
    let (_server, control) = start_twamp(&[&format!("--stamp={reflector}")]);
    let report = measure_latency(1, &[&format!("--twamp-control={control}"), "--dscp", "EF"]);
    assert_eq!(report.plan.protocol.word(), "twamp");
    assert_eq!((report.plan.control_port, report.plan.port), (Some(control), reflector));
    assert_eq!(report.analysis.answered_packets, 20);
    // The same reflector serves senders of STAMP.
    assert_eq!(measure_latency(reflector, &[]).analysis.answered_packets, 20);
}

#[test]
fn a_server_with_keys_serves_only_clients_with_one_of_them() {
    let folder = Folder::new("twamp_keys");
    let file = |name: &str, text: &str| {
        fs::write(folder.file(name), text).expect("written");
        folder.file(name).to_str().expect("UTF-8").to_owned()
    };
    let keys = file("keys", "ann a first passphrase\njoe 0x6a6f65\n");
    let (_server, port) = start_twamp(&["--twamp-keys", &keys]);
    let control = format!("--twamp-control={port}");
    let key = file("joe", "joe joe");
    for size in ["112", "1400"] {
        let report = measure_latency(1, &[&control, "--key-file", &key, "--size", size]);
        assert!(report.plan.authenticated && report.plan.port == port);
        assert_eq!(report.analysis.answered_packets, 20);
        assert_eq!(report.observation.discarded, 0);
    }
    // It reflects only for its sessions.
    longhaul()
        .args(["latency", "127.0.0.1", "-c", "1", "--timeout", "10ms", "--no-save"])
        .args(["--port", &port.to_string()])
        .assert()
        .code(3);
    let wrong = file("wrong", "joe another");
    for (options, part) in [
        (&["--key-file", &wrong][..], "refuses the connection"),
        (&[], "no unauthenticated mode"),
        (&["--key-file", &file("empty", "")], "it is empty"),
    ] {
        let assert = longhaul()
            .args(["latency", "127.0.0.1", &control, "--no-save"])
            .args(options)
            .assert()
            .failure();
        let said = String::from_utf8_lossy(&assert.get_output().stderr).into_owned();
        assert!(said.contains(part), "{said}");
    }
}

/// Connects, and returns the modes in the greeting.
fn read_modes(port: u16) -> (TcpStream, u8) {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("connected");
    stream.set_read_timeout(Some(HUNG)).expect("set");
    let mut greeting = [0; 64];
    stream.read_exact(&mut greeting).expect("a greeting");
    (stream, greeting[15])
}

#[test]
fn a_source_has_eight_connections_and_silent_ones_are_closed() {
    let (_server, port) = start_twamp(&[]);
    let open = [(); 8].map(|()| read_modes(port));
    assert!(open.iter().all(|(_, modes)| *modes == 1));
    assert_eq!(read_modes(port).1, 0, "a ninth is refused");
    for (mut stream, _) in open {
        assert_eq!(stream.read(&mut [0]).expect("closed in order"), 0);
    }
    assert_eq!(read_modes(port).1, 1);
}
