//! `longhaul explain --far-end`: the server at the other end watches its half.

use crate::support::{HUNG, free_port, longhaul};
use longhaul_model::report::v1::FlowsReport;
use longhaul_model::report::v1::analysis::Limiter;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const TOKEN: &str = "a token of more than sixteen characters";

/// A server on loopback that ends with the test.
pub struct FarEndServer {
    child: Child,
    port: u16,
}

impl FarEndServer {
    /// Starts a server with further options.
    pub fn start(options: &[&str]) -> FarEndServer {
        let port = free_port();
        let child = Command::new(env!("CARGO_BIN_EXE_longhaul"))
            .args(["serve", "-B", "127.0.0.1", "-p", &port.to_string()])
            .args(options)
            .env("LONGHAUL_TOKEN", TOKEN)
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("the server starts");
        let started = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(started.elapsed() < HUNG, "the server does not listen");
            thread::sleep(Duration::from_millis(50));
        }
        FarEndServer { child, port }
    }
}

impl Drop for FarEndServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Explains a transfer over loopback whose writer sends a little at a time.
fn explain_slow_transfer(server: &FarEndServer, token: Option<&str>) -> FlowsReport {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let is_over = AtomicBool::new(false);
    let output = thread::scope(|scope| {
        scope.spawn(|| {
            let mut near = TcpStream::connect(("127.0.0.1", port)).expect("connected");
            while !is_over.load(Ordering::Relaxed) {
                near.write_all(&[7; 16 * 1024]).expect("written");
                thread::sleep(Duration::from_millis(10));
            }
        });
        scope.spawn(|| {
            let (mut far, _) = listener.accept().expect("accepted");
            let mut room = vec![0; 1 << 16];
            while far.read(&mut room).expect("read") > 0 {}
        });
        let mut explain = longhaul();
        explain.args(["explain", &format!(":{port}"), "--for", "3s", "--no-save", "--json"]);
        explain.args(["--far-end", &format!("127.0.0.1:{}", server.port)]);
        if let Some(token) = token {
            explain.env("LONGHAUL_TOKEN", token);
        }
        let output = explain.output().expect("the program runs");
        is_over.store(true, Ordering::Relaxed);
        output
    });
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("a report")
}

/// Returns the caveat that the far end did not watch.
fn find_refusal(report: &FlowsReport) -> Option<&str> {
    let caveat = report.caveats.iter().find(|caveat| caveat.code == "far_end_missing");
    caveat.map(|caveat| caveat.text.as_str())
}

#[test]
fn the_server_at_the_far_end_adds_its_half_and_both_ends_give_one_verdict() {
    let report = explain_slow_transfer(&FarEndServer::start(&[]), Some(TOKEN));
    assert_eq!(find_refusal(&report), None);
    let transfers = &report.observation.transfers;
    let far = transfers.iter().filter(|it| it.watched_at.is_some()).count();
    // Both directions of a connection over loopback are on both hosts.
    assert_eq!((transfers.len(), far), (4, 2), "{transfers:?}");
    let concluded: Vec<Limiter> =
        report.analysis.transfers.iter().map(|it| it.run.limited_by).collect();
    // A busy sender may have no verdict.
    let of_sender = transfers.iter().zip(&concluded).find(|(transfer, _)| transfer.sends);
    let (_, verdict) = of_sender.expect("the sender");
    let agree = concluded.iter().all(|it| it == verdict);
    assert!(agree || *verdict == Limiter::Unknown, "{concluded:?}");
}

#[test]
fn a_server_watches_nothing_for_clients_without_the_token() {
    let report = explain_slow_transfer(&FarEndServer::start(&[]), None);
    let refusal = find_refusal(&report).expect("the reason");
    assert!(refusal.contains("only with the token"), "{refusal}");
    assert!(report.observation.transfers.iter().all(|it| it.watched_at.is_none()));
}
