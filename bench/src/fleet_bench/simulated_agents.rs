//! Agents that send the results of a virtual time, as many as wait, over HTTP.
//!
//! A result is the report of a latency run of 30 packets, as `longhaul latency` stores it, with its
//! planned run. Each report gives [`VALUES_PER_RUN`] values to series. Batches are made and compressed
//! before they are sent.

use super::fleet_processes::ENROL_TOKEN;
use flate2::Compression;
use flate2::write::GzEncoder;
use longhaul_model::splitmix::SplitMix64;
use reqwest::{Client, RequestBuilder, StatusCode};
use ring::digest;
use serde_json::{Value, json};
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

pub const AGENTS: usize = 1000;
/// The peers of each agent, which it measures in turn.
const PEERS: usize = 10;
pub const VALUES_PER_RUN: usize = 9;
const REPORT: &str = include_str!("../../../fixtures/reports/latency-asymmetric.json");
const FIXTURE_ID: &str = "20261128T053655Z-6d0026";
const FIXTURE_TIME: &str = "2026-11-28T05:36:55Z";
/// 2026-11-01 00:00 UTC.
const FIRST_DAY_US: i64 = 1_793_491_200_000_000;
/// The time between two runs of an agent.
const RUN_INTERVAL_S: usize = 60;
/// The agents that send at one moment.
const SENDING: usize = 64;
const TIMEOUT: Duration = Duration::from_secs(60);

/// Agents with the batches that they have to send.
pub struct SimulatedAgents {
    http: Client,
    batches: Vec<Vec<Vec<u8>>>,
    /// Their bytes before compression.
    pub json_bytes: usize,
}

/// The figures of a delivery.
#[derive(Debug, Default)]
pub struct SendCounts {
    /// Requests without an answer, or with another answer than 200.
    pub failed: AtomicU64,
    pub refused: AtomicU64,
}

fn agent_name(agent: usize) -> String {
    format!("dtn{agent:03}")
}

/// Returns the id of a run.
pub fn run_id(agent: usize, run: usize) -> String {
    format!("20261101T{run:06}Z-{agent:06x}")
}

/// The token that an agent made itself.
fn agent_token(agent: usize) -> String {
    format!("token-of-{agent:08}-0123456789abcdef")
}

fn now_us() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
}

/// Draws the microseconds of all nanoseconds in a report, because equal reports would compress too
/// well. Leaves id and time as they are.
fn vary_digits(report: &str, random: &mut SplitMix64) -> String {
    let mut varied = String::with_capacity(report.len());
    let mut rest = report;
    while let Some((before, after)) = rest.split_once("_ns\":") {
        let digits = after.bytes().take_while(u8::is_ascii_digit).count();
        let kept = digits.saturating_sub(4);
        varied.extend([before, "_ns\":", &after[..kept]]);
        // The first drawn digit is not 0, so that the number has no leading zero.
        (kept..digits).for_each(|_| varied.push_str(&(1 + random.below(9)).to_string()));
        rest = &after[digits..];
    }
    varied + rest
}

/// Returns the items of a run: its report and its planned run.
fn build_items(agent: usize, run: usize) -> [Value; 2] {
    let (name, id) = (agent_name(agent), run_id(agent, run));
    let peer = agent_name((agent + 1 + run % PEERS) % AGENTS);
    let second = run * RUN_INTERVAL_S;
    let (day, minute) = (1 + second / 86_400, second / 60 % 1440);
    let at = format!("2026-11-{day:02}T{:02}:{:02}:{:02}Z", minute / 60, minute % 60, second % 60);
    let report = vary_digits(REPORT.trim_end(), &mut SplitMix64::new((agent << 32 | run) as u64))
        .replace(FIXTURE_ID, &id)
        .replace(FIXTURE_TIME, &at)
        .replace("\"host\":\"near\"", &format!("\"host\":\"{name}\""))
        .replace("\"host\":\"far\"", &format!("\"host\":\"{peer}\""));
    let pair = json!({ "from": name, "to": peer });
    let due_us = FIRST_DAY_US + second as i64 * 1_000_000;
    let planned = json!({ "id": format!("{name}-1-{run}"), "due_us": due_us,
        "measurement": "latency", "pair": pair, "run": id });
    [
        json!({ "place": 2 * run, "run": { "pairs": [pair], "report": report } }),
        json!({ "place": 2 * run + 1, "planned": planned }),
    ]
}

fn compress_batch(text: &str) -> Vec<u8> {
    let mut packer = GzEncoder::new(Vec::new(), Compression::fast());
    // Writing to memory does not fail.
    let _ = packer.write_all(text.as_bytes());
    packer.finish().unwrap_or_default()
}

impl SimulatedAgents {
    /// Makes all batches: `batches` of `runs` results for each agent, of which the first has the number
    /// `from`.
    pub fn prepare(from: usize, batches: usize, runs: usize) -> Result<SimulatedAgents, String> {
        let http = Client::builder().timeout(TIMEOUT).build().map_err(|e| e.to_string())?;
        let mut agents = SimulatedAgents { http, batches: Vec::new(), json_bytes: 0 };
        for agent in 0..AGENTS {
            let batch = |batch: usize| {
                let first = from + batch * runs;
                let items: Vec<Value> =
                    (first..first + runs).flat_map(|run| build_items(agent, run)).collect();
                let name = agent_name(agent);
                json!({ "schema": "longhaul.batch/1", "agent": name, "sent_us": now_us(),
                    "items": items })
                .to_string()
            };
            let texts: Vec<String> = (0..batches).map(batch).collect();
            agents.json_bytes += texts.iter().map(String::len).sum::<usize>();
            agents.batches.push(texts.iter().map(|text| compress_batch(text)).collect());
        }
        Ok(agents)
    }

    /// Makes the tokens of all agents known to the collector.
    pub async fn enrol_all(&self, port: u16) -> Result<(), String> {
        for agent in 0..AGENTS {
            let hash = digest::digest(&digest::SHA256, agent_token(agent).as_bytes());
            let hex =
                hash.as_ref().iter().fold(String::new(), |hex, byte| format!("{hex}{byte:02x}"));
            let body = json!({ "agent": agent_name(agent), "token_sha256": hex }).to_string();
            let request = self.post(port, "enrol", ENROL_TOKEN).body(body);
            let answer = request.send().await.map_err(|e| e.to_string())?;
            if answer.status() != StatusCode::OK {
                let status = answer.status();
                return Err(format!("{status}: {}", answer.text().await.unwrap_or_default()));
            }
        }
        Ok(())
    }

    fn post(&self, port: u16, path: &str, token: &str) -> RequestBuilder {
        let url = format!("http://127.0.0.1:{port}/api/v1/{path}");
        self.http.post(url).bearer_auth(token).header("Content-Type", "application/json")
    }

    /// Sends every batch of every agent until the collector has acknowledged it. An agent that
    /// failed tries again after up to two seconds.
    pub async fn send_all(self: Arc<Self>, port: u16) -> Result<Arc<SendCounts>, String> {
        let (gate, counts) = (Arc::new(Semaphore::new(SENDING)), Arc::new(SendCounts::default()));
        let mut tasks = JoinSet::new();
        for agent in 0..self.batches.len() {
            let (fleet, gate, counts) = (Arc::clone(&self), Arc::clone(&gate), Arc::clone(&counts));
            tasks.spawn(async move { fleet.send_batches_of(agent, port, &gate, &counts).await });
        }
        while let Some(ended) = tasks.join_next().await {
            ended.map_err(|e| e.to_string())??;
        }
        Ok(counts)
    }

    async fn send_batches_of(
        &self,
        agent: usize,
        port: u16,
        gate: &Semaphore,
        counts: &SendCounts,
    ) -> Result<(), String> {
        let mut random = SplitMix64::new(agent as u64);
        for batch in &self.batches[agent] {
            loop {
                let place = gate.acquire().await.map_err(|e| e.to_string())?;
                let request = self.post(port, "batches", &agent_token(agent));
                let request = request.header("Content-Encoding", "gzip").body(batch.clone());
                let answer = match request.send().await {
                    Ok(answer) if answer.status() == StatusCode::OK => answer.text().await.ok(),
                    Ok(answer) if answer.status().is_client_error() => {
                        let status = answer.status();
                        return Err(format!(
                            "{status}: {}",
                            answer.text().await.unwrap_or_default()
                        ));
                    }
                    _ => None,
                };
                drop(place);
                if let Some(text) = answer {
                    let answer: Value = serde_json::from_str(&text).map_err(|e| e.to_string())?;
                    let refused = answer["refused"].as_array().map_or(1, Vec::len);
                    counts.refused.fetch_add(refused as u64, Ordering::Relaxed);
                    break;
                }
                counts.failed.fetch_add(1, Ordering::Relaxed);
                tokio::time::sleep(Duration::from_secs_f64(random.between(0.5, 2.0))).await;
            }
        }
        Ok(())
    }
}
