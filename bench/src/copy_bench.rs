//! The speed of a copy against its disks alone and its network alone, in turns.
//!
//! Both ends are on one machine: a part that runs alone has the resources that the parts of a copy
//! share. `dd` measures a disk alone, `longhaul test` the network. Wrong when: the machine has other
//! work.
//!
//! # Turn ratio
//!
//! Compares two programs, or two variants, by the ratio of their results in each turn.
//!
//! The speed of a machine drifts from minute to minute, and that of two programs in one turn drifts
//! together, so their ratio can be compared. Its median has the interval of the sign test, which
//! for six turns is the full range.

use crate::bench_lab::{self, BenchLab};
use crate::markdown_table::{MarkdownTable, format_number, median};
use crate::scratch_folder::{ScratchFolder, drop_from_cache};
use crate::testbed::TestNamespace;
use crate::{BenchOutcome, TOKEN};
use longhaul_analysis::stats::sign_test::median_interval;
use longhaul_analysis::stats::{quantile, sort_finite};
use longhaul_sys::file_user::is_machine_root;
use serde_json::Value;
use std::fmt::{self, Debug};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use xtask::program_runner::{self, ChildGuard};

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

/// The ratio of a quantity to the other program's.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TurnRatio {
    ratio: f64,
    /// Contains the true median with a probability of at least 95 %.
    interval: [f64; 2],
}

impl TurnRatio {
    /// Creates it from its own and the other's reading in each turn; `None` below six turns.
    pub fn of(turns: &[(f64, f64)]) -> Option<TurnRatio> {
        let ratios = sort_finite(turns.iter().map(|(own, other)| own / other));
        Some(TurnRatio { interval: median_interval(&ratios)?, ratio: quantile(&ratios, 0.5)? })
    }

    /// Returns the median over the turns.
    pub fn ratio(&self) -> f64 {
        self.ratio
    }
}

impl fmt::Display for TurnRatio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [low, high] = self.interval;
        write!(f, "{:.2} ({low:.2} to {high:.2})", self.ratio)
    }
}

/// Not the port of the far end that the lab starts.
const PORT: &str = "5301";
/// The deadline of the longest copy.
pub const LIMIT: Duration = Duration::from_secs(900);

/// One or two hosts between which files are copied.
#[derive(Debug)]
pub struct CopyTestbed {
    pub longhaul: PathBuf,
    /// Processes in the namespaces of both ends.
    pub near: u32,
    far: u32,
    pub address: &'static str,
    /// The namespace or the lab, which disappears with this value.
    _network: Box<dyn Debug>,
}

impl CopyTestbed {
    pub fn loopback(longhaul: &Path) -> Result<CopyTestbed, String> {
        let namespace = TestNamespace::new()?;
        Ok(CopyTestbed {
            longhaul: longhaul.to_owned(),
            near: namespace.pid(),
            far: namespace.pid(),
            address: "127.0.0.1",
            _network: Box::new(namespace),
        })
    }

    /// Sets up a shipped path by its name, or a path file.
    pub fn path(longhaul: &Path, path: &str) -> Result<CopyTestbed, String> {
        let lab = BenchLab::set_up(longhaul, path)?;
        Ok(CopyTestbed {
            longhaul: longhaul.to_owned(),
            near: lab.near,
            far: lab.far,
            address: "far",
            _network: Box::new(lab),
        })
    }

    /// Starts a far end that serves `folder`.
    pub fn serve(&self, folder: &Path) -> Result<ChildGuard, String> {
        let mut command = bench_lab::command_at_host(self.far, &[&self.longhaul]);
        command
            .args(["serve", "-p", PORT, "--json", "--files"])
            .arg(format!("{}:rw", folder.display()))
            .args(if is_machine_root() { &["--files-user", "root"][..] } else { &[] })
            .env("LONGHAUL_TOKEN", TOKEN);
        let mut child = program_runner::spawn_captured(&mut command)?;
        let mut log = BufReader::new(child.stderr.take().ok_or("it has no log")?);
        let far = ChildGuard(child);
        let mut first = String::new();
        log.read_line(&mut first).map_err(|e| format!("cannot read the far end's log: {e}"))?;
        if !first.contains("\"serving\"") {
            return Err(format!("the far end does not serve: {}", first.trim()));
        }
        // An unread log would block it eventually.
        std::thread::spawn(move || std::io::copy(&mut log, &mut std::io::sink()));
        Ok(far)
    }

    /// Returns a command that copies to or from the far end.
    pub fn copy(&self, words: &[&str]) -> Command {
        self.command(&[&["copy"], words].concat())
    }

    /// Returns a command of longhaul at the near end.
    pub fn command(&self, words: &[&str]) -> Command {
        let mut command = bench_lab::command_at_host(self.near, &[&self.longhaul]);
        command.args(words).args(["-p", PORT, "--quiet"]).env("LONGHAUL_TOKEN", TOKEN);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }
}

/// Runs a command of longhaul to its end, and returns its report.
pub fn run_for_report(mut command: Command) -> Result<Value, String> {
    let text = program_runner::capture_stdout(command.args(["--no-save", "--json"]), LIMIT)?;
    serde_json::from_str(&text).map_err(|e| format!("no report: {e}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns turns whose speed varies by half, with longhaul `ratios` times the other.
    fn turns(ratios: &[f64]) -> Vec<(f64, f64)> {
        let speeds = (0..).map(|turn| 1.0 + 0.1 * f64::from(turn % 6));
        let turns = ratios.iter().zip(speeds);
        turns.map(|(ratio, speed)| (ratio * speed, speed)).collect()
    }

    #[test]
    fn the_interval_of_six_turns_is_their_range() {
        let six = TurnRatio::of(&turns(&[0.97, 0.9, 0.99, 0.98, 0.95, 0.97])).expect("six turns");
        assert_eq!(six.to_string(), "0.97 (0.90 to 0.99)");
    }

    #[test]
    fn five_turns_cannot_tell() {
        assert_eq!(TurnRatio::of(&turns(&[0.5; 5])), None);
    }
}
