//! One run of a pair: what arrived in a window inside it, and what each end spent meanwhile.

use super::pairs::{Pair, Programs, Scenario};
use crate::bench::beds::{Bed, Namespace};
use crate::bench::meter::{Group, core_speed, machine_cpu};
use crate::process;
use std::fs::read_to_string;
use std::thread::sleep;
use std::time::{Duration, Instant};

const PORT: &str = "5201";
/// As `/proc/net/tcp` writes it, and the state of a listener.
const LISTENS: (&str, &str) = (":1451 ", " 0A ");
/// The longest that a server may take to listen, and a client until payload flows.
const START_MAX: Duration = Duration::from_secs(5);
/// How long a client is told to run: more than is watched of it.
const SECONDS: &str = "4";
const WARM_UP: Duration = Duration::from_millis(300);
const WINDOW: Duration = Duration::from_millis(1000);
/// Payload after which a run counts as under way.
const STARTED_BYTES: u64 = 4_000_000;
const FOREIGN_CORES_MAX: f64 = 0.15;
const CORE_SPEED_CHANGE_MAX: f64 = 0.2;

/// What one run gave.
#[derive(Debug, Clone, Copy)]
pub struct Reading {
    pub gigabits: f64,
    /// CPU seconds per 10^9 payload bytes.
    pub client_cost: f64,
    pub server_cost: f64,
    /// Nobody else used the machine meanwhile.
    pub clean: bool,
}

/// Runs a pair until its window has passed, and ends it.
pub fn run(
    bed: &Bed,
    programs: &Programs,
    pair: Pair,
    scenario: &Scenario,
) -> Result<Reading, String> {
    let speed_before = core_speed();
    let (near, far) = (Group::named("near")?, Group::named("far")?);
    let server = programs.server(pair.1, PORT);
    let mut client = programs.client(pair, bed.address, PORT);
    client.extend(
        ["-t", SECONDS]
            .iter()
            .chain(scenario.options)
            .map(|&word| word.to_owned()),
    );
    let mut server = far.spawn(&bed.far().enter(), &server, &[])?;
    let client = wait_until_listening(bed.far())
        .and_then(|()| near.spawn(&bed.near().enter(), &client, &[]));
    let reading = client.and_then(|mut client| {
        let reading = watch(bed, scenario, (&near, &far));
        near.clear();
        process::end(&mut client);
        reading
    });
    far.clear();
    process::end(&mut server);
    let reading = reading?;
    let speed_change = (core_speed() / speed_before - 1.0).abs();
    Ok(Reading {
        clean: reading.clean && speed_change <= CORE_SPEED_CHANGE_MAX,
        ..reading
    })
}

fn wait_until_listening(at: &Namespace) -> Result<(), String> {
    let deadline = Instant::now() + START_MAX;
    while Instant::now() < deadline {
        let tables = ["tcp", "tcp6"].map(|table| format!("/proc/{}/net/{table}", at.pid()));
        let listens = |line: &str| line.contains(LISTENS.0) && line.contains(LISTENS.1);
        let mut tables = tables.iter().flat_map(read_to_string);
        if tables.any(|table| table.lines().any(listens)) {
            return Ok(());
        }
        sleep(Duration::from_millis(5));
    }
    Err("the server did not listen".to_owned())
}

/// All that is read at the beginning of the window and at its end.
struct Counts {
    at: Instant,
    bytes: u64,
    near: Duration,
    far: Duration,
    machine: Duration,
}

fn watch(bed: &Bed, scenario: &Scenario, groups: (&Group, &Group)) -> Result<Reading, String> {
    let unreadable = || "counters could not be read".to_owned();
    let bytes = || payload_bytes(bed, scenario).ok_or_else(unreadable);
    let idle = bytes()?;
    let deadline = Instant::now() + START_MAX;
    while bytes()? < idle + STARTED_BYTES {
        if Instant::now() > deadline {
            return Err("did not start".to_owned());
        }
        sleep(Duration::from_millis(10));
    }
    sleep(WARM_UP);
    let before = count(bed, scenario, groups).ok_or_else(unreadable)?;
    sleep(WINDOW);
    let after = count(bed, scenario, groups).ok_or_else(unreadable)?;
    let seconds = (after.at - before.at).as_secs_f64();
    let payload = after.bytes.saturating_sub(before.bytes) as f64;
    if payload == 0.0 {
        return Err("payload stopped".to_owned());
    }
    let spent =
        |pick: fn(&Counts) -> Duration| pick(&after).saturating_sub(pick(&before)).as_secs_f64();
    let (near, far) = (spent(|counts| counts.near), spent(|counts| counts.far));
    let foreign = spent(|counts| counts.machine) - near - far;
    Ok(Reading {
        gigabits: payload * 8.0 / seconds / 1e9,
        client_cost: near / (payload / 1e9),
        server_cost: far / (payload / 1e9),
        clean: foreign / seconds <= FOREIGN_CORES_MAX,
    })
}

fn count(bed: &Bed, scenario: &Scenario, (near, far): (&Group, &Group)) -> Option<Counts> {
    Some(Counts {
        at: Instant::now(),
        bytes: payload_bytes(bed, scenario)?,
        near: near.cpu()?,
        far: far.cpu()?,
        machine: machine_cpu()?,
    })
}

/// Payload that has arrived at the receiving end so far.
fn payload_bytes(bed: &Bed, scenario: &Scenario) -> Option<u64> {
    let end = if scenario.reverse {
        bed.near()
    } else {
        bed.far()
    };
    match scenario.datagram_bytes {
        Some(each) => Some(delivered_datagrams(end)? * each),
        None => bed.payload_bytes_at(end),
    }
}

/// `InDatagrams` of RFC 4113: what readers were given, without what full buffers dropped.
fn delivered_datagrams(end: &Namespace) -> Option<u64> {
    let text = read_to_string(format!("/proc/{}/net/snmp", end.pid())).ok()?;
    let mut lines = text.lines().filter_map(|line| line.strip_prefix("Udp: "));
    let names = lines.next()?.split_whitespace();
    let mut pairs = names.zip(lines.next()?.split_whitespace());
    let (_, count) = pairs.find(|(name, _)| *name == "InDatagrams")?;
    count.parse().ok()
}
