//! Both ends over loopback, and peers that break the protocol.

use crate::ndt7_messages::{Ndt7Measurement, SubtestKind};
use crate::ndt7_service::Ndt7Handler;
use crate::subtest_client::{SubtestRequest, SubtestRun, run_subtest};
use longhaul_probe::measurement_server::{AnonymousLimits, MeasurementServer, ServeOptions};
use longhaul_probe::secure::TlsIdentity;
use longhaul_probe::throughput::TargetHost;
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

/// Runs `client` against a server whose subtests end after some data.
fn with_server<R>(client: impl FnOnce(SocketAddr) -> R) -> R {
    let identity = TlsIdentity::generate().expect("a certificate");
    let limits = AnonymousLimits { bytes: Some(1 << 20), ..AnonymousLimits::default() };
    let server = MeasurementServer::bind(ServeOptions {
        addresses: vec![IpAddr::V4(Ipv4Addr::LOCALHOST)],
        port: 0,
        anonymous: Some(limits),
        handlers: vec![Arc::new(Ndt7Handler::new(identity.server_config()))],
        ..ServeOptions::default()
    });
    let server = server.expect("a free port");
    let address = server.addresses()[0];
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let running = scope.spawn(|| server.run(|_| {}, &stop));
        let result = client(address);
        stop.store(true, Ordering::Relaxed);
        running.join().expect("no panic").expect("it served");
        result
    })
}

fn target(address: SocketAddr) -> TargetHost {
    TargetHost { port: address.port(), ..TargetHost::new(address.ip().to_string()) }
}

fn run(address: SocketAddr, kind: SubtestKind, uses_tls: bool) -> SubtestRun {
    let stop = AtomicBool::new(false);
    let wanted = SubtestRequest { kind, uses_tls, query: "access_token=a.b" };
    run_subtest(&target(address), wanted, &stop, &mut |_| {}).expect("a subtest")
}

#[test]
fn a_download_and_an_upload_move_data_with_tls_and_without() {
    for uses_tls in [false, true] {
        let down = with_server(|address| run(address, SubtestKind::Download, uses_tls));
        assert_eq!(down.failure, None);
        let last = down.result.download.expect("a download").client_measurements;
        let count = last.last().and_then(|one| one.app_info).expect("a count");
        assert!(count.num_bytes >= 1 << 20, "{count:?}");
        let up = with_server(|address| run(address, SubtestKind::Upload, uses_tls));
        let upload = up.result.upload.expect("an upload");
        assert!(upload.client_measurements.iter().all(|one| one.tcp_info.is_some()));
    }
}

/// Sends a request line with headers, and returns the first line of the answer.
fn answer_to(address: SocketAddr, path: &str, subprotocol: &str) -> String {
    let mut stream = TcpStream::connect(address).expect("it listens");
    let request = format!(
        "GET {path} HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: DOdm+5/Cm3WwvhfcAlhJoQ==\r\n\
         Sec-WebSocket-Protocol: {subprotocol}\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).expect("it reads");
    let mut answer = Vec::new();
    let mut byte = [0];
    while stream.read(&mut byte).is_ok_and(|count| count == 1) && byte[0] != b'\r' {
        answer.push(byte[0]);
    }
    String::from_utf8(answer).expect("text")
}

#[test]
fn a_request_without_the_subprotocol_or_with_another_path_is_refused() {
    with_server(|address| {
        let protocol = "net.measurementlab.ndt.v7";
        assert!(answer_to(address, "/ndt/v7/download", "chat").contains(" 400 "));
        assert!(answer_to(address, "/ndt/v7/sideways", protocol).contains(" 400 "));
        let long = format!("/ndt/v7/download?x={}", "x".repeat(4096));
        assert!(!answer_to(address, &long, protocol).contains(" 101 "));
        assert!(answer_to(address, "/ndt/v7/upload?a=b", protocol).contains(" 101 "));
    });
}

#[test]
fn a_server_that_closes_or_sends_nonsense_is_an_error_and_no_result() {
    for answer in [&b""[..], b"HTTP/1.1 200 OK\r\n\r\n", b"\x16\x03\x01nonsense"] {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let address = listener.local_addr().expect("an address");
        let peer = thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("a client");
            let mut request = [0; 4];
            stream.read_exact(&mut request).expect("a request");
            stream.write_all(answer).expect("it reads");
        });
        let stop = AtomicBool::new(false);
        let wanted = SubtestRequest { kind: SubtestKind::Download, uses_tls: false, query: "" };
        let result = run_subtest(&target(address), wanted, &stop, &mut |_| {});
        assert!(result.is_err(), "{answer:?}");
        peer.join().expect("no panic");
    }
}

#[test]
fn measurements_that_are_too_large_or_no_json_are_ignored() {
    assert_eq!(Ndt7Measurement::parse("{"), None);
    assert_eq!(Ndt7Measurement::parse(&format!("{{\"Test\":\"{}\"}}", "x".repeat(20_000))), None);
    let text = r#"{"TCPInfo":{"RTT":5,"bad name":1},"ConnectionInfo":null}"#;
    let counters = Ndt7Measurement::parse(text).and_then(|one| one.tcp_info).expect("counters");
    assert_eq!(counters.keys().collect::<Vec<_>>(), ["RTT"]);
}
