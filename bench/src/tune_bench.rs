//! The guided search and the prediction against whole grids, on the paths of fixtures/tuning.toml:
//! queueing disciplines of Linux in guests with a virtual clock.
//!
//! For each path: the grid, one search as a user starts it, and then grid best, choice and default
//! again, three times each; their medians are compared.
//!
//! Wrong when: the CPU limits a setting, because computing takes no time in a guest. The best of 40
//! cells is also the luckiest, so it is measured again before it is compared.

mod grid_prediction;

use crate::BenchOutcome;
use crate::guest_cells::{
    PARALLEL_GUESTS, find_guest_output, format_file_name, make_kept_folder, parse_report,
};
use crate::markdown_table::{MarkdownTable, format_number, median};
use crate::verdict_matrix::matrix_cell::NETWORK;
use longhaul_model::report::v1::predict::PredictionAnalysis;
use longhaul_model::report::v1::scan::TransferSetting;
use serde::Deserialize;
use serde_json::Value;
use std::path::Path;
use std::time::Duration;
use xtask::checkout;
use xtask::program_runner::run_in_parallel;

/// The number of windows besides the kernel's own, and the streams and congestion controls of the
/// grid.
const REQUESTED_WINDOWS: u32 = 3;
const STREAMS: [u32; 5] = [1, 2, 4, 8, 24];
const CONTROLS: [&str; 2] = ["cubic", "bbr"];
/// The maximum of wall time for the runs of one guest, on a busy machine.
const GUEST_LIMIT: Duration = Duration::from_secs(3600);
const REPEATS: usize = 3;
/// The payload time of the repeats, ramp included: a short transfer of bulk data.
const REPEAT_SECONDS: u64 = 30;
const GOOD: f64 = 0.95;
const ACCEPTABLE: f64 = 0.90;
/// The minimum shares of the paths that are good or searched in time, and that are searched with few
/// probes.
const GOOD_MIN: f64 = 11.0 / 12.0;
const FEW_MIN: f64 = 0.9;
const FEW_PROBES: u64 = 8;
/// The maximum duration of a search in seconds, on paths up to this RTT and beyond.
const MAX_SHORT_RTT_MS: u64 = 100;
const MAX_SHORT_S: f64 = 20.0;
const MAX_LONG_S: f64 = 45.0;
/// The minimum goodput of the choice relative to one default stream.
const MIN_DEFAULT_SHARE: f64 = 0.97;

/// One path with its result, or the reason why there is none.
struct JudgedSearch {
    path: TuneFixturePath,
    found: Result<EmulatedSearchResult, String>,
}

/// The goodput of each setting in bit/s: the median of whole runs, ramps included, because the rate of a
/// steady part of many streams varies by several per cent.
struct EmulatedSearchResult {
    best: TransferSetting,
    best_bps: f64,
    choice: TransferSetting,
    choice_bps: f64,
    default_bps: f64,
    probes: u64,
    /// The duration of the search, set-up of its probes included.
    seconds: f64,
    stopped_by: String,
    /// The cells of the grid, measured and predicted.
    prediction: PredictionAnalysis,
}

impl EmulatedSearchResult {
    fn share_of_best(&self) -> f64 {
        self.choice_bps / self.best_bps
    }

    fn share_of_default(&self) -> f64 {
        self.choice_bps / self.default_bps
    }
}

/// Searches on the paths whose name contains `only`. With `keep`, reports are written to that folder, and
/// kept ones are read instead of run.
pub fn run_all(longhaul: &Path, only: &str, keep: Option<&Path>) -> Result<BenchOutcome, String> {
    make_kept_folder(keep)?;
    let mut paths = read_tune_paths()?;
    paths.retain(|path| path.name.contains(only));
    let judged = run_in_parallel(&paths, PARALLEL_GUESTS, |path| {
        let site = TuneSite { longhaul, path, keep };
        let one = JudgedSearch { found: site.judge_search(), path: path.clone() };
        eprintln!("| {} |", format_row(&one).join(" | "));
        one
    });
    let columns = "path | RTT, ms | Mbit/s | best of the grid | Mbit/s | tuner's choice | \
         Mbit/s | of the best | probes | s | ended by | default, Mbit/s | ";
    let mut table = MarkdownTable::new("Tuning on queueing disciplines of Linux", columns);
    for one in &judged {
        table.row(format_row(one));
    }
    let (predictions, mispredicted) = grid_prediction::tabulate_predictions(&judged);
    let missed = [check_gates(&judged), mispredicted].concat();
    Ok(BenchOutcome::new(&[table, predictions], missed))
}

/// A path, and the program that runs across it.
struct TuneSite<'a> {
    longhaul: &'a Path,
    path: &'a TuneFixturePath,
    keep: Option<&'a Path>,
}

impl TuneSite<'_> {
    fn judge_search(&self) -> Result<EmulatedSearchResult, String> {
        let path = self.path;
        let grid = format!(
            "tune $ADDRESS --grid -w {} -P {} -C {} -t {}s",
            path.windows(REQUESTED_WINDOWS),
            STREAMS.map(|n| n.to_string()).join(","),
            CONTROLS.join(","),
            path.seconds
        );
        let grid = self.run_repeatedly("grid", &grid, 1)?.swap_remove(0);
        let search = self.run_repeatedly("search", "tune $ADDRESS", 1)?.swap_remove(0);
        let best = read_choice(&grid, "best").ok_or("the grid gave no best cell")?;
        let choice = read_choice(&search, "recommended").ok_or("nothing is recommended")?;
        Ok(EmulatedSearchResult {
            best_bps: self.measure_setting(&best)?,
            choice_bps: self.measure_setting(&choice)?,
            default_bps: self.measure_setting(&TransferSetting::default())?,
            prediction: grid_prediction::predict_grid(&grid)?,
            best,
            choice,
            probes: search["analysis"]["probes_run"].as_u64().ok_or("no count of probes")?,
            seconds: search["run"]["duration_us"].as_f64().ok_or("no duration")? / 1e6,
            stopped_by: search["analysis"]["stopped_by"].as_str().unwrap_or("–").to_owned(),
        })
    }

    /// Returns the median goodput of transfers with a setting.
    fn measure_setting(&self, setting: &TransferSetting) -> Result<f64, String> {
        let options = format_options(setting);
        let command = format!("test $ADDRESS -t {REPEAT_SECONDS}s {options}");
        let reports = self.run_repeatedly(&format!("with {options}"), &command, REPEATS)?;
        let rates = reports.iter().map(|it| it["analysis"]["mean_goodput_bps"].as_f64());
        let rates: Option<Vec<f64>> = rates.collect();
        median(&rates.ok_or("a run without goodput")?).ok_or("no run".to_owned())
    }

    /// Runs a command of longhaul at the near end several times in one guest, and returns its reports,
    /// which are kept under the name of the path and this part.
    fn run_repeatedly(
        &self,
        part: &str,
        command: &str,
        times: usize,
    ) -> Result<Vec<Value>, String> {
        let mut script = self.path.network_script(self.longhaul);
        script.push_str(&format!("near {command}\n").repeat(times));
        let name = format_file_name(&format!("{} {part}", self.path.name));
        find_guest_output(&name, &script, self.keep, GUEST_LIMIT, |mut text| {
            let mut reports = Vec::new();
            for _ in 0..times {
                let (report, rest) = parse_report::<Value>(text)?;
                reports.push(report);
                text = rest;
            }
            Ok(reports)
        })
    }
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
            format_number(Some(found.seconds), 1),
            found.stopped_by.clone(),
            mbps(found.default_bps),
            format_mark(found).to_owned(),
        ]),
        Err(why) => {
            cells.push(format!("no answer: {why}"));
            cells.resize(12, "–".to_owned());
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
    let is_quick = |one: &&JudgedSearch| {
        let most = if one.path.rtt_ms <= MAX_SHORT_RTT_MS { MAX_SHORT_S } else { MAX_LONG_S };
        one.found.as_ref().is_ok_and(|it| it.seconds <= most)
    };
    let quick = judged.iter().filter(is_quick).count();
    let all = judged.len();
    let is_below = |count: usize, share: f64| (count as f64) < share * all as f64 - 1e-9;
    if is_below(good, GOOD_MIN) {
        missed.push(format!("{good} of {all} paths reach 95 % of the grid's best; 11 of 12 must"));
    }
    if is_below(quick, GOOD_MIN) {
        missed.push(format!(
            "{quick} of {all} searches took at most {MAX_SHORT_S} s, or {MAX_LONG_S} s on long paths; \
             11 of 12 must"
        ));
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

/// A path of the fixture file.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TuneFixturePath {
    pub name: String,
    rtt_ms: u64,
    rate_mbps: u64,
    /// The rate of the hosts' own links.
    first_mbps: Option<u64>,
    #[serde(default = "default_mtu")]
    mtu: u64,
    /// The payload time of a cell of the grid.
    seconds: u64,
    /// The autotuning limit of the far host's receive buffer, as stored bytes.
    #[serde(default = "default_buffer_bytes")]
    receive: u64,
    /// The autotuning limit of the near host's send buffer.
    #[serde(default = "default_buffer_bytes")]
    send: u64,
    #[serde(default)]
    loss: String,
    /// The commands of the narrow link.
    link: String,
}

fn default_mtu() -> u64 {
    1500
}

fn default_buffer_bytes() -> u64 {
    DEFAULT_BUFFER_BYTES
}

/// Returns all paths.
pub fn read_tune_paths() -> Result<Vec<TuneFixturePath>, String> {
    let file = checkout::find_root().join(FILE);
    let text = std::fs::read_to_string(&file).map_err(|e| format!("cannot read {FILE}: {e}"))?;
    let file: TuneFixtureFile = toml::from_str(&text).map_err(|e| format!("{FILE}: {e}"))?;
    Ok(file.path)
}

impl TuneFixturePath {
    /// Returns the BDP of the narrow link.
    fn bdp_bytes(&self) -> u64 {
        self.rate_mbps * self.rtt_ms * 125
    }

    /// Returns windows worth measuring, as command line words: the kernel's own, and `count` around
    /// the BDP by factors of four.
    fn windows(&self, count: u32) -> String {
        let most = 4 * self.bdp_bytes().next_power_of_two();
        let buffers = (0..count).rev().map(|k| (most >> (2 * k)).max(16 << 10));
        let mut words = vec!["auto".to_owned()];
        words.extend(buffers.map(|bytes| format!("{}K", bytes >> 10)));
        words.dedup();
        words.join(",")
    }

    /// Returns the script that sets the path up and defines `near`, which runs longhaul at its near end.
    pub fn network_script(&self, longhaul: &Path) -> String {
        let half = self.rtt_ms as f64 / 2.0;
        let loss =
            if self.loss.is_empty() { String::new() } else { format!(" loss {}", self.loss) };
        format!(
            "LONGHAUL='{}' FAMILY=4 REVERSE=0 MTU={} FIRST={}mbit LIMITS=\n\
             DELAY_OUT='delay {half}ms{loss}' DELAY_BACK='delay {half}ms'\n\
             sysctl -qw net.core.rmem_max={DEFAULT_BUFFER_BYTES} net.core.wmem_max={DEFAULT_BUFFER_BYTES}\n\
             {NETWORK}\n\
             ip netns exec far sysctl -qw net.ipv4.tcp_rmem='4096 65536 {}'\n\
             ip netns exec near sysctl -qw net.ipv4.tcp_wmem='4096 65536 {}' \
                 net.ipv4.tcp_congestion_control=cubic\n\
             near() {{ ip netns exec near $LONGHAUL \"$@\" --no-save --json --quiet; }}\n\
             {}\nsleep 2\n",
            longhaul.display(),
            self.mtu,
            self.first_mbps.unwrap_or(10 * self.rate_mbps),
            self.receive,
            self.send,
            self.link,
        )
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
    fn windows_lie_around_the_product_of_rate_and_delay() {
        let paths = read_tune_paths().expect("the file of the checkout");
        let long = paths.iter().find(|path| path.name == "clean and long");
        let long = long.expect("the clean path");
        assert_eq!(long.bdp_bytes(), 1_250_000);
        assert_eq!(long.windows(3), "auto,512K,2048K,8192K");
    }
}
