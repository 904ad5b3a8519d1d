//! Available bandwidth and capacity on links of known rate and load.

use super::path_site::{
    PathSite, PathTestbed, find_forward_link, format_mbps, format_percent, make_hop,
};
use crate::markdown_table::{MarkdownTable, median};
use crate::{BenchOutcome, list_missed};
use longhaul_accuracy::ErrorTally;
use serde_json::Value;
use std::time::Duration;

const RATES_MBPS: [u32; 4] = [10, 50, 100, 300];
const LOADS_PERCENT: [u32; 3] = [0, 30, 60];
const PATTERNS: [&str; 2] = ["poisson", "onoff"];
const REPEATS: u32 = 5;
/// The maximum number of attempts to get the wanted runs on a path with accurate timing …
const MAX_ATTEMPTS: u32 = 3 * REPEATS;
/// … that is, with at most one packet in a hundred later than this.
const MAX_LATE_NS: u64 = 250_000;
const LIMIT: Duration = Duration::from_secs(15);
/// Gates: error as a share of capacity, and coverage of the interval.
const MEDIAN_MAX: f64 = 0.10;
const COVERAGE_MIN: f64 = 0.80;
/// The cost of light mode in each direction.
const LIGHT_BYTES: u64 = 58_000;
const LIGHT_US: u64 = 1_000_000;
/// The IP bytes of a packet, and its wire bytes.
const IP_BYTES: f64 = 1500.0;
const WIRE_BYTES: f64 = 1538.0;

/// One link with cross traffic.
struct AvailableCell {
    mbps: u32,
    load: u32,
    pattern: &'static str,
}

/// The results of one cell's runs against the truth.
#[derive(Default)]
struct AvailableTally {
    /// Runs that were discarded because the lab was late.
    late: u32,
    available: ErrorTally,
    capacity: ErrorTally,
}

impl AvailableCell {
    fn site(&self, ground: &PathTestbed) -> Result<PathSite, String> {
        let rate = format!("{} Mbit/s", self.mbps);
        let mut narrow =
            make_hop("narrow", &[("delay", "9 ms"), ("rate", &rate), ("queue", "100 ms")]);
        if self.load > 0 {
            let cross = format!("{} kbit/s", self.mbps * 10 * self.load);
            let cross = toml::Table::from_iter([
                ("rate".to_owned(), toml::Value::from(cross)),
                ("pattern".to_owned(), self.pattern.into()),
            ]);
            narrow.insert("cross".to_owned(), cross.into());
        }
        let wide = |name| make_hop(name, &[("delay", "0.5 ms"), ("rate", "10 Gbit/s")]);
        ground.site("available", vec![wide("access"), narrow, wide("far")])
    }

    /// Adds the results of the runs. Each run has its own path: bursts of cross traffic are so long
    /// that the mean of a minute is not what one run met. Runs on a path with inaccurate timing are
    /// discarded, because the path was not as described.
    fn run(&self, ground: &PathTestbed, into: &mut AvailableTally) -> Result<(), String> {
        let words = "available far --forward";
        let capacity = f64::from(self.mbps) * 1e6 * IP_BYTES / WIRE_BYTES;
        let mut site = self.site(ground)?;
        for seed in 1..=MAX_ATTEMPTS {
            if into.available.cases == REPEATS as usize {
                break;
            }
            site.seed = Some(seed);
            let seen = ground.run_reports(&site, words, 1, LIMIT)?;
            if is_late(&seen.truth) && seed + REPEATS <= MAX_ATTEMPTS + into.available.cases as u32
            {
                into.late += 1;
                continue;
            }
            let others = read_carried_bps(&seen.truth) * IP_BYTES / WIRE_BYTES;
            for report in &seen.reports {
                into.add(&report["analysis"]["forward"], capacity, capacity - others);
            }
        }
        Ok(())
    }
}

/// Reports whether packets were delivered much later than the path specifies.
fn is_late(truth: &Value) -> bool {
    truth["lateness"]["p99_ns"].as_u64().is_none_or(|ns| ns > MAX_LATE_NS)
}

/// Returns the share of the narrow link used by cross traffic, in wire bit/s over the path's
/// lifetime.
fn read_carried_bps(truth: &Value) -> f64 {
    let bytes = find_forward_link(truth, 2)["cross"]["carried_wire_bytes"].as_f64();
    let time_ns =
        truth["at_ns"].as_f64().unwrap_or(0.0) - truth["begin_at_ns"].as_f64().unwrap_or(0.0);
    bytes.unwrap_or(0.0) * 8e9 / time_ns.max(1.0)
}

impl AvailableTally {
    fn add(&mut self, estimate: &Value, capacity: f64, available: f64) {
        let value = |name: &str| estimate[format!("{name}_bps")].as_u64();
        let interval = |name: &str| {
            let ends = &estimate[format!("{name}_interval_bps")];
            Some([ends[0].as_u64()?, ends[1].as_u64()?])
        };
        self.available.add(value("available"), interval("available"), available, capacity);
        self.capacity.add(value("capacity"), interval("capacity"), capacity, capacity);
    }

    fn merge(&mut self, other: AvailableTally) {
        self.late += other.late;
        self.available.merge(other.available);
        self.capacity.merge(other.capacity);
    }

    fn cells(&self) -> Vec<String> {
        let mut cells =
            vec![format!("{} of {}", self.available.errors.len(), self.available.cases)];
        for tally in [&self.available, &self.capacity] {
            cells.push(median(&tally.errors).map_or_else(|| "–".to_owned(), format_percent));
            cells.push(format!("{} of {}", tally.held, tally.errors.len()));
        }
        cells.push(self.late.to_string());
        cells
    }

    fn missed(&self, what: &str) -> Vec<String> {
        let ErrorTally { cases, errors, held, .. } = &self.available;
        let Some(error) = median(errors) else {
            return vec![format!("{what}: no run gave an estimate")];
        };
        let (answered, coverage) = (errors.len(), *held as f64 / errors.len() as f64);
        let [error_text, coverage_text] = [error, coverage].map(format_percent);
        list_missed([
            (
                error <= MEDIAN_MAX,
                format!("{what}: median error {error_text} of capacity; at most 10 %"),
            ),
            (
                coverage >= COVERAGE_MIN,
                format!("{what}: intervals cover the truth in {coverage_text}; at least 80 %"),
            ),
            (
                answered as f64 > 0.8 * *cases as f64,
                format!("{what}: {answered} of {cases} runs gave an estimate"),
            ),
        ])
    }
}

/// Tests rates, loads and patterns; the gates apply to each rate.
pub fn judge_available(ground: &PathTestbed) -> BenchOutcome {
    let columns = "Mbit/s | load | pattern | estimated | median error, of capacity | covered | \
                   capacity, median error | covered | left out: lab late";
    let mut table = MarkdownTable::new("Available bandwidth on emulated paths", columns);
    let mut missed = Vec::new();
    for mbps in RATES_MBPS {
        let mut all = AvailableTally::default();
        for (load, pattern) in list_loads() {
            let cell = AvailableCell { mbps, load, pattern };
            let mut own = AvailableTally::default();
            if let Err(why) = cell.run(ground, &mut own) {
                missed.push(format!("{mbps} Mbit/s, {load} % {pattern}: {why}"));
            }
            let mut row = vec![mbps.to_string(), format!("{load} %"), pattern.to_owned()];
            row.extend(own.cells());
            eprintln!("| {} |", row.join(" | "));
            table.row(row);
            all.merge(own);
        }
        missed.extend(all.missed(&format!("{mbps} Mbit/s")));
    }
    BenchOutcome::new(&[table], missed)
}

/// Without load there is no pattern.
fn list_loads() -> Vec<(u32, &'static str)> {
    let all = LOADS_PERCENT.iter().flat_map(|load| PATTERNS.map(|pattern| (*load, pattern)));
    all.filter(|(load, pattern)| *load > 0 || *pattern == PATTERNS[0]).collect()
}

/// Measures the cost of light mode.
pub fn judge_light_mode(ground: &PathTestbed) -> BenchOutcome {
    let columns = "Mbit/s | way | verdict | probes, bytes | time, ms | capacity, Mbit/s";
    let mut table = MarkdownTable::new("The price of light mode", columns);
    let mut missed = Vec::new();
    for rate in [10, 100] {
        let cell = AvailableCell { mbps: rate, load: 30, pattern: PATTERNS[0] };
        let seen = cell
            .site(ground)
            .and_then(|site| ground.run_reports(&site, "available far --light", 2, LIMIT));
        let reports = match seen {
            Ok(seen) => seen.reports,
            Err(why) => {
                missed.push(format!("{rate} Mbit/s: {why}"));
                continue;
            }
        };
        for (report, way) in reports.iter().flat_map(|it| [(it, "forward"), (it, "reverse")]) {
            let it = &report["analysis"][way];
            let (bytes, time) = (it["probe_bytes"].as_u64(), it["duration_us"].as_u64());
            if bytes.is_none_or(|n| n > LIGHT_BYTES) || time.is_none_or(|n| n > LIGHT_US) {
                let limits = "at most 58 kB and 1 s";
                missed.push(format!("{rate} Mbit/s {way}: {bytes:?} bytes, {time:?} us; {limits}"));
            }
            table.row(vec![
                rate.to_string(),
                way.to_owned(),
                it["verdict"].as_str().unwrap_or("–").to_owned(),
                bytes.unwrap_or(0).to_string(),
                (time.unwrap_or(0) / 1000).to_string(),
                it["capacity_bps"].as_f64().map_or_else(|| "–".to_owned(), format_mbps),
            ]);
        }
    }
    BenchOutcome::new(&[table], missed)
}
