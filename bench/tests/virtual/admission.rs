//! Clients on long paths while others flood the server with connections.

use crate::lab::{StandingLab, TUN};
use std::collections::VecDeque;
use std::net::TcpStream;
use std::process::Stdio;
use std::thread;
use std::time::Duration;

crate::virtual_tests!(
    idle_connections_shut_no_client_out_at_172_ms,
    idle_connections_shut_no_client_out_at_436_ms,
);

/// Set in the process that floods.
const FLOOD_VARIABLE: &str = "LONGHAUL_TEST_FLOOD";
/// Any test of this file, which floods if the variable is set.
const FLOODING_TEST: &str = "admission::idle_connections_shut_no_client_out_at_172_ms";
/// Together they open some 350 connections a second at a round trip of 172 ms, 140 at 436 ms.
const FLOOD_THREADS: usize = 60;
/// The connections that each holds.
const HELD: usize = 12;

fn idle_connections_shut_no_client_out_at_172_ms() {
    if std::env::var_os(FLOOD_VARIABLE).is_some() {
        return flood_server();
    }
    assert_clients_are_served("hops.2.delay=81ms");
}

fn idle_connections_shut_no_client_out_at_436_ms() {
    assert_clients_are_served("hops.2.delay=213ms");
}

/// Runs clients with the token at the host that floods.
fn assert_clients_are_served(delay: &str) {
    let lab = StandingLab::up(TUN, &[delay]);
    lab.serve(&format!("{} serve", lab.program()));
    let own = std::env::current_exe().expect("this program").display().to_string();
    let mut flood = lab.near_command(&[&own, "--in-guest", FLOODING_TEST]);
    let flood = flood.env(FLOOD_VARIABLE, "1").stdout(Stdio::null()).spawn();
    let mut flood = flood.expect("the flood begins");
    thread::sleep(Duration::from_secs(3));
    for _ in 0..5 {
        // It fails the test unless it is served.
        lab.near(&[&lab.program(), "test", "far", "-n", "64K", "--no-save", "--quiet"]);
    }
    let is_flooding = flood.try_wait().expect("its state").is_none();
    flood.kill().expect("a process of this test");
    flood.wait().expect("its end");
    assert!(is_flooding, "the flood ended early");
}

/// Opens idle connections until the process is killed.
fn flood_server() {
    let open = || {
        let mut held = VecDeque::new();
        loop {
            // The server may reset it.
            held.extend(TcpStream::connect("far:5201").ok());
            held.drain(..held.len().saturating_sub(HELD));
        }
    };
    let threads: Vec<_> = (0..FLOOD_THREADS).map(|_| thread::spawn(open)).collect();
    for thread in threads {
        let _: Result<(), _> = thread.join();
    }
}
