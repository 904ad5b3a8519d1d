//! The guided search against the whole grid, on emulated paths.
//!
//! For each path: the grid, one search as a user starts it, and then grid best, choice and default
//! again, in turns, three times each; their medians are compared.

use super::bench_setting::BenchSetting;
use super::tune_testbed::{TuneSite, TuneTestbed};
use super::tuning_paths::TuneFixturePath;
use crate::BenchOutcome;
use crate::markdown_table::{MarkdownTable, format_number, median};
use crate::parallel_jobs::run_in_parallel;
use serde_json::Value;
use std::time::Duration;

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
    best: (BenchSetting, f64),
    choice: (BenchSetting, f64),
    default: f64,
    probes: u64,
    stopped_by: String,
}

impl EmulatedSearchResult {
    fn share_of_best(&self) -> f64 {
        self.choice.1 / self.best.1
    }

    fn share_of_default(&self) -> f64 {
        self.choice.1 / self.default
    }
}

/// Returns the table, and a sentence for every missed gate.
pub fn judge_searches(
    ground: &TuneTestbed,
    paths: Vec<TuneFixturePath>,
    jobs: usize,
) -> BenchOutcome {
    let columns = "path | RTT, ms | Mbit/s | best of the grid | Mbit/s | tuner's choice | \
         Mbit/s | of the best | probes | ended by | default, Mbit/s | ";
    let mut table = MarkdownTable::new("Tuning on emulated paths", columns);
    let tasks = paths.into_iter().map(|path| (path.rate_mbps, path));
    let judged = run_in_parallel(tasks.collect(), jobs, |path| {
        let judged = JudgedSearch { found: judge_search(ground, &path), path };
        eprintln!("| {} |", format_row(&judged).join(" | "));
        judged
    });
    for one in &judged {
        table.row(format_row(one));
    }
    BenchOutcome::new(&[table], check_gates(&judged))
}

fn judge_search(
    ground: &TuneTestbed,
    path: &TuneFixturePath,
) -> Result<EmulatedSearchResult, String> {
    let site = ground.site(path)?;
    let grid = measure_grid(&site, path, ground.granted_bytes())?;
    let best = read_choice(&grid, "best").ok_or("the grid gave no best cell")?;
    let limit = Duration::from_secs(SEARCH_S);
    let guided = site.report("guided", "tune far --no-save --quiet", limit)?;
    let choice = read_choice(&guided, "recommended").ok_or("the search recommends nothing")?;
    let again = measure_again(&site, path, [&best, &choice, &BenchSetting::default_of_kernel()])?;
    let analysis = &guided["analysis"];
    Ok(EmulatedSearchResult {
        best: (best, again[0]),
        choice: (choice, again[1]),
        default: again[2],
        probes: analysis["probes_run"].as_u64().ok_or("no count of probes")?,
        stopped_by: analysis["stopped_by"].as_str().unwrap_or("–").to_owned(),
    })
}

fn measure_grid(site: &TuneSite, path: &TuneFixturePath, cap: u64) -> Result<Value, String> {
    let windows = path.windows(ASKED_WINDOWS, cap);
    let streams = STREAMS.map(|n| n.to_string()).join(",");
    let words = format!(
        "tune far --grid --no-save --quiet -w {windows} -P {streams} -C {} -t {}s",
        CONTROLS.join(","),
        path.seconds
    );
    let cells = (1 + ASKED_WINDOWS as usize) * STREAMS.len() * CONTROLS.len();
    let cell = Duration::from_secs(path.seconds + CELL_OVERHEAD_S);
    site.report("grid", &words, cell * cells as u32)
}

fn read_choice(report: &Value, which: &str) -> Option<BenchSetting> {
    BenchSetting::read(&report["analysis"]["directions"][0][which]["setting"])
}

/// Returns the median goodput of each; the order alternates, so that a drifting path favours none.
fn measure_again(
    site: &TuneSite,
    path: &TuneFixturePath,
    settings: [&BenchSetting; 3],
) -> Result<[f64; 3], String> {
    // Equal settings are measured only once.
    let of = |which: usize| settings.iter().position(|it| *it == settings[which]);
    let first = [0, 1, 2].map(|which| of(which).unwrap_or(which));
    let mut rates = [const { Vec::new() }; 3];
    for repeat in 0..REPEATS {
        let mut order = [0, 1, 2];
        if repeat % 2 == 1 {
            order.reverse();
        }
        for which in order.into_iter().filter(|which| first[*which] == *which) {
            rates[which].push(measure_goodput(site, path, settings[which], (which, repeat))?);
        }
    }
    Ok(first.map(|which| median(&rates[which]).unwrap_or(0.0)))
}

fn measure_goodput(
    site: &TuneSite,
    path: &TuneFixturePath,
    setting: &BenchSetting,
    (which, repeat): (usize, usize),
) -> Result<f64, String> {
    let seconds = REPEAT_LENGTH * path.seconds;
    let options = setting.options().join(" ");
    let words = format!("test far --no-save --quiet -t {seconds}s {options}");
    let name = format!("again-{which}-{repeat}");
    let report = site.report(&name, &words, Duration::from_secs(seconds))?;
    let analysis = &report["analysis"];
    let rate = analysis["goodput_bps"].as_f64();
    rate.or_else(|| analysis["mean_goodput_bps"].as_f64())
        .ok_or_else(|| format!("no goodput of {}", setting.format_short()))
}

fn format_row(judged: &JudgedSearch) -> Vec<String> {
    let path = &judged.path;
    let mut cells = vec![path.name.clone(), path.rtt_ms.to_string(), path.rate_mbps.to_string()];
    let mbps = |bps: f64| format_number(Some(bps / 1e6), 1);
    match &judged.found {
        Ok(found) => cells.extend([
            found.best.0.format_short(),
            mbps(found.best.1),
            found.choice.0.format_short(),
            mbps(found.choice.1),
            format!("{:.1} %", 100.0 * found.share_of_best()),
            found.probes.to_string(),
            found.stopped_by.clone(),
            mbps(found.default),
            format_mark(found),
        ]),
        Err(why) => {
            cells.push(format!("no answer: {why}"));
            cells.resize(11, "–".to_owned());
            cells.push("**none**".to_owned());
        }
    }
    cells
}

fn format_mark(found: &EmulatedSearchResult) -> String {
    let share = found.share_of_best();
    let word = match share {
        _ if found.share_of_default() < MIN_DEFAULT_SHARE => "**slower than the default**",
        _ if share >= GOOD => "good",
        _ if share >= ACCEPTABLE => "near",
        _ => "**below**",
    };
    word.to_owned()
}

fn check_gates(judged: &[JudgedSearch]) -> Vec<String> {
    let mut missed = Vec::new();
    let found: Vec<(&str, &EmulatedSearchResult)> = judged
        .iter()
        .filter_map(|one| Some((one.path.name.as_str(), one.found.as_ref().ok()?)))
        .collect();
    let count =
        |is: &dyn Fn(&EmulatedSearchResult) -> bool| found.iter().filter(|(_, it)| is(it)).count();
    let few_of = |count: usize, share: f64| (count as f64) < share * judged.len() as f64 - 1e-9;
    let good = count(&|it| it.share_of_best() >= GOOD);
    if few_of(good, GOOD_MIN) {
        let all = judged.len();
        missed.push(format!("{good} of {all} paths reach 95 % of the grid's best; 10 of 12 must"));
    }
    let few = count(&|it| it.probes <= FEW_PROBES);
    if few_of(few, FEW_MIN) {
        let all = judged.len();
        missed.push(format!("{few} of {all} searches took at most 8 probes; nine in ten must"));
    }
    for one in judged {
        if let Err(why) = &one.found {
            missed.push(format!("{}: no answer: {why}", one.path.name));
        }
    }
    for (name, it) in found {
        let (of_best, of_default) = (100.0 * it.share_of_best(), 100.0 * it.share_of_default());
        if it.share_of_best() < ACCEPTABLE {
            missed.push(format!("{name}: {of_best:.1} % of the grid's best; all must reach 90 %"));
        }
        if it.share_of_default() < MIN_DEFAULT_SHARE {
            missed.push(format!("{name}: {of_default:.1} % of the default; at least 97 %"));
        }
    }
    missed
}
