//! A fleet at its collector and its database: rates, results after failures, and views of a year.
//!
//! A thousand simulated agents send to a collector (`longhaul watch`), which sends into the embedded
//! engine of ClickHouse. All of them share the cores of this machine. Wrong when: the machine has
//! other work.
//!
//! - [`simulated_agents`]: batches over HTTP
//! - [`fleet_year`]: an archive of a year, and the requests of its page
//! - [`fleet_processes`]: collector, database, and lines between them that can be cut

mod fleet_processes;
mod fleet_year;
mod simulated_agents;

use crate::BenchOutcome;
use crate::markdown_table::MarkdownTable;
use crate::scratch_folder::ScratchFolder;
use fleet_processes::{CollectorProcess, CutLine, DatabaseProcess, read_cpu_s};
use longhaul_model::splitmix::SplitMix64;
use longhaul_store::Archive;
use longhaul_store::history_store::RunFilter;
use simulated_agents::{
    AGENTS, ArrivalSchedule, SendCounts, SimulatedAgents, VALUES_PER_RUN, run_id,
};
use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;

/// The goal for values that reach the database, per second, and the rate at which they arrive.
const MIN_VALUES_PER_S: f64 = 50_000.0;
const ARRIVING_VALUES_PER_S: f64 = 60_000.0;
const FAILURES: &str = "failures";
const VIEWS: &str = "views";
const FAILURE_BATCHES: usize = 20;
const FAILURE_RUNS: usize = 5;
/// The deadline of one row, and the interval of its queries.
const LIMIT: Duration = Duration::from_secs(900);
const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// A rate that is measured.
struct RateRow {
    name: &'static str,
    /// Of each agent.
    runs: usize,
    arrivals: ArrivalSchedule,
    /// The goal holds for runs that arrive. In batches of one size it depends on the size.
    has_goal: bool,
}

/// Returns the measured rates: of runs that arrive at a rate, and those of two sizes of batches.
fn list_rate_rows() -> [RateRow; 3] {
    let interval_s = (AGENTS * VALUES_PER_RUN) as f64 / ARRIVING_VALUES_PER_S;
    let arrivals = ArrivalSchedule::Every(Duration::from_secs_f64(interval_s));
    let at_once = |name, batch_runs| RateRow {
        name,
        runs: 100,
        arrivals: ArrivalSchedule::AtOnce { batch_runs },
        has_goal: false,
    };
    [
        RateRow { name: "rates, 60,000 values/s arrive", runs: 300, arrivals, has_goal: true },
        at_once("rates, batches of 10 runs", 10),
        at_once("rates, batches of 100 runs", 100),
    ]
}

/// Runs the rows whose name contains `only`; failures are drawn from `seeds` seeds.
pub fn run_all(longhaul: &Path, only: &str, seeds: u64) -> Result<BenchOutcome, String> {
    // Built with the workspace, reqwest has TLS and needs one, although all requests are plain HTTP. Fails
    // if the process has one.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let runtime = Runtime::new().map_err(|e| format!("no runtime: {e}"))?;
    let mut missed = Vec::new();
    let mut rates = MarkdownTable::new(
        format!("{AGENTS} agents, a collector and a database on one machine"),
        "row | runs | batches | MB as JSON | collector, runs/s | values/s | database, runs/s | values/s | \
         CPU ms per 1000 runs: agents, collector, database",
    );
    for row in list_rate_rows().iter().filter(|row| row.name.contains(only)) {
        let values = runtime.block_on(measure_rate(longhaul, row, &mut rates))?;
        if row.has_goal && values < MIN_VALUES_PER_S {
            let name = row.name;
            missed
                .push(format!("{name}: {values:.0} values/s, {MIN_VALUES_PER_S:.0} are the goal"));
        }
    }
    let mut failures = MarkdownTable::new(
        "Results after failures",
        "seed | collector killed | database killed | lines cut | requests that failed | runs sent | \
         runs lost | doubled | values lost or doubled | planned runs lost or doubled | \
         rows written again",
    );
    for seed in (1..=seeds).filter(|_| FAILURES.contains(only)) {
        missed.extend(runtime.block_on(judge_failures(longhaul, seed, &mut failures))?);
    }
    let mut views = MarkdownTable::new(
        "Views of a year of 1000 hosts",
        "view | answer, kB | median, ms | p95, ms",
    );
    if VIEWS.contains(only) {
        missed.extend(runtime.block_on(fleet_year::measure_views(longhaul, &mut views))?);
    }
    Ok(BenchOutcome::new(&[rates, failures, views], missed))
}

/// A collector in front of a database, both of which run.
struct TestFleet {
    collector: CollectorProcess,
    database: DatabaseProcess,
    database_line: CutLine,
    http: reqwest::Client,
    // Removed last.
    folder: ScratchFolder,
}

impl TestFleet {
    async fn start(longhaul: &Path) -> Result<TestFleet, String> {
        let folder = ScratchFolder::on_disk()?;
        let mut database = DatabaseProcess::prepare(&folder)?;
        database.start()?;
        let database_line = CutLine::listen().await?;
        database_line.lead_to(database.port);
        let section = format!("[database]\nurl = \"http://127.0.0.1:{}\"\n", database_line.port);
        let mut collector = CollectorProcess::prepare(longhaul, &folder, &section)?;
        collector.start()?;
        let http = reqwest::Client::new();
        Ok(TestFleet { collector, database, database_line, http, folder })
    }

    /// Returns the database's answer in its own format.
    async fn query(&self, sql: &str) -> Result<String, String> {
        let url = format!("http://127.0.0.1:{}/?database=longhaul", self.database.port);
        let answer = self.http.post(url).body(sql.to_owned()).send().await;
        let answer = answer.map_err(|e| e.to_string())?;
        let failed = !answer.status().is_success();
        let text = answer.text().await.map_err(|e| e.to_string())?;
        if failed { Err(text) } else { Ok(text.trim().to_owned()) }
    }

    async fn count(&self, sql: &str) -> Result<u64, String> {
        let text = self.query(sql).await?;
        text.parse().map_err(|_| format!("{sql}: {text}"))
    }

    /// Waits until the database has so many different runs.
    async fn wait_for_runs(&self, runs: usize) -> Result<(), String> {
        let deadline = Instant::now() + LIMIT;
        while (self.count("SELECT count() FROM report").await.unwrap_or(0) as usize) < runs
            || (self.count("SELECT uniqExact(id) FROM report").await? as usize) < runs
        {
            if Instant::now() > deadline {
                let log = std::fs::read_to_string(self.folder.path("hub.log"));
                return Err(format!("results are missing: {}", log.unwrap_or_default()));
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
        Ok(())
    }
}

/// Adds a row and returns the values per second that reach the database.
async fn measure_rate(
    longhaul: &Path,
    row: &RateRow,
    table: &mut MarkdownTable,
) -> Result<f64, String> {
    let agents = Arc::new(SimulatedAgents::prepare(row.runs)?);
    let fleet = TestFleet::start(longhaul).await?;
    agents.enrol_all(fleet.collector.port).await?;
    let count = AGENTS * row.runs;
    let cpu = || [read_cpu_s(std::process::id()), fleet.collector.cpu_s(), fleet.database.cpu_s()];
    let (cpu_before, begun) = (cpu(), Instant::now());
    let counts = Arc::clone(&agents).send_all(fleet.collector.port, row.arrivals).await?;
    let collected_s = begun.elapsed().as_secs_f64();
    fleet.wait_for_runs(count).await?;
    let stored_s = begun.elapsed().as_secs_f64();
    let used = cpu().into_iter().zip(cpu_before).map(|(after, before)| after - before);
    let used: Vec<String> = used.map(|s| format!("{:.0}", s * 1e6 / count as f64)).collect();
    let rate = |seconds: f64| count as f64 / seconds;
    let values = |seconds: f64| rate(seconds) * VALUES_PER_RUN as f64;
    table.row(vec![
        row.name.trim_start_matches("rates, ").to_owned(),
        count.to_string(),
        counts.batches.load(Ordering::Relaxed).to_string(),
        (agents.json_bytes / 1_000_000).to_string(),
        format!("{:.0}", rate(collected_s)),
        format!("{:.0}", values(collected_s)),
        format!("{:.0}", rate(stored_s)),
        format!("{:.0}", values(stored_s)),
        used.join(", "),
    ]);
    Ok(values(stored_s))
}

/// The number of failures by kind.
#[derive(Default)]
struct FailureCounts {
    collector: u32,
    database: u32,
    lines: u32,
}

/// Lets agents send while collector, database and lines fail at random, and compares what was sent
/// with what is stored.
async fn judge_failures(
    longhaul: &Path,
    seed: u64,
    table: &mut MarkdownTable,
) -> Result<Vec<String>, String> {
    let agents = Arc::new(SimulatedAgents::prepare(FAILURE_BATCHES * FAILURE_RUNS)?);
    let mut fleet = TestFleet::start(longhaul).await?;
    agents.enrol_all(fleet.collector.port).await?;
    let line = CutLine::listen().await?;
    line.lead_to(fleet.collector.port);
    let sending = tokio::spawn(
        Arc::clone(&agents)
            .send_all(line.port, ArrivalSchedule::AtOnce { batch_runs: FAILURE_RUNS }),
    );
    let mut random = SplitMix64::new(seed);
    let mut failed = FailureCounts::default();
    while !sending.is_finished() {
        wait_between(&mut random, 0.2, 2.0).await;
        fail_once(&mut fleet, &line, &mut random, &mut failed).await?;
    }
    let counts = sending.await.map_err(|e| e.to_string())??;
    let sent: HashSet<String> = (0..AGENTS)
        .flat_map(|agent| (0..FAILURE_BATCHES * FAILURE_RUNS).map(move |run| run_id(agent, run)))
        .collect();
    fleet.wait_for_runs(sent.len()).await?;
    let found = compare_results(&fleet, &sent).await?;
    add_failure_row(seed, &failed, &counts, sent.len(), &found, table);
    let refused = counts.refused.load(Ordering::Relaxed);
    let wrong = [found.lost, found.doubled, found.values, found.planned, refused];
    let sentence = format!("failures of seed {seed}: {found:?}, {refused} refused");
    Ok(if wrong == [0; 5] { Vec::new() } else { vec![sentence] })
}

async fn wait_between(random: &mut SplitMix64, low: f64, high: f64) {
    tokio::time::sleep(Duration::from_secs_f64(random.between(low, high))).await;
}

async fn fail_once(
    fleet: &mut TestFleet,
    agents_line: &CutLine,
    random: &mut SplitMix64,
    failed: &mut FailureCounts,
) -> Result<(), String> {
    match random.below(4) {
        0 => {
            failed.collector += 1;
            fleet.collector.kill();
            wait_between(random, 0.0, 1.0).await;
            fleet.collector.start()?;
        }
        1 => {
            failed.database += 1;
            fleet.database.kill();
            wait_between(random, 0.0, 1.0).await;
            fleet.database.start()?;
            fleet.database_line.lead_to(fleet.database.port);
        }
        kind => {
            failed.lines += 1;
            let (line, port) = match kind {
                2 => (agents_line, fleet.collector.port),
                _ => (&fleet.database_line, fleet.database.port),
            };
            line.cut();
            wait_between(random, 0.0, 1.0).await;
            line.lead_to(port);
        }
    }
    Ok(())
}

/// The differences between what was sent and what is stored.
#[derive(Debug, Default)]
struct StoredDifferences {
    lost: u64,
    doubled: u64,
    values: u64,
    planned: u64,
    /// Rows that more than one attempt wrote, which the engine merges.
    repeated_rows: u64,
}

async fn compare_results(
    fleet: &TestFleet,
    sent: &HashSet<String>,
) -> Result<StoredDifferences, String> {
    let mut found = StoredDifferences::default();
    let archive = Archive::open(&fleet.folder.path("hub.sqlite3")).map_err(|e| e.to_string())?;
    let collected = archive.runs(&RunFilter::newest(u32::MAX)).map_err(|e| e.to_string())?;
    let collected: Vec<String> = collected.into_iter().map(|run| run.id).collect();
    let mut lists = vec![collected];
    for sql in ["SELECT id FROM report FINAL", "SELECT id FROM run FINAL WHERE sender = ''"] {
        lists.push(fleet.query(sql).await?.lines().map(str::to_owned).collect());
    }
    for list in &lists {
        let ids: HashSet<&String> = list.iter().collect();
        let known = ids.iter().filter(|id| sent.contains(**id)).count();
        found.lost += (sent.len() - known) as u64;
        found.doubled += (list.len() - known) as u64;
    }
    let values = fleet.count("SELECT count() FROM value FINAL").await?;
    found.values = values.abs_diff((sent.len() * VALUES_PER_RUN) as u64);
    let planned = "SELECT count() FROM planned FINAL WHERE state = 2";
    found.planned = fleet.count(planned).await?.abs_diff(sent.len() as u64)
        + fleet.count("SELECT count() FROM planned FINAL WHERE state != 2").await?;
    found.repeated_rows = fleet.count("SELECT count() FROM value").await?.saturating_sub(values);
    Ok(found)
}

fn add_failure_row(
    seed: u64,
    failed: &FailureCounts,
    counts: &SendCounts,
    sent: usize,
    found: &StoredDifferences,
    table: &mut MarkdownTable,
) {
    let cells: [u64; 11] = [
        seed,
        failed.collector.into(),
        failed.database.into(),
        failed.lines.into(),
        counts.failed.load(Ordering::Relaxed),
        sent as u64,
        found.lost,
        found.doubled,
        found.values,
        found.planned,
        found.repeated_rows,
    ];
    table.row(cells.iter().map(u64::to_string).collect());
}
