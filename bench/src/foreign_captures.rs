//! Compares the counts of `longhaul capture` in captures of other projects with those of tcptrace.
//!
//! The captures are the test files in Debian's source packages of tcpdump, Wireshark and nDPI. Many are
//! damaged on purpose. Both programs list the directions of connections; those with the same addresses
//! and ports are added up. A direction that tcptrace alone lists is left out by longhaul if it had to
//! leave out flows of the capture; otherwise it is compared with zeros.
//!
//! Wrong when: tcptrace is wrong. It calls each packet that fills a hole out of order, also one that
//! was sent a timeout later.

use crate::BenchOutcome;
use crate::markdown_table::MarkdownTable;
use serde_json::Value;
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};
use xtask::program_runner::{self, ProgramOutput};
use xtask::{TaskResult, checkout};

/// The minimum share of directions with the same number of retransmitted packets.
const MIN_EQUAL_RATIO: f64 = 0.99;
/// The maximum time for one capture of at most a few MB.
const MAX_TIME: Duration = Duration::from_secs(10);
/// The counts that are compared, with the columns of tcptrace.
const COUNTS: [(&str, &[&str]); 6] = [
    ("data packets", &["actual_data_pkts"]),
    ("unique bytes", &["unique_bytes_sent"]),
    ("retransmitted packets", &["rexmt_data_pkts"]),
    ("retransmitted + out of order", &["rexmt_data_pkts", "outoforder_pkts"]),
    ("has FIN", &["SYN/FIN_pkts_sent"]),
    ("has reset", &["resets_sent"]),
];
const RETRANSMITTED: usize = 2;

type DirectionCounts = [u64; COUNTS.len()];
type CapturedDirections = BTreeMap<(SocketAddr, SocketAddr), DirectionCounts>;

/// The comparison of the captures of one package.
#[derive(Default)]
struct PackageTally {
    captures: usize,
    crashes: usize,
    longest: Duration,
    compared: usize,
    equal: [usize; COUNTS.len()],
    left_out: usize,
    unread_by_tcptrace: usize,
    differences: Vec<Vec<String>>,
}

/// Compares the captures of packages whose name contains `only`; they are kept in `keep`.
pub fn run_all(longhaul: &Path, only: &str, keep: Option<&Path>) -> Result<BenchOutcome, String> {
    let folder = match keep {
        Some(folder) => folder.to_owned(),
        None => program_runner::target_folder()?.join("foreign-captures"),
    };
    fetch_captures(&folder)?;
    let counts = COUNTS.map(|(name, _)| name).join(" | ");
    let columns = format!(
        "package | captures | crashes | longest time | directions | {counts} | \
         left out by longhaul | not read by tcptrace"
    );
    let mut table = MarkdownTable::new("Directions of connections with equal counts", &columns);
    let mut differences = MarkdownTable::new(
        "Directions with another number of retransmitted packets",
        "capture | from | to | tcptrace: retransmitted, and out of order | longhaul",
    );
    let (mut whole, mut missed) = (PackageTally::default(), Vec::new());
    for package in ["tcpdump", "wireshark", "ndpi"].into_iter().filter(|it| it.contains(only)) {
        let tally = compare_package(longhaul, &folder.join(package))?;
        table.row(tally.cells(package));
        tally.differences.iter().for_each(|cells| differences.row(cells.clone()));
        whole.add(&tally);
    }
    if whole.captures > 0 {
        table.row(whole.cells("all"));
        missed.extend(whole.find_missed());
    }
    Ok(BenchOutcome::new(&[table, differences], missed))
}

fn fetch_captures(folder: &Path) -> TaskResult {
    let script = checkout::find_root().join("bench/foreign-captures.sh");
    program_runner::show_and_run(Command::new(script).arg(folder))?;
    program_runner::run_script("requirements.sh", &["captures"])
}

fn compare_package(longhaul: &Path, folder: &Path) -> Result<PackageTally, String> {
    let mut tally = PackageTally::default();
    let cannot = |e| format!("cannot read {}: {e}", folder.display());
    let entries = folder.read_dir().map_err(cannot)?;
    let mut files: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    files.sort();
    for file in files {
        tally.compare_capture(longhaul, &file)?;
    }
    Ok(tally)
}

impl PackageTally {
    fn compare_capture(&mut self, longhaul: &Path, file: &Path) -> TaskResult {
        self.captures += 1;
        self.run_longhaul(Command::new(longhaul).args(["capture", "explain"]).arg(file));
        let show = ["capture", "show", "--json"];
        let shown = self.run_longhaul(Command::new(longhaul).args(show).arg(file));
        let reading = shown.and_then(|it| serde_json::from_str(&it.stdout).ok());
        let reading: Value = reading.unwrap_or_default();
        let ours = read_longhaul_counts(&reading);
        let mut tcptrace = Command::new("tcptrace");
        let output = program_runner::capture_output(
            tcptrace.args(["-l", "-n", "--csv"]).arg(file),
            MAX_TIME * 6,
        )?;
        let theirs = read_tcptrace_counts(&output.stdout);
        let unread = ours.keys().filter(|key| !theirs.contains_key(key));
        self.unread_by_tcptrace += unread.count();
        let leaves_out = reading["left_out_packets"].as_u64() > Some(0);
        for (key, expected) in &theirs {
            match ours.get(key) {
                None if leaves_out => self.left_out += 1,
                found => self.compare_direction(file, *key, expected, found),
            }
        }
        Ok(())
    }

    /// Returns the output; `None` after a crash, or if it takes far too long.
    fn run_longhaul(&mut self, command: &mut Command) -> Option<ProgramOutput> {
        let began = Instant::now();
        let output = program_runner::capture_output(command, MAX_TIME * 6).ok();
        self.longest = self.longest.max(began.elapsed());
        // Rust's panic ends with 101, a signal without a code.
        let output = output.filter(|it| it.status.code().is_some_and(|code| code < 100));
        self.crashes += usize::from(output.is_none());
        output
    }

    fn compare_direction(
        &mut self,
        file: &Path,
        (from, to): (SocketAddr, SocketAddr),
        expected: &DirectionCounts,
        found: Option<&DirectionCounts>,
    ) {
        let found = found.copied().unwrap_or_default();
        self.compared += 1;
        for (equal, (one, other)) in self.equal.iter_mut().zip(expected.iter().zip(&found)) {
            *equal += usize::from(one == other);
        }
        if expected[RETRANSMITTED] != found[RETRANSMITTED] {
            let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let pair = |it: &DirectionCounts| {
                let (again, both) = (it[RETRANSMITTED], it[RETRANSMITTED + 1]);
                format!("{again} + {}", both.saturating_sub(again))
            };
            let cells = [name, from.to_string(), to.to_string(), pair(expected), pair(&found)];
            self.differences.push(cells.to_vec());
        }
    }

    fn add(&mut self, other: &PackageTally) {
        self.captures += other.captures;
        self.crashes += other.crashes;
        self.longest = self.longest.max(other.longest);
        self.compared += other.compared;
        self.left_out += other.left_out;
        self.unread_by_tcptrace += other.unread_by_tcptrace;
        for (sum, count) in self.equal.iter_mut().zip(other.equal) {
            *sum += count;
        }
    }

    fn equal_ratio(&self, count: usize) -> f64 {
        self.equal[count] as f64 / self.compared.max(1) as f64
    }

    fn cells(&self, name: &str) -> Vec<String> {
        let equal = (0..COUNTS.len()).map(|it| format!("{:.2} %", 100.0 * self.equal_ratio(it)));
        let head = [
            name.to_owned(),
            self.captures.to_string(),
            self.crashes.to_string(),
            format!("{:.2} s", self.longest.as_secs_f64()),
            self.compared.to_string(),
        ];
        let tail = [self.left_out.to_string(), self.unread_by_tcptrace.to_string()];
        head.into_iter().chain(equal).chain(tail).collect()
    }

    fn find_missed(&self) -> Vec<String> {
        let ratio = self.equal_ratio(RETRANSMITTED);
        let found = [
            (self.crashes > 0, format!("{} crashes", self.crashes)),
            (self.longest > MAX_TIME, format!("a capture took {:?}", self.longest)),
            (
                ratio < MIN_EQUAL_RATIO,
                format!("retransmits are equal in {:.2} % of the directions", 100.0 * ratio),
            ),
        ];
        found.into_iter().filter(|(is_missed, _)| *is_missed).map(|(_, text)| text).collect()
    }
}

/// Returns the counts in `longhaul capture show --json`.
fn read_longhaul_counts(reading: &Value) -> CapturedDirections {
    let mut found = CapturedDirections::new();
    let flows = reading["flows"].as_array().into_iter().flatten();
    for flow in flows.filter(|flow| flow["protocol"] == "tcp") {
        let address = |end: &str| flow[end].as_str().and_then(|text| text.parse().ok());
        let Some((opener, listener)) = address("opener").zip(address("listener")) else { continue };
        for (way, key) in [("forward", (opener, listener)), ("reverse", (listener, opener))] {
            let (way, tcp) = (&flow[way], &flow[way]["tcp"]);
            let count = |value: &Value| value.as_u64().unwrap_or(0);
            let again = count(&tcp["retransmitted_packets"]);
            let counts = [
                count(&way["payload_packets"]),
                count(&tcp["unique_bytes"]),
                again,
                again + count(&tcp["reordered_packets"]),
                u64::from(tcp["fin"] == true),
                u64::from(tcp["rst"] == true),
            ];
            add_counts(&mut found, key, counts);
        }
    }
    found
}

/// Returns the counts in the comma-separated values of tcptrace.
fn read_tcptrace_counts(text: &str) -> CapturedDirections {
    let mut found = CapturedDirections::new();
    let mut names = Vec::new();
    for line in text.lines() {
        let cells: Vec<&str> = line.split(',').map(str::trim).collect();
        if cells[0] == "conn_#" {
            names = cells;
            continue;
        }
        let cell = |name: &str| {
            let place = names.iter().position(|it| *it == name)?;
            cells.get(place).copied()
        };
        let address = |end: char| {
            let ip = cell(&format!("host_{end}"))?;
            // tcptrace prints `::1` as `:0001`.
            let ip = if ip.starts_with(':') {
                format!(":{}", ip.trim_start_matches("::"))
            } else {
                ip.to_owned()
            };
            let port = cell(&format!("port_{end}"))?.parse().ok()?;
            Some(SocketAddr::new(ip.parse::<IpAddr>().ok()?, port))
        };
        let Some((one, other)) = address('a').zip(address('b')) else { continue };
        for (way, key) in [("a2b", (one, other)), ("b2a", (other, one))] {
            let counts = COUNTS.map(|(name, columns)| {
                let numbers = columns.iter().filter_map(|column| {
                    // SYN and FIN share a cell.
                    let text = cell(&format!("{column}_{way}"))?.rsplit('/').next()?;
                    text.parse::<u64>().ok()
                });
                let sum = numbers.sum::<u64>();
                if name.starts_with("has ") { sum.min(1) } else { sum }
            });
            add_counts(&mut found, key, counts);
        }
    }
    found
}

fn add_counts(
    all: &mut CapturedDirections,
    key: (SocketAddr, SocketAddr),
    counts: DirectionCounts,
) {
    let sums = all.entry(key).or_default();
    for (place, (sum, count)) in sums.iter_mut().zip(counts).enumerate() {
        let is_flag = COUNTS[place].0.starts_with("has ");
        *sum = if is_flag { (*sum).max(count) } else { *sum + count };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn both_programs_say_the_same_of_a_direction() {
        let text = "conn_#,host_a,host_b,port_a,port_b,SYN/FIN_pkts_sent_a2b,resets_sent_a2b,\
            actual_data_pkts_a2b,unique_bytes_sent_a2b,rexmt_data_pkts_a2b,outoforder_pkts_a2b,\n\
            1,:0001,192.0.2.1,9,10, 1/2, 0, 7, 100, 2, 1,\n2, 192.0.2.7,192.0.2.1,9,10, 1/2, 3, 7, 100, 2, 1,\n";
        let theirs = read_tcptrace_counts(text);
        assert_eq!(theirs.len(), 4);
        let flow = json!({"protocol": "tcp", "opener": "192.0.2.7:9", "listener": "192.0.2.1:10",
            "forward": {"payload_packets": 7, "tcp": {"unique_bytes": 100, "fin": true, "rst": true,
                "retransmitted_packets": 2, "reordered_packets": 1}}});
        let ours = read_longhaul_counts(&json!({"flows": [flow]}));
        let key = ("192.0.2.7:9".parse().unwrap(), "192.0.2.1:10".parse().unwrap());
        assert_eq!((ours[&key], theirs[&key]), ([7, 100, 2, 3, 1, 1], [7, 100, 2, 3, 1, 1]));
        assert!(theirs.keys().any(|(from, _)| from.to_string() == "[::1]:9"));
    }
}
