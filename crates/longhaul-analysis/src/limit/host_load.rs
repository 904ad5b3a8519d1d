//! Measures whether a host was too busy for its readings to be trusted.
//!
//! A thread that waits for a core reads and acknowledges late: the RTT rises as with a queue, windows
//! close, and buffers run dry, whatever the path does. The largest of three shares: of the intervals in
//! which a stream's thread waited for a core, of the time that the hypervisor took from a core, and of
//! the time that a core spent in software interrupts.
//!
//! Source: schedstat of the threads, /proc/stat of both hosts. Units: shares, 0 to 1.
//! Error: one interval; a core on which no stream ran may be the busiest.
//! Wrong when: the kernel counts none of these; the share is then 0.

use super::run_reading::RunView;
use super::stream_intervals::SampleInterval;

/// A stream thread waited for a core for this share of an interval.
const CROWDED_WAIT: f64 = 0.3;
/// A core that spends less of its time in software interrupts has room for threads.
const MIN_INTERRUPT_RATIO: f64 = 0.5;

/// Returns the share of the run in which a host was busy.
pub fn measure_busy_ratio(run: &RunView) -> f64 {
    let ends = &run.observation.ends;
    let cores = ends.sender.cores.iter().chain(&ends.receiver.cores);
    let busy = cores.map(|core| {
        let ratio = |us: u64| us as f64 / core.elapsed_us.max(1) as f64;
        let interrupts = ratio(core.softirq_us);
        ratio(core.steal_us).max(if interrupts < MIN_INTERRUPT_RATIO { 0.0 } else { interrupts })
    });
    busy.fold(measure_crowded_ratio(run), f64::max).min(1.0)
}

/// Returns the share of the intervals in which a stream's thread waited for a core.
pub fn measure_crowded_ratio(run: &RunView) -> f64 {
    let waits = |interval: &&SampleInterval| {
        let threads = [interval.sender.core_wait, interval.receiver.core_wait];
        threads.into_iter().flatten().any(|share| share >= CROWDED_WAIT)
    };
    let all = run.streams.iter().flatten().count();
    let crowded = run.streams.iter().flatten().filter(waits).count();
    crowded as f64 / all.max(1) as f64
}
