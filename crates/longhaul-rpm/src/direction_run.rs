//! The load and the probes of one direction (draft, section 5).

use crate::http_connection::{HttpConnection, HttpEndpoint};
use crate::rpm_config::RpmConfig;
use longhaul_model::report::v1::load::{ForeignProbe, LoadPlan, ResponsivenessRun, SelfProbe};
use longhaul_model::splitmix::SplitMix64;
use longhaul_sys::tcp_info::read_tcp_info;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use tokio::task::{JoinError, JoinSet};
use tokio::time::{Instant, interval_at, sleep_until};

/// The maximum share of the capacity that probes take (PTC).
const PROBE_SHARE: f64 = 0.05;
/// The time between two pairs of probes before the capacity is known, and the longest one.
const FIRST_GAP: Duration = Duration::from_millis(200);
const LONGEST_GAP: Duration = Duration::from_secs(1);
/// The maximum time of a request of a probe.
const PROBE_TIME: Duration = Duration::from_secs(10);
/// The maximum length of the small object.
const MAX_SMALL_BYTES: usize = 1024;
/// The maximum number of probes and connections in progress.
const MAX_TASKS: usize = 256;

/// A direction, to be run.
pub struct DirectionTest<'a> {
    pub endpoint: &'a HttpEndpoint,
    pub config: &'a RpmConfig,
    pub is_upload: bool,
    pub plan: &'a LoadPlan,
    pub stop: &'a AtomicBool,
}

/// The end of a task of a direction.
enum TaskOutcome {
    Opened(Result<HttpConnection, String>),
    /// The load of a connection ended, for this reason.
    LoadEnded(String),
    Foreign(Result<ForeignProbe, String>),
    Own(Result<SelfProbe, String>),
}

/// A direction in progress.
struct DirectionState<'a> {
    test: DirectionTest<'a>,
    run: ResponsivenessRun,
    began: Instant,
    connections: Vec<HttpConnection>,
    received: Arc<AtomicU64>,
    /// The bytes of all finished intervals.
    counted_bytes: u64,
    tasks: JoinSet<TaskOutcome>,
    random: SplitMix64,
    /// The time between two probes of the same kind.
    gap: Duration,
    is_foreign_next: bool,
    is_opening: bool,
}

impl DirectionTest<'_> {
    /// Runs until `judge`, which is called after each interval, says that the direction is over, or
    /// its time has passed, or a connection fails.
    pub async fn run(self, judge: &mut dyn FnMut(&ResponsivenessRun) -> bool) -> ResponsivenessRun {
        let state = DirectionState {
            run: ResponsivenessRun::default(),
            began: Instant::now(),
            connections: Vec::new(),
            received: Arc::default(),
            counted_bytes: 0,
            tasks: JoinSet::new(),
            random: SplitMix64::new(1),
            gap: FIRST_GAP,
            is_foreign_next: true,
            is_opening: false,
            test: self,
        };
        state.run(judge).await
    }
}

impl DirectionState<'_> {
    async fn run(mut self, judge: &mut dyn FnMut(&ResponsivenessRun) -> bool) -> ResponsivenessRun {
        let plan = self.test.plan;
        let most = plan.responsiveness.as_ref().map_or(1, |it| it.connections as usize);
        let interval_us = plan.responsiveness.as_ref().map_or(1, |it| it.interval_us.max(1));
        let interval = Duration::from_micros(interval_us);
        let mut ticks = interval_at(self.began + interval, interval);
        let mut next_probe = self.began;
        self.open_connection();
        while !self.test.stop.load(Ordering::Relaxed) && self.run.error.is_none() {
            tokio::select! {
                _ = ticks.tick() => {
                    self.finish_interval(interval);
                    let elapsed_us = self.run.interval_bytes.len() as u64 * interval_us;
                    if judge(&self.run) || elapsed_us >= plan.load_us {
                        break;
                    }
                    if self.connections.len() < most && !self.is_opening {
                        self.open_connection();
                    }
                }
                () = sleep_until(next_probe) => {
                    self.launch_probe();
                    next_probe = Instant::now() + self.gap / 2;
                }
                Some(ended) = self.tasks.join_next() => self.take_outcome(ended),
            }
        }
        self.run.connections = self.connections.len() as u32;
        self.run
    }

    fn open_connection(&mut self) {
        self.is_opening = true;
        let endpoint = self.test.endpoint.clone();
        self.tasks.spawn(async move { TaskOutcome::Opened(endpoint.open().await) });
    }

    /// Starts a probe; the two kinds alternate.
    fn launch_probe(&mut self) {
        if self.tasks.len() >= MAX_TASKS {
            return;
        }
        let is_foreign = self.is_foreign_next;
        self.is_foreign_next = !is_foreign;
        let began = self.began;
        let small = self.test.config.small.clone();
        if is_foreign {
            let endpoint = self.test.endpoint.clone();
            self.tasks.spawn(async move {
                let probe = async {
                    let connection = endpoint.open().await?;
                    let (_, time) = connection.get(&small, MAX_SMALL_BYTES, PROBE_TIME).await?;
                    Ok(ForeignProbe {
                        ended_us: began.elapsed().as_micros() as u64,
                        tcp_us: connection.tcp_time.as_micros() as u64,
                        tls_us: connection.tls_time.as_micros() as u64,
                        http_us: time.as_micros() as u64,
                    })
                };
                TaskOutcome::Foreign(probe.await)
            });
        } else if !self.connections.is_empty() {
            let place = self.random.next_u64() as usize % self.connections.len();
            let request = self.connections[place].get(&small, MAX_SMALL_BYTES, PROBE_TIME);
            self.tasks.spawn(async move {
                TaskOutcome::Own(request.await.map(|(_, time)| SelfProbe {
                    ended_us: began.elapsed().as_micros() as u64,
                    http_us: time.as_micros() as u64,
                }))
            });
        }
    }

    fn take_outcome(&mut self, ended: Result<TaskOutcome, JoinError>) {
        match ended {
            Ok(TaskOutcome::Foreign(Ok(probe))) => self.run.foreign_probes.push(probe),
            Ok(TaskOutcome::Own(Ok(probe))) => self.run.self_probes.push(probe),
            Ok(TaskOutcome::Foreign(Err(_)) | TaskOutcome::Own(Err(_))) => {
                self.run.failed_probes += 1;
            }
            Ok(TaskOutcome::Opened(Ok(connection))) => self.begin_load(connection),
            // A server may allow fewer connections than the plan.
            Ok(TaskOutcome::Opened(Err(_))) if !self.connections.is_empty() => {}
            Ok(TaskOutcome::Opened(Err(why)) | TaskOutcome::LoadEnded(why)) => {
                self.run.error = Some(why);
            }
            Err(error) => self.run.error = Some(error.to_string()),
        }
    }

    fn begin_load(&mut self, connection: HttpConnection) {
        self.is_opening = false;
        if self.test.is_upload {
            let load = connection.upload(&self.test.config.upload);
            self.tasks.spawn(async move { TaskOutcome::LoadEnded(load.await) });
        } else {
            let load = connection.download(&self.test.config.large, Arc::clone(&self.received));
            self.tasks.spawn(async move { TaskOutcome::LoadEnded(load.await) });
        }
        self.connections.push(connection);
    }

    /// Counts the bytes of an interval and adapts the rate of the probes to them.
    fn finish_interval(&mut self, interval: Duration) {
        let total = if self.test.is_upload {
            let infos = self.connections.iter().filter_map(|it| read_tcp_info(&it.tcp).ok());
            infos.filter_map(|info| info.reading.bytes_acked).sum()
        } else {
            self.received.load(Ordering::Relaxed)
        };
        let bytes = total.saturating_sub(self.counted_bytes);
        self.counted_bytes = total;
        self.run.interval_bytes.push(bytes);
        let shortest = Duration::from_micros(self.test.plan.probe_interval_us);
        let pair_bytes = f64::from(self.test.plan.probe_bytes);
        let gap = interval.as_secs_f64() * pair_bytes / (PROBE_SHARE * bytes.max(1) as f64);
        self.gap = Duration::from_secs_f64(gap.min(LONGEST_GAP.as_secs_f64())).max(shortest);
    }
}
