//! Agents that send the results of a virtual time, as many as wait, over HTTP.
//!
//! A result is the report of a latency run of 30 packets, as `longhaul latency` stores it, with its
//! planned run. Each report gives [`VALUES_PER_RUN`] values to series. Runs are made and compressed
//! before they are sent; a batch only joins them.

use super::fleet_processes::ENROL_TOKEN;
use flate2::{Compress, Compression, Crc, FlushCompress};
use longhaul_model::splitmix::SplitMix64;
use reqwest::{Client, RequestBuilder, StatusCode};
use ring::digest;
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
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

/// The most runs that an agent puts into one batch, each with its planned run.
const MAX_BATCH_RUNS: usize = 250;
/// The time after which an agent without runs looks again.
const EMPTY_POLL: Duration = Duration::from_secs(1);
/// A header of gzip without name and time (RFC 1952).
const GZIP_HEADER: [u8; 10] = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff];

/// The times at which agents have runs to send.
#[derive(Debug, Clone, Copy)]
pub enum ArrivalSchedule {
    /// All are there at once, and are sent in batches of so many.
    AtOnce { batch_runs: usize },
    /// Each agent gets one in this interval, and sends those that it has.
    Every(Duration),
}

/// Agents with the runs that they have to send.
pub struct SimulatedAgents {
    http: Client,
    runs: Vec<Vec<DeflatedText>>,
    /// Their bytes before compression.
    pub json_bytes: usize,
}

/// The figures of a delivery.
#[derive(Debug, Default)]
pub struct SendCounts {
    pub batches: AtomicU64,
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

/// A part of a text as blocks of DEFLATE that end at a byte, so that others can follow (RFC 1951).
struct DeflatedText {
    blocks: Vec<u8>,
    checksum: Crc,
}

fn deflate_text(text: &str, flush: FlushCompress) -> DeflatedText {
    let mut checksum = Crc::new();
    checksum.update(text.as_bytes());
    let mut blocks = Vec::with_capacity(text.len() + 64);
    // With room for all, deflating does not fail.
    let _ =
        Compress::new(Compression::fast(), false).compress_vec(text.as_bytes(), &mut blocks, flush);
    blocks.shrink_to_fit();
    DeflatedText { blocks, checksum }
}

/// Joins the runs of a batch.
fn build_batch(agent: usize, runs: &[DeflatedText]) -> Vec<u8> {
    let name = agent_name(agent);
    let head = format!(
        "{{\"schema\":\"longhaul.batch/1\",\"agent\":\"{name}\",\"sent_us\":{},\"items\":[",
        now_us()
    );
    let head = deflate_text(&head, FlushCompress::Full);
    let comma = deflate_text(",", FlushCompress::Full);
    let tail = deflate_text("]}", FlushCompress::Finish);
    let mut parts = vec![&head];
    for run in runs {
        parts.extend([run, &comma]);
    }
    parts.pop();
    parts.push(&tail);
    let (mut body, mut checksum) = (GZIP_HEADER.to_vec(), Crc::new());
    for part in parts {
        body.extend(&part.blocks);
        checksum.combine(&part.checksum);
    }
    body.extend(checksum.sum().to_le_bytes());
    body.extend(checksum.amount().to_le_bytes());
    body
}

impl SimulatedAgents {
    /// Makes `runs` results for each agent.
    pub fn prepare(runs: usize) -> Result<SimulatedAgents, String> {
        let http = Client::builder().timeout(TIMEOUT).build().map_err(|e| e.to_string())?;
        let mut agents = SimulatedAgents { http, runs: Vec::new(), json_bytes: 0 };
        for agent in 0..AGENTS {
            let text = |run| build_items(agent, run).map(|item| item.to_string()).join(",");
            let texts = (0..runs).map(text).inspect(|text| agents.json_bytes += text.len());
            let deflated = texts.map(|text| deflate_text(&text, FlushCompress::Full)).collect();
            agents.runs.push(deflated);
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

    /// Sends every run of every agent until the collector has acknowledged it. An agent that failed
    /// tries again after up to two seconds.
    pub async fn send_all(
        self: Arc<Self>,
        port: u16,
        arrivals: ArrivalSchedule,
    ) -> Result<Arc<SendCounts>, String> {
        let (gate, counts) = (Arc::new(Semaphore::new(SENDING)), Arc::new(SendCounts::default()));
        let mut tasks = JoinSet::new();
        for agent in 0..self.runs.len() {
            let (fleet, gate, counts) = (Arc::clone(&self), Arc::clone(&gate), Arc::clone(&counts));
            tasks.spawn(
                async move { fleet.send_runs_of(agent, port, arrivals, &gate, &counts).await },
            );
        }
        while let Some(ended) = tasks.join_next().await {
            ended.map_err(|e| e.to_string())??;
        }
        Ok(counts)
    }

    async fn send_runs_of(
        &self,
        agent: usize,
        port: u16,
        arrivals: ArrivalSchedule,
        gate: &Semaphore,
        counts: &SendCounts,
    ) -> Result<(), String> {
        let (mut random, begun) = (SplitMix64::new(agent as u64), Instant::now());
        let runs = &self.runs[agent];
        let mut sent = 0;
        while sent < runs.len() {
            let place = gate.acquire().await.map_err(|e| e.to_string())?;
            let ready = arrivals.count_ready(agent, sent, begun.elapsed()).min(runs.len());
            if ready <= sent {
                drop(place);
                tokio::time::sleep(EMPTY_POLL).await;
                continue;
            }
            let refused = self.send_batch(agent, &runs[sent..ready], port).await?;
            drop(place);
            if let Some(refused) = refused {
                counts.batches.fetch_add(1, Ordering::Relaxed);
                counts.refused.fetch_add(refused, Ordering::Relaxed);
                sent = ready;
            } else {
                counts.failed.fetch_add(1, Ordering::Relaxed);
                tokio::time::sleep(Duration::from_secs_f64(random.between(0.5, 2.0))).await;
            }
        }
        Ok(())
    }

    /// Sends a batch. Returns the number of refused items; `None` without an answer that counts.
    async fn send_batch(
        &self,
        agent: usize,
        runs: &[DeflatedText],
        port: u16,
    ) -> Result<Option<u64>, String> {
        let request = self.post(port, "batches", &agent_token(agent));
        let request = request.header("Content-Encoding", "gzip").body(build_batch(agent, runs));
        let Ok(answer) = request.send().await else { return Ok(None) };
        let status = answer.status();
        let Ok(text) = answer.text().await else { return Ok(None) };
        if status.is_client_error() {
            return Err(format!("{status}: {text}"));
        }
        if status != StatusCode::OK {
            return Ok(None);
        }
        let answer: Value = serde_json::from_str(&text).map_err(|e| e.to_string())?;
        Ok(Some(answer["refused"].as_array().map_or(1, Vec::len) as u64))
    }
}

impl ArrivalSchedule {
    /// Returns the number of runs that an agent may have sent after its next batch.
    fn count_ready(self, agent: usize, sent: usize, elapsed: Duration) -> usize {
        match self {
            ArrivalSchedule::AtOnce { batch_runs } => sent + batch_runs,
            ArrivalSchedule::Every(interval) => {
                let offset = agent as f64 / AGENTS as f64;
                let arrived = elapsed.as_secs_f64() / interval.as_secs_f64() + offset;
                (arrived as usize).min(sent + MAX_BATCH_RUNS)
            }
        }
    }
}
