//! Round-trip times under load and without load.
//!
//! The kernel's smoothed RTT at each sample of the sender, weighted by the bytes the stream moved
//! in that time. Source: `tcpi_rtt`, `tcpi_min_rtt`. Units: microseconds.
//! Error: smoothing (1/8 per RTT) hides spikes. Wrong when: the queue never emptied in the run and
//! no idle round trip was timed; then the idle RTT is too high.

use crate::limit::run_view::RunView;
use longhaul_model::report::v1::analysis::LoadedRtt;
use longhaul_model::report::v1::observation::ThroughputObservation;

/// Returns the minimum RTT known: that of the idle control connection or the kernel's minimum.
pub fn find_idle_rtt_us(observation: &ThroughputObservation) -> Option<u64> {
    let samples = observation.streams.iter().flat_map(|s| &s.sender.samples);
    let kernel = samples.filter_map(|s| {
        let tcp = s.tcp.as_ref()?;
        tcp.rtt_min_us.or(Some(tcp.rtt_us)).filter(|us| *us > 0)
    });
    kernel.chain(observation.idle_rtt_us.filter(|us| *us > 0)).min()
}

/// Returns the RTTs of the judged part; `None` if none was read.
pub fn compute_loaded_rtt(run: &RunView) -> Option<LoadedRtt> {
    let readings: Vec<(f64, f64)> = run
        .judged_intervals()
        .filter_map(|i| Some((i.rtt_us? as f64, i.delivered_bytes + 1.0)))
        .collect();
    let weight: f64 = readings.iter().map(|r| r.1).sum();
    let weighted = |of: &dyn Fn(f64) -> f64| -> f64 {
        readings.iter().map(|(rtt, bytes)| of(*rtt) * bytes).sum::<f64>() / weight
    };
    let fold = |pick: fn(f64, f64) -> f64| readings.iter().map(|r| r.0).reduce(pick);
    let (min, max) = (fold(f64::min)?, fold(f64::max)?);
    let mean = weighted(&|rtt| rtt).clamp(min, max);
    Some(LoadedRtt {
        min: min as u64,
        mean: mean.round() as u64,
        max: max as u64,
        stddev: weighted(&|rtt| (rtt - mean).powi(2)).sqrt().round() as u64,
    })
}
