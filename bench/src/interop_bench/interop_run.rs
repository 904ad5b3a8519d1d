//! One run of a pair: the payload in a window inside it, and the cost of each end.

use super::interop_pairs::{InteropPrograms, LoadScenario, ToolPair};
use crate::bench_lab;
use crate::cpu_meter::CpuGroup;
use crate::run_window::{self, RunWindow, run_at_steady_speed};
use crate::testbed::{TestNamespace, TestNetwork};
use std::fs::read_to_string;
use std::time::Duration;
use xtask::program_runner;

const PORT: u16 = 5201;
/// The maximum time until a client's payload flows.
const START_MAX: Duration = Duration::from_secs(5);
/// The time for which a client is told to run, longer than the window.
const SECONDS: &str = "4";
const WINDOW: RunWindow = RunWindow {
    start_max: START_MAX,
    started_bytes: 4_000_000,
    warm_up: Duration::from_millis(300),
    lasts: Duration::from_millis(1000),
};

/// The costs of the client and of the server.
pub type PairReading = run_window::WindowReading<2>;

/// Runs a pair until its window has passed, and ends it.
pub fn run_pair(
    bed: &TestNetwork,
    programs: &InteropPrograms,
    pair: ToolPair,
    scenario: &LoadScenario,
) -> Result<PairReading, String> {
    run_at_steady_speed(|| run_once(bed, programs, pair, scenario))
}

fn run_once(
    bed: &TestNetwork,
    programs: &InteropPrograms,
    pair: ToolPair,
    scenario: &LoadScenario,
) -> Result<PairReading, String> {
    let (near, far) = (CpuGroup::named("near")?, CpuGroup::named("far")?);
    let server = programs.server(pair.1, PORT);
    let mut client = programs.client(pair, bed.address, PORT);
    client.extend(["-t", SECONDS].map(str::to_owned));
    client.extend(scenario.options.iter().cloned());
    let mut server = far.spawn(&bed.far().enter(), &server, &[])?;
    let client = bench_lab::wait_until_listening(bed.far().pid(), PORT)
        .and_then(|()| near.spawn(&bed.near().enter(), &client, &[]));
    let reading = client.and_then(|mut client| {
        let reading = WINDOW.watch(&|| read_payload_bytes(bed, scenario), [&near, &far]);
        near.clear();
        program_runner::kill_child(&mut client);
        reading
    });
    far.clear();
    program_runner::kill_child(&mut server);
    reading
}

/// Returns the payload that has arrived at the receiver.
fn read_payload_bytes(bed: &TestNetwork, scenario: &LoadScenario) -> Option<u64> {
    let end = if scenario.reverse { bed.near() } else { bed.far() };
    match scenario.datagram_bytes {
        Some(each) => Some(read_delivered_datagrams(end)? * each),
        None => bed.payload_bytes_at(end),
    }
}

/// Returns `InDatagrams` of RFC 4113: datagrams delivered to readers, without those dropped by full
/// buffers.
fn read_delivered_datagrams(end: &TestNamespace) -> Option<u64> {
    let text = read_to_string(format!("/proc/{}/net/snmp", end.pid())).ok()?;
    let mut lines = text.lines().filter_map(|line| line.strip_prefix("Udp: "));
    let names = lines.next()?.split_whitespace();
    let mut pairs = names.zip(lines.next()?.split_whitespace());
    let (_, count) = pairs.find(|(name, _)| *name == "InDatagrams")?;
    count.parse().ok()
}
