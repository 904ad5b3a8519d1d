//! A year of a fleet in the archive of a collector, and the requests of its page.
//!
//! [`fleet_year.sql`](../../src/fleet_bench/fleet_year.sql) says what the year has. Requests are drawn
//! from a seed and sent one at a time.

use super::fleet_processes::CollectorProcess;
use crate::markdown_table::MarkdownTable;
use crate::scratch_folder::ScratchFolder;
use longhaul_analysis::stats::{quantile, sort_finite};
use longhaul_model::splitmix::SplitMix64;
use longhaul_store::Archive;
use rusqlite::Connection;
use std::path::Path;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

const HOSTS: usize = 1000;
const PEERS: [usize; 5] = [1, 7, 49, 343, 401];
const YEAR: &str = include_str!("fleet_year.sql");
const REPORT: &str = include_str!("../../../fixtures/reports/latency-asymmetric.json");
const EVENTS: &str = include_str!("../../../web/fixtures/events.json");
/// The requests of a view, after one that is not counted.
const REQUESTS: usize = 40;
const MAX_P95_MS: f64 = 300.0;
const DAY_US: i64 = 86_400_000_000;

/// The numbers from which the requests of a view are drawn.
struct RequestDraw {
    random: SplitMix64,
    now_us: i64,
}

/// The name of a view and the function that draws a request of it.
type PageView = (&'static str, fn(&mut RequestDraw) -> String);

const VIEWS: [PageView; 22] = [
    ("agent", |_| "about".to_owned()),
    ("mesh, throughput", |_| "grid?quantity=goodput".to_owned()),
    ("mesh, loss", |_| "grid?quantity=loss".to_owned()),
    ("states of measurements", |_| "measurements".to_owned()),
    ("a year of throughput", |draw| draw.series("goodput", 365)),
    ("a year of the RTT floor", |draw| draw.series("rtt_floor", 365)),
    ("a month of throughput", |draw| draw.series("goodput", 30)),
    ("events", |_| "events".to_owned()),
    ("open events", |_| "events?open=true&limit=1000".to_owned()),
    ("events of a path, a year", |draw| format!("events?{}&{}", draw.pair(), draw.range(365))),
    ("runs", |_| "runs?limit=100".to_owned()),
    ("runs of a path", |draw| format!("runs?limit=100&{}&{}", draw.pair(), draw.range(365))),
    ("runs of a host", |draw| format!("runs?limit=100&host={}", draw.host())),
    ("runs of a site", |draw| format!("runs?limit=100&host=site-{:03}", draw.random.below(100))),
    ("runs of an unknown host", |_| "runs?limit=100&host=nowhere".to_owned()),
    ("runs of a kind without runs", |_| "runs?limit=100&kind=scan".to_owned()),
    ("planned runs, 7 days", |draw| format!("planned?{}", draw.range(7))),
    ("missed runs, 7 days", |draw| format!("planned?state=missed&{}", draw.range(7))),
    ("planned runs of a path", |draw| format!("planned?{}&{}", draw.pair(), draw.range(7))),
    ("hosts", |_| "hosts".to_owned()),
    ("bytes of transfers, 7 days", |draw| format!("transfers/daily?{}", draw.range(7))),
    // Outside of /api/v1.
    ("/metrics", |_| "../../metrics".to_owned()),
];

impl RequestDraw {
    fn host_of(number: usize) -> String {
        format!("host-{:04}.site-{:03}.example.org", number, number / 10)
    }

    fn host(&mut self) -> String {
        RequestDraw::host_of(self.random.below(HOSTS))
    }

    fn pair(&mut self) -> String {
        let near = self.random.below(HOSTS);
        let far = (near + PEERS[self.random.below(PEERS.len())]) % HOSTS;
        format!("from={}&to={}", RequestDraw::host_of(near), RequestDraw::host_of(far))
    }

    fn range(&self, days: i64) -> String {
        format!("begin_us={}&end_us={}", self.now_us - days * DAY_US, self.now_us)
    }

    fn series(&mut self, quantity: &str, days: i64) -> String {
        format!("series?quantity={quantity}&{}&{}", self.pair(), self.range(days))
    }
}

/// Writes the year, adds a row for each view, and returns the views that are too slow.
pub async fn measure_views(
    longhaul: &Path,
    table: &mut MarkdownTable,
) -> Result<Vec<String>, String> {
    let folder = ScratchFolder::on_disk()?;
    let mut collector = CollectorProcess::prepare(longhaul, &folder, "")?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_err(|e| e.to_string())?;
    write_year(&folder.path("hub.sqlite3"), now.as_secs() as i64 / 3600)?;
    collector.start()?;
    let http = reqwest::Client::new();
    let mut draw = RequestDraw { random: SplitMix64::new(1), now_us: now.as_micros() as i64 };
    let mut slow = Vec::new();
    for (name, draw_request) in VIEWS {
        let mut times = Vec::new();
        let mut bytes = 0;
        for _ in 0..=REQUESTS {
            let begun = Instant::now();
            bytes = ask(&http, collector.port, &draw_request(&mut draw)).await?;
            times.push(begun.elapsed().as_secs_f64() * 1e3);
        }
        let times = sort_finite(times.into_iter().skip(1));
        let at = |part| quantile(&times, part).unwrap_or(f64::NAN);
        let [median, p95] = [at(0.5), at(0.95)].map(|ms| format!("{ms:.1}"));
        table.row(vec![name.to_owned(), (bytes / 1000).to_string(), median, p95]);
        if at(0.95) >= MAX_P95_MS {
            slow.push(format!("{name}: {:.0} ms, {MAX_P95_MS:.0} are the goal", at(0.95)));
        }
    }
    Ok(slow)
}

/// Writes an archive with a year that ends with this hour since 1970.
fn write_year(archive: &Path, hour: i64) -> Result<(), String> {
    drop(Archive::open(archive).map_err(|e| e.to_string())?);
    let events: Vec<serde_json::Value> = serde_json::from_str(EVENTS).map_err(|e| e.to_string())?;
    let write = || -> rusqlite::Result<()> {
        let to = Connection::open(archive)?;
        // Nothing is lost if the bench fails.
        to.execute_batch("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF;")?;
        to.execute_batch(
            "CREATE TEMP TABLE given (present INTEGER, report TEXT, event_text TEXT)",
        )?;
        to.execute(
            "INSERT INTO given VALUES (?1, ?2, ?3)",
            (hour, REPORT.trim_end(), events[0].to_string()),
        )?;
        to.execute_batch(YEAR)
    };
    write().map_err(|e| format!("cannot write a year: {e}"))
}

/// Returns the number of bytes of the answer, compressed as for a browser.
async fn ask(http: &reqwest::Client, port: u16, request: &str) -> Result<usize, String> {
    let url = format!("http://127.0.0.1:{port}/api/v1/{request}");
    let answer = http.get(&url).header("accept-encoding", "gzip").send().await;
    let answer = answer.and_then(reqwest::Response::error_for_status);
    let bytes = answer.map_err(|e| e.to_string())?.bytes().await.map_err(|e| e.to_string())?;
    Ok(bytes.len())
}
