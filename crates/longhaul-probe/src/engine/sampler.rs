//! Samples every stream's counters, clocks, queue and TCP_INFO, and the cores, at even intervals.
//!
//! The sampler has its own thread. It reads the time together with the values, so that late samples
//! carry their true time.

use super::SampleSeries;
use super::end_run::{EngineShared, StreamState};
use super::read_stream;
use longhaul_model::report::v1::observation::{CoreUsage, StreamSample};
use longhaul_sys::host::{self, CoreTimes};
use std::time::{Duration, Instant};

/// `/proc/stat` counts in 10 ms ticks: shorter spans say nothing about a core's load.
const CORES_SPACING: Duration = Duration::from_millis(100);

/// Samples until the run ends; must be called after `go`.
pub(super) fn run(shared: &EngineShared) -> (SampleSeries, Vec<CoreUsage>) {
    let mut series = SampleSeries::new(shared.streams.len(), shared.sample_spacing());
    let mut load = CoreLoad::begin();
    let mut due = Instant::now();
    loop {
        take_samples(shared, &mut series);
        load.observe(CORES_SPACING);
        // After a late sample, the next one keeps its distance: two close samples add nothing.
        due = (due + series.spacing()).max(Instant::now() + series.spacing() / 2);
        request_readings(shared, due, series.spacing());
        if shared.wait_finished_until(due) {
            break;
        }
    }
    take_samples(shared, &mut series);
    load.observe(Duration::from_millis(20));
    (series, load.usage)
}

/// Requests a reading of every stream shortly before `due`.
fn request_readings(shared: &EngineShared, due: Instant, spacing: Duration) {
    let left = due.saturating_duration_since(Instant::now());
    let left = left.saturating_sub(super::SAMPLE_LEAD.min(spacing / 4));
    let at_ns = shared.clock().now_ns() + left.as_nanos() as u64;
    shared.streams.iter().for_each(|it| it.sample_request.request(at_ns));
}

/// Takes one sample of every stream.
pub(super) fn take_samples(shared: &EngineShared, series: &mut SampleSeries) {
    let streams = shared.streams.iter();
    series.push(streams.map(|stream| sample_stream(shared, stream)));
}

fn sample_stream(shared: &EngineShared, stream: &StreamState) -> StreamSample {
    let answer = stream.sample_request.take_reading();
    // A stream that has ended has moved more bytes since its reading.
    let answer = answer.filter(|_| stream.counters.is_running());
    let mut reading = answer.unwrap_or_else(|| read_stream(shared, stream));
    (reading.cpu_us, reading.core_wait_us) = stream.counters.thread_times_us();
    if let Some(tcp) = &reading.tcp {
        *stream.latest.lock() = Some(tcp.clone());
    }
    reading
}

/// The load of each core since the start, and its maximum.
struct CoreLoad {
    read_at: Instant,
    last: Vec<CoreTimes>,
    usage: Vec<CoreUsage>,
}

impl CoreLoad {
    fn begin() -> CoreLoad {
        let last = host::read_core_times().unwrap_or_default();
        let core = |times: &CoreTimes| CoreUsage { index: times.index, ..CoreUsage::default() };
        CoreLoad { read_at: Instant::now(), usage: last.iter().map(core).collect(), last }
    }

    /// Reads the cores if the last reading is at least `spacing` old.
    fn observe(&mut self, spacing: Duration) {
        let elapsed = self.read_at.elapsed();
        if elapsed < spacing {
            return;
        }
        let now = host::read_core_times().unwrap_or_default();
        self.read_at = Instant::now();
        let micros = |new: Duration, old: Duration| new.saturating_sub(old).as_micros() as u64;
        for ((new, old), usage) in now.iter().zip(&self.last).zip(&mut self.usage) {
            let busy_us = micros(new.busy, old.busy);
            let elapsed_us = elapsed.as_micros() as u64;
            usage.elapsed_us += elapsed_us;
            usage.busy_us += busy_us;
            usage.softirq_us += micros(new.softirq, old.softirq);
            usage.steal_us += micros(new.steal, old.steal);
            let permille = (busy_us * 1000).checked_div(elapsed_us).unwrap_or(0).min(1000) as u32;
            usage.busiest_permille = usage.busiest_permille.max(Some(permille));
        }
        self.last = now;
    }
}
