//! The guided search against whole grids, on the paths of fixtures/tuning.toml.
//!
//! For each path: the grid, one search as a user starts it, and then grid best, choice and default
//! again, in turns, three times each; their medians are compared.
//!
//! Wrong when: the machine is too busy to keep the lab's timing. The best of 40 cells is also the
//! luckiest, so it is measured again before it is compared.

use crate::BenchOutcome;
use crate::lab_reports::{LabPath, LabReporter, read_goodput_bps};
use crate::markdown_table::{MarkdownTable, format_number, median};
use crate::narrow_path::NarrowPath;
use longhaul_model::report::v1::scan::TransferSetting;
use serde::Deserialize;
use serde_json::Value;
use std::path::Path;
use std::time::Duration;
use toml::Table;
use xtask::checkout;

/// The number of windows besides the kernel's own, and the streams and congestion controls of the
/// grid.
const ASKED_WINDOWS: u32 = 3;
const STREAMS: [u32; 5] = [1, 2, 4, 8, 24];
const CONTROLS: [&str; 2] = ["cubic", "bbr"];
/// The time of a cell beyond its payload time, and the maximum of a guided search, in seconds.
const CELL_OVERHEAD_S: u64 = 4;
const SEARCH_S: u64 = 420;
const REPEATS: usize = 3;
/// The payload time of the repeats, as a multiple of that of a cell.
const REPEAT_LENGTH: u64 = 2;
const GOOD: f64 = 0.95;
const ACCEPTABLE: f64 = 0.90;
/// The minimum shares of the paths that are good, and that are searched with few probes.
const GOOD_MIN: f64 = 10.0 / 12.0;
const FEW_MIN: f64 = 0.9;
const FEW_PROBES: u64 = 8;
/// The minimum goodput of the choice relative to one default stream.
const MIN_DEFAULT_SHARE: f64 = 0.97;

/// One path with its result, or the reason why there is none.
struct JudgedSearch {
    path: TuneFixturePath,
    found: Result<EmulatedSearchResult, String>,
}

/// The repeated goodput of each setting in bit/s.
struct EmulatedSearchResult {
    best: TransferSetting,
    best_bps: f64,
    choice: TransferSetting,
    choice_bps: f64,
    default_bps: f64,
    probes: u64,
    stopped_by: String,
}

impl EmulatedSearchResult {
    fn share_of_best(&self) -> f64 {
        self.choice_bps / self.best_bps
    }

    fn share_of_default(&self) -> f64 {
        self.choice_bps / self.default_bps
    }
}

/// Searches on the paths whose name contains `only`; each report is also written to the folder
/// `keep`.
pub fn run_all(longhaul: &Path, only: &str, keep: Option<&Path>) -> Result<BenchOutcome, String> {
    let mut paths = read_tune_paths()?;
    paths.retain(|path| path.name.contains(only));
    let lab = LabReporter::new(longhaul, keep)?;
    let granted_bytes = read_granted_bytes()?;
    let columns = "path | RTT, ms | Mbit/s | best of the grid | Mbit/s | tuner's choice | \
         Mbit/s | of the best | probes | ended by | default, Mbit/s | ";
    let mut table = MarkdownTable::new("Tuning on emulated paths", columns);
    let mut judged = Vec::new();
    for path in paths {
        let one = JudgedSearch { found: judge_search(&lab, &path, granted_bytes), path };
        let row = format_row(&one);
        eprintln!("| {} |", row.join(" | "));
        table.row(row);
        judged.push(one);
    }
    Ok(BenchOutcome::new(&[table], check_gates(&judged)))
}

/// Returns the largest buffer that this machine's kernel grants on request.
fn read_granted_bytes() -> Result<u64, String> {
    let read_sysctl = |name: &str| -> Result<u64, String> {
        let file = format!("/proc/sys/net/core/{name}");
        let text =
            std::fs::read_to_string(&file).map_err(|e| format!("cannot read {file}: {e}"))?;
        text.trim().parse().map_err(|e| format!("{file} is no number: {e}"))
    };
    Ok(read_sysctl("rmem_max")?.min(read_sysctl("wmem_max")?))
}

fn set_up_path(lab: &LabReporter<'_>, path: &TuneFixturePath) -> Result<LabPath, String> {
    let buffer = |most: u64| format!("4096 65536 {most}");
    let (free, receive, send) =
        (buffer(DEFAULT_BUFFER_BYTES), buffer(path.receive), buffer(path.send));
    let (rmem, wmem) = ("net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem");
    let cubic = ("net.ipv4.tcp_congestion_control", "cubic");
    lab.path(&NarrowPath {
        title: &path.name,
        rtt_ms: path.rtt_ms,
        link: &path.link,
        near: &[cubic, (rmem, &free), (wmem, &send)],
        far: &[cubic, (rmem, &receive), (wmem, &free)],
    })
}

fn judge_search(
    lab: &LabReporter<'_>,
    path: &TuneFixturePath,
    granted_bytes: u64,
) -> Result<EmulatedSearchResult, String> {
    let site = set_up_path(lab, path)?;
    let grid = format!(
        "tune far --grid -w {} -P {} -C {} -t {}s",
        path.windows(ASKED_WINDOWS, granted_bytes),
        STREAMS.map(|n| n.to_string()).join(","),
        CONTROLS.join(","),
        path.seconds
    );
    let cells = (1 + ASKED_WINDOWS as usize) * STREAMS.len() * CONTROLS.len();
    let cell = Duration::from_secs(path.seconds + CELL_OVERHEAD_S);
    let grid = lab.report(&site, "grid", &grid, cell * cells as u32)?;
    let best = read_choice(&grid, "best").ok_or("the grid gave no best cell")?;
    let guided = lab.report(&site, "guided", "tune far", Duration::from_secs(SEARCH_S))?;
    let choice = read_choice(&guided, "recommended").ok_or("the search recommends nothing")?;
    let default = TransferSetting::default();
    let measure = |settings| measure_again(lab, &site, path.seconds, settings);
    let [best_bps, choice_bps, default_bps] = measure([&best, &choice, &default])?;
    let analysis = &guided["analysis"];
    Ok(EmulatedSearchResult {
        best,
        best_bps,
        choice,
        choice_bps,
        default_bps,
        probes: analysis["probes_run"].as_u64().ok_or("no count of probes")?,
        stopped_by: analysis["stopped_by"].as_str().unwrap_or("–").to_owned(),
    })
}

fn read_choice(report: &Value, which: &str) -> Option<TransferSetting> {
    TransferSetting::deserialize(&report["analysis"]["directions"][0][which]["setting"]).ok()
}

/// Returns the options of `longhaul test` for a setting.
fn format_options(setting: &TransferSetting) -> String {
    let window = setting.window_bytes.map(|bytes| format!(" --window {bytes}"));
    let control = setting.congestion_control.as_ref().map(|name| format!(" -C {name}"));
    let pace = setting.pacing_bps.map(|bps| format!(" --pacing {bps}"));
    let others: String = [window, control, pace].into_iter().flatten().collect();
    format!("-P {}{others}", setting.streams)
}

/// Returns the median goodput of each; the order alternates, so that a drifting path favours none.
fn measure_again(
    lab: &LabReporter<'_>,
    site: &LabPath,
    cell_seconds: u64,
    settings: [&TransferSetting; 3],
) -> Result<[f64; 3], String> {
    // Equal settings are measured only once.
    let first = settings.map(|it| settings.iter().position(|other| *other == it).unwrap_or(0));
    let seconds = REPEAT_LENGTH * cell_seconds;
    let mut rates = [const { Vec::new() }; 3];
    for repeat in 0..REPEATS {
        let mut order = [0, 1, 2];
        if repeat % 2 == 1 {
            order.reverse();
        }
        for which in order.into_iter().filter(|which| first[*which] == *which) {
            let words = format!("test far -t {seconds}s {}", format_options(settings[which]));
            let part = format!("again-{which}-{repeat}");
            let report = lab.report(site, &part, &words, Duration::from_secs(seconds))?;
            rates[which]
                .push(read_goodput_bps(&report).ok_or_else(|| format!("no goodput of {part}"))?);
        }
    }
    Ok(first.map(|which| median(&rates[which]).unwrap_or(0.0)))
}

fn format_row(judged: &JudgedSearch) -> Vec<String> {
    let path = &judged.path;
    let mut cells = vec![path.name.clone(), path.rtt_ms.to_string(), path.rate_mbps.to_string()];
    let mbps = |bps: f64| format_number(Some(bps / 1e6), 1);
    match &judged.found {
        Ok(found) => cells.extend([
            format_options(&found.best),
            mbps(found.best_bps),
            format_options(&found.choice),
            mbps(found.choice_bps),
            format!("{:.1} %", 100.0 * found.share_of_best()),
            found.probes.to_string(),
            found.stopped_by.clone(),
            mbps(found.default_bps),
            format_mark(found).to_owned(),
        ]),
        Err(why) => {
            cells.push(format!("no answer: {why}"));
            cells.resize(11, "–".to_owned());
            cells.push("**none**".to_owned());
        }
    }
    cells
}

fn format_mark(found: &EmulatedSearchResult) -> &'static str {
    match found.share_of_best() {
        _ if found.share_of_default() < MIN_DEFAULT_SHARE => "**slower than the default**",
        share if share >= GOOD => "good",
        share if share >= ACCEPTABLE => "near",
        _ => "**below**",
    }
}

fn check_gates(judged: &[JudgedSearch]) -> Vec<String> {
    let mut missed = Vec::new();
    for JudgedSearch { path, found } in judged {
        let name = &path.name;
        match found {
            Err(why) => missed.push(format!("{name}: no answer: {why}")),
            Ok(found) => {
                let shares = [found.share_of_best(), found.share_of_default()];
                let [best, default] = shares.map(|share| 100.0 * share);
                if shares[0] < ACCEPTABLE {
                    missed.push(format!("{name}: {best:.1} % of the grid's best; 90 % must be"));
                }
                if shares[1] < MIN_DEFAULT_SHARE {
                    missed.push(format!("{name}: {default:.1} % of the default; at least 97 %"));
                }
            }
        }
    }
    let found = || judged.iter().filter_map(|one| one.found.as_ref().ok());
    let good = found().filter(|it| it.share_of_best() >= GOOD).count();
    let few = found().filter(|it| it.probes <= FEW_PROBES).count();
    let all = judged.len();
    let is_below = |count: usize, share: f64| (count as f64) < share * all as f64 - 1e-9;
    if is_below(good, GOOD_MIN) {
        missed.push(format!("{good} of {all} paths reach 95 % of the grid's best; 10 of 12 must"));
    }
    if is_below(few, FEW_MIN) {
        missed.push(format!("{few} of {all} searches took at most 8 probes; nine in ten must"));
    }
    missed
}

/// Relative to the root of the checkout.
const FILE: &str = "fixtures/tuning.toml";
/// The autotuning limit of paths that do not set one.
const DEFAULT_BUFFER_BYTES: u64 = 64 << 20;

#[derive(Deserialize)]
struct TuneFixtureFile {
    path: Vec<TuneFixturePath>,
}

/// An emulated path.
#[derive(Debug, Clone, Deserialize)]
struct TuneFixturePath {
    pub name: String,
    pub rtt_ms: u64,
    pub rate_mbps: u64,
    /// The payload time of a cell of the grid.
    pub seconds: u64,
    /// The autotuning limit of the far host's receive buffer, as stored bytes.
    #[serde(default = "default_buffer_bytes")]
    pub receive: u64,
    /// The autotuning limit of the near host's send buffer.
    #[serde(default = "default_buffer_bytes")]
    pub send: u64,
    pub link: Table,
}

fn default_buffer_bytes() -> u64 {
    DEFAULT_BUFFER_BYTES
}

/// Returns all paths.
fn read_tune_paths() -> Result<Vec<TuneFixturePath>, String> {
    let file = checkout::find_root().join(FILE);
    let text = std::fs::read_to_string(&file).map_err(|e| format!("cannot read {FILE}: {e}"))?;
    let file: TuneFixtureFile = toml::from_str(&text).map_err(|e| format!("{FILE}: {e}"))?;
    let mut paths = file.path;
    for path in &mut paths {
        path.link.insert("rate".to_owned(), format!("{} Mbit/s", path.rate_mbps).into());
    }
    Ok(paths)
}

impl TuneFixturePath {
    /// Returns the BDP of the narrow link.
    fn bdp_bytes(&self) -> u64 {
        self.rate_mbps * self.rtt_ms * 125
    }

    /// Returns windows worth measuring, as command line words: the kernel's own, and `count` around
    /// the BDP by factors of four, none above `cap`, the largest buffer that kernels grant on
    /// request.
    pub fn windows(&self, count: u32, cap: u64) -> String {
        let most = (4 * self.bdp_bytes().next_power_of_two()).min(cap);
        let buffers = (0..count).rev().map(|k| (most >> (2 * k)).max(16 << 10));
        let mut words = vec!["auto".to_owned()];
        words.extend(buffers.map(|bytes| format!("{}K", bytes >> 10)));
        words.dedup();
        words.join(",")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_paths_of_the_checkout_are_as_many_as_the_gates_speak_of() {
        let paths = read_tune_paths().expect("the file of the checkout");
        let mut names: Vec<&str> = paths.iter().map(|path| path.name.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), 12, "{names:?}");
    }

    #[test]
    fn windows_lie_around_the_product_of_rate_and_delay_and_below_what_is_granted() {
        let paths = read_tune_paths().expect("the file of the checkout");
        let long = paths.iter().find(|path| path.name == "clean and long");
        let long = long.expect("the clean path");
        assert_eq!(long.bdp_bytes(), 1_250_000);
        assert_eq!(long.windows(3, 64 << 20), "auto,512K,2048K,8192K");
        assert_eq!(long.windows(3, 4 << 20), "auto,256K,1024K,4096K");
    }
}
