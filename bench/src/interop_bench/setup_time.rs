//! The setup time of 32 streams over a path of 172 ms, and the time that a command takes beyond its
//! test.
//!
//! All programs are observed from outside: the socket table of the near host shows the connections
//! that have sent payload, and the clock the time of the command. The programs' own figures are not
//! used.

use super::interop_pairs::{InteropPrograms, InteropTool, ToolPair, to_owned_words};
use crate::bench_lab::{self, BenchLab, command_at_host};
use crate::markdown_table::{MarkdownTable, format_number, median};
use crate::narrow_path::NarrowPath;
use crate::scratch_folder::ScratchFolder;
use crate::{BenchOutcome, TOKEN};
use std::path::Path;
use std::process::{Child, Command};
use std::thread::sleep;
use std::time::{Duration, Instant};
use xtask::program_runner;

pub const TITLE: &str = "Setup time over 172 ms, 32 streams";
const RTT_MS: u64 = 172;
const STREAMS: &str = "32";
const STREAMS_COUNT: usize = 32;
const SECONDS: u64 = 2;
const ROUNDS: usize = 3;
/// Not the usual port, which the lab's own far end uses.
const PORT: u16 = 5301;
/// More than cookies, tokens and the first bytes of a control connection; less than the first
/// window of a stream.
const PAYLOAD_BYTES: u64 = 10_000;
const PAUSE: Duration = Duration::from_millis(5);
const LIMIT: Duration = Duration::from_secs(40);
/// The minimum speedup of the setup between two longhauls.
const MIN_SPEEDUP: f64 = 3.0;

const PAIRS: [ToolPair; 3] = [
    (InteropTool::Debian, InteropTool::Debian),
    (InteropTool::Newest, InteropTool::Newest),
    (InteropTool::Longhaul, InteropTool::Longhaul),
];

/// Times in seconds from the command's start.
#[derive(Debug, Clone, Copy)]
struct SetupReading {
    /// All connections were established.
    connected: f64,
    /// All connections had sent payload.
    flowing: f64,
    /// The time of the command beyond the time that it was told to send.
    overhead: f64,
}

/// Returns the table, and the missed gates.
pub fn measure_setup(longhaul: &Path, programs: &InteropPrograms) -> Result<BenchOutcome, String> {
    let scratch = ScratchFolder::new("interop")?;
    let link = toml::Table::from_iter([
        ("rate".to_owned(), "1 Gbit/s".into()),
        ("queue".to_owned(), "16 MB".into()),
    ]);
    let path = NarrowPath { title: TITLE, rtt_ms: RTT_MS, link: &link, near: &[], far: &[] };
    let file = scratch.write("setup.toml", &path.path_file()?)?;
    let standing = BenchLab::set_up(longhaul, &["--dispersion", &file.to_string_lossy()])?;
    let mut readings: [Vec<Result<SetupReading, String>>; 3] = [const { Vec::new() }; 3];
    for _ in 0..ROUNDS {
        for (pair, readings) in PAIRS.iter().zip(&mut readings) {
            let reading = run_pair(&standing, programs, *pair);
            eprintln!("{TITLE} · {pair:?}: {reading:?}");
            readings.push(reading);
        }
    }
    Ok(judge_setup(programs, &readings))
}

fn judge_setup(
    programs: &InteropPrograms,
    readings: &[Vec<Result<SetupReading, String>>; 3],
) -> BenchOutcome {
    let columns = "both ends | all connected, s | payload on all, s | command beyond -t, s | runs";
    let mut table = MarkdownTable::new(TITLE, columns);
    let of = |readings: &[Result<SetupReading, String>], pick: fn(&SetupReading) -> f64| {
        let values: Vec<f64> = readings.iter().flatten().map(pick).collect();
        median(&values)
    };
    let picks: [fn(&SetupReading) -> f64; 3] = [|r| r.connected, |r| r.flowing, |r| r.overhead];
    for ((tool, _), readings) in PAIRS.iter().zip(readings) {
        let mut row = vec![programs.name(*tool)];
        row.extend(picks.map(|pick| format_number(of(readings, pick), 2)));
        let failed = readings.iter().find_map(|reading| reading.clone().err());
        row.push(failed.unwrap_or_else(|| readings.len().to_string()));
        table.row(row);
    }
    let shorter = picks.map(|pick| {
        let [iperf3s @ .., longhaul] = readings;
        let best = iperf3s.iter().filter_map(|readings| of(readings, pick));
        Some(best.reduce(f64::min)? / of(longhaul, pick)?)
    });
    let mut row = vec!["**times shorter than the better iperf3**".to_owned()];
    row.extend(shorter.map(|times| format!("**{}**", format_number(times, 1))));
    row.push(String::new());
    table.row(row);
    // The time at a command's end is not setup: it is shown, but not part of the gate.
    let times = shorter[1];
    let missed = times.is_none_or(|times| times < MIN_SPEEDUP).then(|| {
        let times = format_number(times, 1);
        format!("{TITLE}: payload flows {times} times sooner, not {MIN_SPEEDUP} times")
    });
    BenchOutcome::new(&[table], missed.into_iter().collect())
}

fn start_at_host(pid: u32, words: &[String]) -> Result<Child, String> {
    program_runner::spawn_silent(command_at_host(pid, words).env("LONGHAUL_TOKEN", TOKEN))
}

fn run_pair(
    standing: &BenchLab,
    programs: &InteropPrograms,
    pair: ToolPair,
) -> Result<SetupReading, String> {
    let mut server = start_at_host(standing.far, &programs.server(pair.1, PORT))?;
    let reading = bench_lab::wait_until_listening(standing.far, PORT).and_then(|()| {
        let mut words = programs.client(pair, "far", PORT);
        words.extend(to_owned_words(&["-P", STREAMS, "-t", &SECONDS.to_string()]));
        let began = Instant::now();
        let mut client = start_at_host(standing.near, &words)?;
        let reading = watch_connections(standing.near, &mut client, began);
        program_runner::kill_child(&mut client);
        reading
    });
    program_runner::kill_child(&mut server);
    reading
}

fn watch_connections(
    near: u32,
    client: &mut Child,
    began: Instant,
) -> Result<SetupReading, String> {
    let (mut connected, mut flowing) = (None, None);
    loop {
        let ended = client.try_wait().map_err(|e| format!("cannot wait: {e}"))?;
        let now = began.elapsed();
        if let Some(status) = ended {
            if !status.success() {
                return Err(format!("the client ended with {status}"));
            }
            let missing = "the client ended before all streams were seen to flow";
            return Ok(SetupReading {
                connected: connected.ok_or(missing)?,
                flowing: flowing.ok_or(missing)?,
                overhead: now.as_secs_f64() - SECONDS as f64,
            });
        }
        if now > LIMIT {
            return Err("the client did not end".to_owned());
        }
        if flowing.is_some() {
            sleep(PAUSE);
            continue;
        }
        let sockets = read_sent_bytes(near)?;
        let now = began.elapsed().as_secs_f64();
        // One more for the control connection.
        if sockets.len() > STREAMS_COUNT {
            connected.get_or_insert(now);
        }
        let sending = sockets.iter().filter(|bytes| **bytes >= PAYLOAD_BYTES);
        if sending.count() >= STREAMS_COUNT {
            flowing.get_or_insert(now);
        }
        sleep(PAUSE);
    }
}

/// Returns the bytes that each established connection to the server has sent.
fn read_sent_bytes(near: u32) -> Result<Vec<u64>, String> {
    let mut table = Command::new("nsenter");
    table.args(["--net", "--target", &near.to_string(), "--"]);
    table.args(["ss", "-tinHO", "state", "established"]);
    table.arg(format!("dport = :{PORT}"));
    let text = program_runner::capture_stdout(&mut table, Duration::from_secs(5))?;
    Ok(text.lines().map(parse_sent_bytes).collect())
}

fn parse_sent_bytes(line: &str) -> u64 {
    let sent = line.split_whitespace().find_map(|word| word.strip_prefix("bytes_sent:"));
    sent.and_then(|bytes| bytes.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_sent_are_read_from_a_line_of_the_socket_table() {
        let line =
            "0 14480 10.0.0.1:40000 10.0.0.2:5301 cubic rtt:172/3 bytes_sent:14517 segs_out:14";
        assert_eq!(parse_sent_bytes(line), 14_517);
        assert_eq!(parse_sent_bytes("0 0 10.0.0.1:40000 10.0.0.2:5301 cubic"), 0);
    }
}
