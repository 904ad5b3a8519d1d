//! Clients on short and long paths while others flood the server with connections.

use crate::lab::{StandingLab, TUN};
use longhaul_sys::tcp_transfer::{ConnectingTcp, UnconnectedTcp};
use std::collections::VecDeque;
use std::fs;
use std::net::ToSocketAddrs;
use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

crate::virtual_tests!(
    idle_connections_shut_no_client_out_at_1_ms,
    idle_connections_shut_no_client_out_at_172_ms,
    idle_connections_shut_no_client_out_at_436_ms,
);

/// Set in the process that floods.
const FLOOD_VARIABLE: &str = "LONGHAUL_TEST_FLOOD";
/// Any test of this file, which floods if the variable is set.
const FLOODING_TEST: &str = "admission::idle_connections_shut_no_client_out_at_172_ms";
/// The connections that the flood opens in a millisecond: 5,000 a second.
const OPENED_PER_MS: u64 = 5;
/// The connections that the flood holds.
const HELD: usize = 10_000;

fn idle_connections_shut_no_client_out_at_1_ms() {
    let path = ["hops.1.delay=0.1ms", "hops.2.delay=0.3ms", "hops.3.delay=0.1ms"];
    assert_clients_are_served(&path, 1);
}

fn idle_connections_shut_no_client_out_at_172_ms() {
    if std::env::var_os(FLOOD_VARIABLE).is_some() {
        return flood_server();
    }
    assert_clients_are_served(&["hops.2.delay=81ms"], 172);
}

fn idle_connections_shut_no_client_out_at_436_ms() {
    assert_clients_are_served(&["hops.2.delay=213ms"], 436);
}

/// Runs a client with the token at the host that floods. The flood may make it slower by
/// three round trips and a second.
fn assert_clients_are_served(path: &[&str], rtt_ms: u64) {
    let lab = StandingLab::up(TUN, path);
    // The kernel of the guest has no SYN cookies, and a small machine few unfinished handshakes.
    let half_open = "echo 4096 >/proc/sys/net/ipv4/tcp_max_syn_backlog";
    lab.serve(&format!("{half_open}; {} serve", lab.program()));
    let quiet = time_run(&lab);
    let own = std::env::current_exe().expect("this program").display().to_string();
    let script = format!("ulimit -n 20000; exec {own} --in-guest {FLOODING_TEST}");
    let mut flood = lab.near_command(&["sh", "-c", &script]);
    let flood = flood.env(FLOOD_VARIABLE, "1").stdout(Stdio::null()).spawn();
    let mut flood = flood.expect("the flood begins");
    thread::sleep(Duration::from_millis(1000 + 2 * rtt_ms));
    let allowed = quiet + Duration::from_millis(3 * rtt_ms) + Duration::from_secs(1);
    let flooded = time_run(&lab);
    let is_flooding = flood.try_wait().expect("its state").is_none();
    flood.kill().expect("a process of this test");
    flood.wait().expect("its end");
    assert!(is_flooding, "the flood ended early");
    println!("{quiet:?} without the flood, {flooded:?} with it");
    assert!(flooded <= allowed, "{flooded:?} under the flood, {quiet:?} without");
}

/// Makes a short run, which fails the test unless it is served, and returns its time.
fn time_run(lab: &StandingLab) -> Duration {
    let began = Instant::now();
    lab.near(&[&lab.program(), "test", "far", "-n", "64K", "--no-save", "--quiet"]);
    began.elapsed()
}

/// Opens idle connections until the process is killed.
fn flood_server() {
    // The ports of closed connections are free again at once.
    fs::write("/proc/sys/net/ipv4/tcp_max_tw_buckets", "0").expect("a setting of this namespace");
    let server = ("far", 5201).to_socket_addrs().expect("a known name").next().expect("an address");
    let mut held: VecDeque<ConnectingTcp> = VecDeque::new();
    let began = Instant::now();
    let mut opened = 0;
    loop {
        let due = began.elapsed().as_millis() as u64 * OPENED_PER_MS;
        while opened < due {
            opened += 1;
            held.extend(UnconnectedTcp::new(server).and_then(UnconnectedTcp::begin_connect).ok());
            held.drain(..held.len().saturating_sub(HELD));
        }
        thread::sleep(Duration::from_millis(1));
    }
}
