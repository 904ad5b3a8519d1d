//! Caveats: the limits of a measurement.
//!
//! One check per code; each says what was not observed and how that affects the result.

use crate::limit::loss_response::{CUBIC_BETA, compute_cubic_cycle_s};
use crate::limit::run_reading::{ClippedBuffer, RunView};
use crate::limit::{host_load, limiter_verdict};
use crate::throughput::arrival_timeline::TOGETHER_RATIO;
use crate::throughput::{self, GoodputEstimate, to_rate};
use longhaul_model::report::v1::ReportCaveat;
use longhaul_model::report::v1::analysis::{Limiter, ThroughputAnalysis};
use longhaul_model::report::v1::observation::{HostFacts, StreamEnd};
use longhaul_model::report::v1::plan::RunTransport;
use longhaul_model::units::{Bytes, format_duration};
use std::time::Duration;

/// The minimum number of intervals in the steady part for a confidence interval.
const FEW_INTERVALS: usize = 10;
/// The maximum share of the run that the hypervisor may take from a core.
const STEAL_RATIO: f64 = 0.05;
/// A stream thread waited for a core in this share of the intervals.
const CROWDED_INTERVALS: f64 = 0.2;

/// Below this confidence, more cycles of the windows may change a verdict on the network.
const DOUBTFUL: f64 = 0.7;
/// The minimum number of cycles of the windows in a watch.
const CYCLES: f64 = 5.0;

type CaveatCheck = fn(&RunView, &ThroughputAnalysis) -> Option<ReportCaveat>;

const CHECKS: [CaveatCheck; 13] = [
    check_ramp_only,
    check_few_samples,
    check_receive_buffer,
    check_send_buffer,
    check_clock,
    check_missing_counters,
    check_host_drops,
    check_failed_streams,
    check_uneven_streams,
    check_stolen_time,
    check_busy_machine,
    check_untold_limiter,
    check_short_watch,
];

pub fn list_run_caveats(scene: &RunView, analysis: &ThroughputAnalysis) -> Vec<ReportCaveat> {
    CHECKS.iter().filter_map(|check| check(scene, analysis)).collect()
}

fn check_ramp_only(scene: &RunView, analysis: &ThroughputAnalysis) -> Option<ReportCaveat> {
    if analysis.steady.is_some() || analysis.goodput_bps.is_none() {
        return None;
    }
    let streams = &scene.observation.streams;
    let untold = streams.iter().all(|s| s.receiver.samples.is_empty());
    Some(if untold && scene.arrivals.bins.len() < 2 {
        let text = "The receiver reported no samples; goodput is the mean of the whole run";
        ReportCaveat::new("no_course", text)
    } else {
        let text =
            "The rate never became steady; goodput is the mean of the last quarter of the run";
        ReportCaveat::new("ramp_only", text)
    })
}

/// Checks whether the interval of the steady part says anything about the rate.
pub fn check_unsteady_rate(steady: &GoodputEstimate) -> Option<ReportCaveat> {
    let [low, high] = steady.interval_bps.filter(|_| !steady.is_informative())?.map(to_rate);
    let text = format!(
        "The rate varied too much for a steady rate (95 % interval {low} to {high}); goodput is the mean of the whole run"
    );
    Some(ReportCaveat::new("no_steady_rate", text))
}

fn check_few_samples(scene: &RunView, analysis: &ThroughputAnalysis) -> Option<ReportCaveat> {
    let span = analysis.steady?;
    let count = scene.arrivals.within(span.from_us, span.to_us).len();
    (count < FEW_INTERVALS).then(|| {
        ReportCaveat::new("few_samples", format!("Only {count} samples in the steady part; run longer for a reliable confidence interval"))
    })
}

fn check_receive_buffer(scene: &RunView, _: &ThroughputAnalysis) -> Option<ReportCaveat> {
    let host = &scene.observation.ends.receiver.host;
    Some(build_clip_caveat("receive", "rmem_max", host, scene.receive_clip?))
}

fn check_send_buffer(scene: &RunView, _: &ThroughputAnalysis) -> Option<ReportCaveat> {
    let host = &scene.observation.ends.sender.host;
    Some(build_clip_caveat("send", "wmem_max", host, scene.send_clip?))
}

fn build_clip_caveat(
    buffer: &str,
    ceiling: &str,
    host: &HostFacts,
    clip: ClippedBuffer,
) -> ReportCaveat {
    let (requested, granted) = (Bytes(clip.requested_bytes), Bytes(clip.granted_bytes));
    let host = match host.name.as_str() {
        "" => "its host",
        name => name,
    };
    let text = format!(
        "The {buffer} buffer was clipped on {host}: requested {requested}, got {granted} (net.core.{ceiling})"
    );
    ReportCaveat::new("buffer_clipped", text)
}

fn check_clock(scene: &RunView, _: &ThroughputAnalysis) -> Option<ReportCaveat> {
    let error = scene.observation.clock_error_us?;
    let interval = scene.plan.interval_us.max(scene.idle_rtt_us.unwrap_or(0));
    (error > interval).then(|| {
        let error = format_duration(Duration::from_micros(error));
        ReportCaveat::new("clock", format!("The clocks of the two ends are aligned only to within {error}, more than a sample interval: samples of the two ends may be mismatched"))
    })
}

fn check_missing_counters(scene: &RunView, _: &ThroughputAnalysis) -> Option<ReportCaveat> {
    if scene.plan.transport != RunTransport::Tcp {
        return None;
    }
    let missing = |end: &StreamEnd| {
        let tcp = throughput::last_tcp_info(end);
        tcp.is_none_or(|t| t.receive_window_limited_us.is_none() || t.unsent_bytes.is_none())
    };
    let any = scene.observation.streams.iter().any(|s| missing(&s.sender));
    any.then(|| {
        let kernel = &scene.observation.ends.sender.host.kernel;
        let whose = match kernel.as_str() {
            "" => String::from("The sender"),
            kernel => format!("The sender's kernel ({kernel})"),
        };
        let text =
            format!("{whose} provides few TCP counters or none: fewer causes can be distinguished");
        ReportCaveat::new("missing_counters", text)
    })
}

fn check_host_drops(scene: &RunView, _: &ThroughputAnalysis) -> Option<ReportCaveat> {
    let dropped = scene.host_drops;
    (dropped > 0).then(|| {
        ReportCaveat::new("interface_drops", format!("The interfaces of the two hosts dropped {dropped} packets during the run: part of the loss is not on the path"))
    })
}

fn check_failed_streams(scene: &RunView, analysis: &ThroughputAnalysis) -> Option<ReportCaveat> {
    let streams = &scene.observation.streams;
    let mut ends = streams.iter().flat_map(|stream| {
        let ends = [("sender", &stream.sender), ("receiver", &stream.receiver)];
        ends.map(|(whose, end)| (stream.index, whose, end.error.as_ref()))
    });
    let (index, whose, reason) =
        ends.find_map(|(index, whose, error)| Some((index, whose, error?)))?;
    let text = match analysis.totals.stream_errors {
        1 => format!("Stream {index} ended early at the {whose}: {reason}"),
        failed => format!(
            "{failed} of {} streams ended early, the first one, {index}, at the {whose}: {reason}",
            streams.len()
        ),
    };
    Some(ReportCaveat::new("stream_failed", text))
}

fn check_uneven_streams(scene: &RunView, _: &ThroughputAnalysis) -> Option<ReportCaveat> {
    let together = scene.arrivals.together_us as f64;
    let elapsed = scene.observation.elapsed_us as f64;
    let several = scene.observation.streams.len() > 1;
    (several && together < TOGETHER_RATIO * elapsed).then(|| {
        let share = 100.0 * together / elapsed;
        ReportCaveat::new("uneven_streams", format!("All streams ran together for only {share:.0} % of the run; goodput is measured while most of them ran"))
    })
}

fn check_stolen_time(scene: &RunView, _: &ThroughputAnalysis) -> Option<ReportCaveat> {
    let ends = &scene.observation.ends;
    let cores = ends.sender.cores.iter().chain(&ends.receiver.cores);
    let worst = cores.map(|c| c.steal_us as f64 / c.elapsed_us.max(1) as f64).reduce(f64::max)?;
    (worst > STEAL_RATIO).then(|| {
        let share = 100.0 * worst.min(1.0);
        let text = format!("Steal time: the hypervisor took {share:.0} % of one core");
        ReportCaveat::new("stolen_time", text)
    })
}

fn check_busy_machine(scene: &RunView, _: &ThroughputAnalysis) -> Option<ReportCaveat> {
    let crowded = host_load::measure_crowded_ratio(scene);
    (crowded > CROWDED_INTERVALS).then(|| {
        let share = 100.0 * crowded;
        let text = format!("In {share:.0} % of the samples a stream thread waited for a core: other work on the hosts affects this result");
        ReportCaveat::new("busy_machine", text)
    })
}

fn check_untold_limiter(scene: &RunView, analysis: &ThroughputAnalysis) -> Option<ReportCaveat> {
    let is_untold = analysis.limited_by == Limiter::Unknown
        && scene.busy_ratio > limiter_verdict::MAX_BUSY_RATIO;
    is_untold.then(|| {
        let share = 100.0 * scene.busy_ratio;
        let text = format!("Cannot tell what limited this run: a host was busy for {share:.0} % of it; repeat it with less load on both hosts");
        ReportCaveat::new("busy_host", text)
    })
}

/// Checks whether a watch of another program's sender is long enough for its windows to grow back from a
/// loss, and to lose again: only then losses show what they depend on.
fn check_short_watch(scene: &RunView, analysis: &ThroughputAnalysis) -> Option<ReportCaveat> {
    let least = limiter_verdict::calibrate_confidence(analysis.limited_by, DOUBTFUL);
    let is_doubtful = analysis.confidence_ratio < least
        && [Limiter::Unknown, Limiter::Loss, Limiter::Policer, Limiter::PathCapacity]
            .contains(&analysis.limited_by);
    if !is_doubtful || scene.has_own_senders() {
        return None;
    }
    let senders = scene.observation.streams.iter().map(|stream| &stream.sender);
    let longest_s = senders.filter_map(find_window_cycle_s).reduce(f64::max)?;
    let needed_s = (CYCLES * longest_s).ceil();
    (needed_s * 1e6 > scene.observation.elapsed_us as f64).then(|| {
        let text = format!("A loss reduced the congestion window, which takes {longest_s:.0} s to grow back: watch for {needed_s:.0} s or longer to see what it depends on (`--for`)");
        ReportCaveat::new(ReportCaveat::SHORT_WATCH, text)
    })
}

/// Returns the time in which the window of a sender grows back from its last loss; `None` before a loss,
/// while it recovers, and for a congestion control without such a cycle.
fn find_window_cycle_s(sender: &StreamEnd) -> Option<f64> {
    let tcp = throughput::last_tcp_info(sender)?;
    let threshold = tcp.ssthresh_bytes.filter(|bytes| tcp.cwnd_bytes >= *bytes)?;
    let segments = threshold as f64 / tcp.mss_bytes.max(1) as f64;
    match sender.congestion_control.as_deref()? {
        "cubic" => Some(compute_cubic_cycle_s(segments / CUBIC_BETA)),
        // One segment per round trip, from half of the window on (RFC 5681, section 3.1).
        "reno" => Some(segments * tcp.rtt_us as f64 / 1e6),
        _ => None,
    }
}
