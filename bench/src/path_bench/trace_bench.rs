//! Routes of the longest path and of one with load balancers, compared with mtr.

use super::path_site::{PathSite, PathTestbed};
use crate::BenchOutcome;
use crate::markdown_table::MarkdownTable;
use serde_json::Value;
use std::time::{Duration, Instant};
use xtask::program_runner;

const LIMIT: Duration = Duration::from_secs(90);
/// Includes setting up the path of 43 hops, whose silent hops time out in parallel.
const MAX_SECONDS: u64 = 60;
const FAR: &str = "10.77.0.2";

/// A tracer and its result: an address for each TTL, `None` without an answer.
struct TracerResult {
    tool: String,
    path: &'static str,
    addresses: Vec<Option<String>>,
    seconds: f64,
}

pub fn judge_traces(ground: &PathTestbed) -> BenchOutcome {
    let columns = "path | tracer | hops | answering | wrong | time, s";
    let mut table = MarkdownTable::new("Routes on emulated paths", columns);
    let mut missed = Vec::new();
    for path in ["sanjose-lulea", "slac-sdsc"] {
        let site = PathSite { path: path.to_owned(), ..PathSite::default() };
        let mut all = Vec::new();
        for protocol in ["--icmp", "--udp", "--tcp"] {
            match run_longhaul(ground, &site, path, protocol) {
                Ok(traced) => all.push(traced),
                Err(why) => missed.push(format!("{path} {protocol}: {why}")),
            }
        }
        all.extend(run_mtr(ground, &site, path));
        missed.extend(check_gates(path, &all));
        for it in &all {
            table.row(format_row(it));
        }
    }
    BenchOutcome::new(&[table], missed)
}

fn run_longhaul(
    ground: &PathTestbed,
    site: &PathSite,
    path: &'static str,
    protocol: &str,
) -> Result<TracerResult, String> {
    let words = format!("path far {protocol} --no-mtu --no-reverse --no-names -c 3");
    let began = Instant::now();
    let seen = ground.run_reports(site, &words, 1, LIMIT)?;
    let hops = seen.reports[0]["observation"]["route"]["hops"].as_array();
    let hops = hops.ok_or("no route in the report")?;
    let address = |hop: &Value| hop["answers"][0]["address"].as_str().map(str::to_owned);
    Ok(TracerResult {
        tool: format!("longhaul {protocol}"),
        path,
        addresses: hops.iter().map(address).collect(),
        seconds: began.elapsed().as_secs_f64(),
    })
}

/// Runs mtr if it is installed.
fn run_mtr(ground: &PathTestbed, site: &PathSite, path: &'static str) -> Option<TracerResult> {
    program_runner::find_program("mtr")?;
    let began = Instant::now();
    let words = ["mtr", "-n", "-j", "-c", "1", "-m", "64", FAR];
    let text = ground.stdout_of(site, &words, LIMIT).ok()?;
    Some(TracerResult {
        tool: "mtr".to_owned(),
        path,
        addresses: read_mtr(&text)?,
        seconds: began.elapsed().as_secs_f64(),
    })
}

fn read_mtr(text: &str) -> Option<Vec<Option<String>>> {
    let report: Value = serde_json::from_str(text).ok()?;
    let hubs = report["report"]["hubs"].as_array()?;
    let address =
        |hub: &Value| hub["host"].as_str().filter(|host| *host != "???").map(str::to_owned);
    Some(hubs.iter().map(address).collect())
}

/// Reports whether it is the router at a TTL of the first route, or the far host; see the lab's
/// addresses.
fn is_right(address: &str, ttl: usize, last: usize) -> bool {
    if ttl == last { address == FAR } else { address == format!("10.77.1.{ttl}") }
}

fn count_wrong(traced: &TracerResult) -> usize {
    let last = traced.addresses.len();
    let addresses = traced.addresses.iter().enumerate();
    addresses
        .filter(|(k, address)| address.as_ref().is_some_and(|it| !is_right(it, k + 1, last)))
        .count()
}

fn count_answering(traced: &TracerResult) -> usize {
    traced.addresses.iter().flatten().count()
}

fn check_gates(path: &str, all: &[TracerResult]) -> Vec<String> {
    let hops = if path == "sanjose-lulea" { 43 } else { 6 };
    let mut missed = Vec::new();
    let is_ours = |it: &&TracerResult| it.tool.starts_with("longhaul");
    let best = all.iter().map(count_answering).max().unwrap_or(0);
    for it in all.iter().filter(is_ours) {
        let (tool, found) = (&it.tool, it.addresses.len());
        if found != hops || count_wrong(it) > 0 {
            missed.push(format!("{path}, {tool}: {found} hops, {} of them wrong", count_wrong(it)));
        }
        if count_answering(it) < best {
            missed.push(format!("{path}, {tool}: {} hops answer; {best} do", count_answering(it)));
        }
        if it.seconds > MAX_SECONDS as f64 {
            missed.push(format!("{path}, {tool}: took {:.0} s", it.seconds));
        }
    }
    missed
}

fn format_row(it: &TracerResult) -> Vec<String> {
    vec![
        it.path.to_owned(),
        it.tool.clone(),
        it.addresses.len().to_string(),
        count_answering(it).to_string(),
        count_wrong(it).to_string(),
        format!("{:.1}", it.seconds),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_route_of_mtr_is_read() {
        let mtr = r#"{"report": {"hubs": [{"count": 1, "host": "10.77.1.1"}, {"count": 2, "host": "???"}]}}"#;
        assert_eq!(read_mtr(mtr), Some(vec![Some("10.77.1.1".to_owned()), None]));
        assert_eq!(read_mtr("none"), None);
    }
}
