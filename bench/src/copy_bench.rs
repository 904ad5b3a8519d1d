//! The speed of a copy against its disks alone and its network alone, in turns.
//!
//! Both ends are on one machine: a part that runs alone has the resources that the parts of a copy
//! share. `dd` measures a disk alone, `longhaul test` the network. Wrong when: the machine has other
//! work.

use crate::BenchOutcome;
use crate::copy_testbed::{CopyTestbed, LIMIT, run_for_report};
use crate::markdown_table::{MarkdownTable, format_number, median};
use crate::scratch_folder::{ScratchFolder, drop_from_cache};
use crate::turn_ratio::TurnRatio;
use serde_json::Value;
use std::path::Path;
use std::process::Command;
use std::time::Instant;
use xtask::program_runner;

/// The minimum share of the slowest of both disks and the network alone.
const MIN_RATIO: f64 = 0.95;
/// The number of rounds of each row: the minimum for an interval.
const ROUNDS: usize = 6;
const FILE_BYTES: u64 = 1_000_000_000;
/// As long as `la-geneva`, and so slow that two cores suffice.
const GIGABIT_PATH_FILE: &str = "name = \"one gigabit over 172 ms\"\nmtu = 9000\n\
    [machine]\nrequired = false\n[machine.sysctl]\n\
    \"net.core.rmem_max\" = 268435456\n\"net.core.wmem_max\" = 268435456\n\
    [[hops]]\nname = \"narrow\"\ndelay = \"86 ms\"\nrate = \"1 Gbit/s\"\nqueue = \"16 MB\"\n\
    [[hops]]\nname = \"last\"\nrate = \"10 Gbit/s\"\nqueue = \"16 MB\"\n";

/// The networks, with the options of a copy over each: sockets request the path's BDP.
const NETWORKS: [(&str, &[&str]); 3] = [
    ("loopback", &[]),
    ("1 Gbit/s over 172 ms", &["-P", "8", "-w", "32M"]),
    ("la-geneva", &["-P", "8", "-w", "32M"]),
];

/// The rates of a round, in bytes per second.
struct CopyRound {
    /// Source disk, target disk and network, each alone.
    parts: [f64; 3],
    copy: f64,
}

/// Runs the rows whose name contains `only`.
pub fn run_all(longhaul: &Path, only: &str) -> Result<BenchOutcome, String> {
    let mut table = MarkdownTable::new(
        "Copies beside their parts alone, GB/s; medians of rounds that take turns",
        "path, files | source disk | target disk | network | copy | \
         copy / slowest of the same round",
    );
    let mut missed = Vec::new();
    for (network, options) in NETWORKS {
        for (files, on_disk) in [("tmpfs", false), ("disk", true)] {
            let name = format!("{network}, {files}");
            if !name.contains(only) {
                continue;
            }
            let store =
                if on_disk { ScratchFolder::on_disk()? } else { ScratchFolder::in_memory()? };
            let rounds = measure_rounds(longhaul, network, options, &store)?;
            missed.extend(judge_rounds(&name, &rounds, &mut table));
        }
    }
    Ok(BenchOutcome::new(&[table], missed))
}

fn measure_rounds(
    longhaul: &Path,
    network: &str,
    options: &[&str],
    store: &ScratchFolder,
) -> Result<Vec<CopyRound>, String> {
    let ground = match network {
        "loopback" => CopyTestbed::loopback(longhaul)?,
        "la-geneva" => CopyTestbed::path(longhaul, network)?,
        _ => {
            let file = store.write("path.toml", GIGABIT_PATH_FILE)?;
            CopyTestbed::path(longhaul, &file.to_string_lossy())?
        }
    };
    let source = store.fill_file("file", FILE_BYTES)?;
    let target = format!("{}:", ground.address);
    let round = |_| -> Result<CopyRound, String> {
        let there = store.empty("there")?;
        let read = run_dd(&[&operand("if", &source), "of=/dev/null"], &source)?;
        let write =
            run_dd(&["if=/dev/zero", &operand("of", &there.join("zeros")), "conv=fsync"], &source)?;
        let _far = ground.serve(&store.empty("there")?)?;
        let amount = FILE_BYTES.to_string();
        let test = ground.command(&[&["test", ground.address, "-n", &amount], options].concat());
        let network = read_rate(&run_for_report(test)?)?;
        drop_from_cache(&source)?;
        let copy = ground.copy(&[&[&*source.to_string_lossy(), &target], options].concat());
        let copy = read_rate(&run_for_report(copy)?)?;
        Ok(CopyRound { parts: [read, write, network], copy })
    };
    (0..ROUNDS).map(round).collect()
}

/// Returns the goodput of a report in bytes per second.
fn read_rate(report: &Value) -> Result<f64, String> {
    let bps = report["analysis"]["goodput_bps"].as_f64();
    bps.map(|bps| bps / 8.0).ok_or_else(|| format!("no goodput: {}", report["analysis"]))
}

fn operand(name: &str, file: &Path) -> String {
    format!("{name}={}", file.display())
}

/// Copies as many bytes as the file has with `dd`, and returns the rate in bytes per second.
fn run_dd(operands: &[&str], file: &Path) -> Result<f64, String> {
    drop_from_cache(file)?;
    let mut dd = Command::new("dd");
    dd.args(operands).args(["bs=1000000", "count=1000", "status=none"]);
    let began = Instant::now();
    program_runner::capture_stdout(&mut dd, LIMIT)?;
    Ok(FILE_BYTES as f64 / began.elapsed().as_secs_f64())
}

/// Adds a row, and returns a sentence if it misses the gate.
fn judge_rounds(name: &str, rounds: &[CopyRound], table: &mut MarkdownTable) -> Option<String> {
    let middle =
        |pick: &dyn Fn(&CopyRound) -> f64| median(&rounds.iter().map(pick).collect::<Vec<_>>());
    let slowest = |round: &CopyRound| round.parts.into_iter().fold(f64::INFINITY, f64::min);
    let ratios = rounds.iter().map(|round| (round.copy, slowest(round)));
    let beside = TurnRatio::of(&ratios.collect::<Vec<_>>());
    let ratio = beside.map_or_else(|| "–".to_owned(), |beside| beside.to_string());
    let rates = [
        middle(&|it| it.parts[0]),
        middle(&|it| it.parts[1]),
        middle(&|it| it.parts[2]),
        middle(&|it| it.copy),
    ];
    let mut row = vec![name.to_owned()];
    row.extend(rates.map(|rate| format_number(rate.map(|rate| rate / 1e9), 2)));
    row.push(ratio.clone());
    eprintln!("| {} |", row.join(" | "));
    table.row(row);
    let held = beside.is_some_and(|beside| beside.ratio() >= MIN_RATIO);
    (!held).then(|| format!("{name}: {ratio} of the slowest part alone"))
}
