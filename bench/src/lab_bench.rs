//! The accuracy of emulated paths.
//!
//! Measures goodput of one stream as a share of the narrow link's limit, the emulator's CPU time,
//! the lateness of its releases from the truth file, and the dispersion of packet pairs and trains.
//! Needs root, for windows as large as the paths and for entering namespaces from outside.
//!
//! Wrong when: the machine has other work; the lab then reports it, and the row carries its caveat.

use super::bench_cases::read_cases;
use super::bench_lab::{self, BenchLab};
use super::dispersion::{self, GapSpread, WIRE_BYTES};
use super::markdown_table::{MarkdownTable, format_number};
use super::process_tree;
use crate::BenchOutcome;
use crate::scratch_folder::ScratchFolder;
use serde::Deserialize;
use serde_json::Value;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};
use xtask::{program_runner, test_requirements};

const LIMIT: Duration = Duration::from_secs(90);
/// The payload of a full segment with timestamps, and its bytes on Ethernet.
const SEGMENT_BYTES: f64 = 1448.0;
const SEGMENT_WIRE_BYTES: f64 = 1538.0;

/// A path whose goodput is measured.
#[derive(Deserialize)]
struct LongPath {
    rtt_ms: u32,
    rate: String,
    gigabits: f64,
    seconds: u32,
}

/// Groups of packets whose spacing is measured.
#[derive(Deserialize)]
struct PacketSpacing {
    name: String,
    groups: u32,
    size: u32,
    gap_ms: u32,
}

/// Measures everything and returns two tables.
pub fn measure_lab(longhaul: &Path) -> Result<BenchOutcome, String> {
    if !test_requirements::is_root() {
        return Err(
            "`cargo xtask bench lab` needs root: its windows are larger than others may ask"
                .to_owned(),
        );
    }
    let scratch = ScratchFolder::new("lab")?;
    let (paths, spacings) = (read_cases("long_path")?, read_cases("packet_spacing")?);
    Ok(BenchOutcome::ungated(&[
        measure_goodputs(longhaul, &scratch, &paths),
        measure_dispersions(longhaul, &scratch, &spacings),
    ]))
}

fn measure_goodputs(longhaul: &Path, scratch: &ScratchFolder, paths: &[LongPath]) -> MarkdownTable {
    let columns = "RTT, ms | rate | limit, Gbit/s | goodput, Gbit/s | share | emulator CPU | \
         lateness, µs: mean / p99 / most | caveats";
    let mut table =
        MarkdownTable::new("Goodput of one stream over a long path, MTU 1500, cubic", columns);
    for long in paths {
        let limit = long.gigabits * SEGMENT_BYTES / SEGMENT_WIRE_BYTES;
        let mut row = vec![long.rtt_ms.to_string(), long.rate.clone(), format!("{limit:.3}")];
        match measure_goodput(longhaul, scratch, long) {
            Ok(carried) => row.extend([
                format_number(carried.gigabits, 3),
                format_number(carried.gigabits.map(|rate| 100.0 * rate / limit), 1) + " %",
                format_number(carried.cpu.map(|cores| 100.0 * cores), 0) + " %",
                carried.lateness,
                carried.caveats,
            ]),
            Err(why) => row.extend(["–", "–", "–", "–", &why].map(str::to_owned)),
        }
        eprintln!("| {} |", row.join(" | "));
        table.row(row);
    }
    table
}

struct GoodputResult {
    gigabits: Option<f64>,
    /// The cores that the emulator used in the second half of the run.
    cpu: Option<f64>,
    lateness: String,
    caveats: String,
}

fn measure_goodput(
    longhaul: &Path,
    scratch: &ScratchFolder,
    long: &LongPath,
) -> Result<GoodputResult, String> {
    let file = scratch.write("long.toml", &format_long_path(long))?;
    let mut lab = Command::new(longhaul);
    lab.args(["lab", "run"]).arg(file).arg("--").arg(longhaul);
    let words = "test far -C cubic --json --no-save --quiet -t";
    lab.args(words.split(' ')).arg(long.seconds.to_string());
    lab.env("LONGHAUL_LAB_TRUTH", scratch.path("truth.json"));
    let child = program_runner::spawn_captured(&mut lab)?;
    let emulator = child.id();
    let watch = std::thread::spawn(move || measure_emulator_cpu(emulator));
    let output = program_runner::wait_with_output(child, LIMIT)?;
    let cpu = watch.join().ok().flatten();
    let report: Value = serde_json::from_str(&output.stdout)
        .map_err(|_| output.stderr.lines().next().unwrap_or("no report").to_owned())?;
    let truth = std::fs::read_to_string(scratch.path("truth.json")).unwrap_or_default();
    let truth: Value = serde_json::from_str(&truth).unwrap_or_default();
    Ok(GoodputResult {
        gigabits: report["analysis"]["goodput_bps"].as_f64().map(|bps| bps / 1e9),
        cpu,
        lateness: format_lateness(&truth),
        caveats: format_caveats(&report, &truth),
    })
}

/// Describes a path with one narrow link, and windows of 1.6 times the BDP: enough to fill it, too
/// little for the last doubling of slow start to overshoot by a whole window.
fn format_long_path(long: &LongPath) -> String {
    let held_bytes = long.gigabits * 1e9 / 8.0 * f64::from(long.rtt_ms) / 1e3;
    let window_bytes = (1.7 * held_bytes).max(4e6) as u64;
    format!(
        "name = \"{} ms, {}\"\nmtu = 1500\n\
         [near.sysctl]\n\"net.ipv4.tcp_wmem\" = \"4096 65536 {}\"\n\
         [far.sysctl]\n\"net.ipv4.tcp_rmem\" = \"4096 131072 {window_bytes}\"\n\
         [[hops]]\nname = \"narrow\"\ndelay = \"{} us\"\nrate = \"{}\"\nqueue = \"128 MB\"\n\
         [[hops]]\nname = \"last\"\nrate = \"{}\"\nqueue = \"128 MB\"\n",
        long.rtt_ms,
        long.rate,
        2 * window_bytes,
        long.rtt_ms * 500,
        long.rate,
        long.rate,
    )
}

/// Returns the cores used by the lab's own processes over the later part of their life.
fn measure_emulator_cpu(child: u32) -> Option<f64> {
    let mut readings: Vec<(Instant, Duration)> = Vec::new();
    loop {
        let lab = process_tree::list_descendants(child)
            .into_iter()
            .filter(|kin| kin.words.get(1).is_some_and(|word| word == "lab"));
        let used: Vec<Duration> =
            lab.filter_map(|kin| process_tree::read_cpu_time(kin.pid)).collect();
        if used.is_empty() {
            break;
        }
        readings.push((Instant::now(), used.into_iter().sum()));
        std::thread::sleep(Duration::from_millis(200));
    }
    let (from, before) = readings.get(readings.len() / 2)?;
    // The last reading may be of a process that is ending.
    let (to, after) = readings.get(readings.len().checked_sub(2)?)?;
    Some(after.checked_sub(*before)?.as_secs_f64() / (*to - *from).as_secs_f64())
}

/// Returns mean, 99th percentile and maximum from the truth file.
fn format_lateness(truth: &Value) -> String {
    let micros = |key: &str| format_number(truth["lateness"][key].as_f64().map(|ns| ns / 1e3), 1);
    ["mean_ns", "p99_ns", "max_ns"].map(micros).join(" / ")
}

/// Returns the caveats of the report and of the lab.
fn format_caveats(report: &Value, truth: &Value) -> String {
    let codes = report["caveats"].as_array().into_iter().flatten();
    let codes = codes.filter_map(|caveat| caveat["code"].as_str());
    let busy = (truth["timing_kept"] == Value::Bool(false)).then_some("lab: timing not kept");
    codes.chain(busy).collect::<Vec<_>>().join(", ")
}

fn measure_dispersions(
    longhaul: &Path,
    scratch: &ScratchFolder,
    spacings: &[PacketSpacing],
) -> MarkdownTable {
    let columns = "rate | groups | right, µs | median | off | p10 | p90 | within 1 % | within 10 %";
    let mut table =
        MarkdownTable::new("Dispersion of packets of 1538 wire bytes, kernel timestamps", columns);
    for (rate, bits_per_ns) in [("100 Mbit/s", 0.1), ("1 Gbit/s", 1.0)] {
        let right_ns = f64::from(WIRE_BYTES) * 8.0 / bits_per_ns;
        for spacing in spacings {
            let mut row = vec![rate.to_owned(), format!("{} {}", spacing.groups, spacing.name)];
            row.push(format!("{:.2}", right_ns / 1e3));
            let gaps = measure_gaps(longhaul, scratch, rate, spacing);
            match gaps.and_then(|gaps| {
                GapSpread::of(&gaps, right_ns).ok_or_else(|| "nothing arrived".to_owned())
            }) {
                Ok(spread) => row.extend(format_spread_cells(&spread, right_ns / 1e3)),
                Err(why) => {
                    row.extend([why, "–".into(), "–".into(), "–".into(), "–".into(), "–".into()]);
                }
            }
            eprintln!("| {} |", row.join(" | "));
            table.row(row);
        }
    }
    table
}

fn format_spread_cells(spread: &GapSpread, right_us: f64) -> [String; 6] {
    [
        format!("{:.2}", spread.median_us),
        format!("{:+.1} %", 100.0 * (spread.median_us / right_us - 1.0)),
        format!("{:.2}", spread.p10_us),
        format!("{:.2}", spread.p90_us),
        format!("{:.0} %", 100.0 * spread.within_1),
        format!("{:.0} %", 100.0 * spread.within_10),
    ]
}

fn measure_gaps(
    longhaul: &Path,
    scratch: &ScratchFolder,
    rate: &str,
    spacing: &PacketSpacing,
) -> Result<Vec<f64>, String> {
    let text = format!(
        "name = \"dispersion at {rate}\"\nmtu = 1500\n\
         [[hops]]\nname = \"narrow\"\ndelay = \"5 ms\"\nrate = \"{rate}\"\nqueue = \"1 MB\"\n\
         [[hops]]\nname = \"last\"\nrate = \"10 Gbit/s\"\nqueue = \"1 MB\"\n"
    );
    let file = scratch.write("dispersion.toml", &text)?;
    let standing = BenchLab::set_up(longhaul, &["--dispersion", &file.to_string_lossy()])?;
    let own = std::env::current_exe().map_err(|e| format!("cannot find this program: {e}"))?;
    let own = own.to_string_lossy();
    let [groups, size, gap_ms] =
        [spacing.groups, spacing.size, spacing.gap_ms].map(|number| number.to_string());
    let receive = [&*own, dispersion::RECEIVE, &size];
    let mut receiver = bench_lab::command_at_host(standing.far, &receive);
    let receiver = program_runner::spawn_captured(&mut receiver)?;
    std::thread::sleep(Duration::from_millis(500));
    let send = [&*own, dispersion::SEND, "far", &groups, &size, &gap_ms];
    let mut sender = bench_lab::command_at_host(standing.near, &send);
    let sent = program_runner::capture_stdout(&mut sender, LIMIT);
    let received = program_runner::wait_with_output(receiver, LIMIT)?;
    sent?;
    let lines = received.stdout.lines();
    Ok(lines.filter_map(|line| line.parse().ok()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_and_spacings_are_read() {
        let paths: Vec<LongPath> = read_cases("long_path").expect("paths");
        let spacings: Vec<PacketSpacing> = read_cases("packet_spacing").expect("spacings");
        assert_eq!((paths.len(), spacings.len()), (5, 2));
    }
}
