//! Caveats: the limits of a measurement.
//!
//! One check per code; each says what was not observed and how that affects the result.

use crate::limit::intervals::Interval;
use crate::limit::scene::Scene;
use crate::throughput::totals;
use longhaul_model::report::v1::Caveat;
use longhaul_model::report::v1::analysis::Analysis;
use longhaul_model::report::v1::observation::{Buffer, Host, StreamEnd};
use longhaul_model::report::v1::plan::Transport;
use longhaul_model::units::{Bytes, format_duration};
use std::time::Duration;

/// The minimum number of intervals in the steady part for a confidence interval.
const FEW_INTERVALS: usize = 10;
/// The maximum share of the run that the hypervisor may take from a core.
const STEAL_RATIO: f64 = 0.05;
/// The minimum share of the run in which all streams run together.
const TOGETHER_RATIO: f64 = 0.5;

/// A stream thread waited for a core for this share of an interval, in this share of the intervals.
const CROWDED_WAIT: f64 = 0.3;
const CROWDED_INTERVALS: f64 = 0.2;

type Check = fn(&Scene, &Analysis) -> Option<Caveat>;

const CHECKS: [Check; 11] = [
    ramp_only,
    few_samples,
    receive_buffer_clipped,
    send_buffer_clipped,
    clock,
    missing_counters,
    host_drops,
    stream_failed,
    uneven_streams,
    stolen_time,
    crowded,
];

pub fn caveats(scene: &Scene, analysis: &Analysis) -> Vec<Caveat> {
    CHECKS
        .iter()
        .filter_map(|check| check(scene, analysis))
        .collect()
}

fn ramp_only(scene: &Scene, analysis: &Analysis) -> Option<Caveat> {
    if analysis.steady.is_some() || analysis.goodput_bps.is_none() {
        return None;
    }
    let streams = &scene.observation.streams;
    let untold = streams.iter().all(|s| s.receiver.samples.is_empty());
    Some(if untold && scene.arrivals.bins.len() < 2 {
        Caveat::new(
            "no_course",
            "The receiver did not tell when payload arrived; the goodput is that of the whole run",
        )
    } else {
        Caveat::new(
            "ramp_only",
            "No steady part was found; the goodput is that of the last quarter of the run",
        )
    })
}

fn few_samples(scene: &Scene, analysis: &Analysis) -> Option<Caveat> {
    let span = analysis.steady?;
    let count = scene.arrivals.within(span.from_us, span.to_us).len();
    (count < FEW_INTERVALS).then(|| {
        Caveat::new("few_samples", format!("Only {count} intervals in the steady part; run longer for a trustworthy interval of confidence"))
    })
}

fn receive_buffer_clipped(scene: &Scene, _: &Analysis) -> Option<Caveat> {
    let (asked, granted) = receive_clip(scene)?;
    let host = &scene.observation.ends.receiver.host;
    Some(clipped("receive", "rmem_max", host, (asked, granted)))
}

fn send_buffer_clipped(scene: &Scene, _: &Analysis) -> Option<Caveat> {
    let (asked, granted) = send_clip(scene)?;
    let host = &scene.observation.ends.sender.host;
    Some(clipped("send", "wmem_max", host, (asked, granted)))
}

fn clipped(buffer: &str, ceiling: &str, host: &Host, (asked, granted): (u64, u64)) -> Caveat {
    let (asked, granted) = (Bytes(asked), Bytes(granted));
    let host = if host.name.is_empty() {
        "its host"
    } else {
        &host.name
    };
    Caveat::new(
        "buffer_clipped",
        format!(
            "The {buffer} buffer is {granted}, not the {asked} that were asked for: net.core.{ceiling} of {host} allows no more"
        ),
    )
}

/// Returns requested and granted bytes if the user's receive buffer was not granted in full.
pub fn receive_clip(scene: &Scene) -> Option<(u64, u64)> {
    scene.plan.receive_buffer_bytes?;
    let streams = scene.observation.streams.iter();
    streams
        .filter_map(|s| s.receiver.receive_buffer)
        .find_map(clip)
}

/// Returns requested and granted bytes of the send buffer, if the user requested its size.
pub fn send_clip(scene: &Scene) -> Option<(u64, u64)> {
    scene.plan.send_buffer_bytes?;
    let streams = scene.observation.streams.iter();
    streams.filter_map(|s| s.sender.send_buffer).find_map(clip)
}

fn clip(buffer: Buffer) -> Option<(u64, u64)> {
    let asked = buffer.asked_bytes?;
    (buffer.granted_bytes < asked).then_some((asked, buffer.granted_bytes))
}

fn clock(scene: &Scene, _: &Analysis) -> Option<Caveat> {
    let error = scene.observation.clock_error_us?;
    let interval = scene.plan.interval_us.max(scene.idle_rtt_us.unwrap_or(0));
    (error > interval).then(|| {
        let error = format_duration(Duration::from_micros(error));
        Caveat::new("clock", format!("The ends' clocks could be set to each other only within {error}, more than a sample interval: readings of both ends may not belong together"))
    })
}

fn missing_counters(scene: &Scene, _: &Analysis) -> Option<Caveat> {
    if scene.plan.transport != Transport::Tcp {
        return None;
    }
    let missing = |end: &StreamEnd| {
        let tcp = totals::last(end);
        tcp.is_none_or(|t| t.receive_window_limited_us.is_none() || t.unsent_bytes.is_none())
    };
    let any = scene.observation.streams.iter().any(|s| missing(&s.sender));
    any.then(|| {
        let kernel = &scene.observation.ends.sender.host.kernel;
        let whose = match kernel.as_str() {
            "" => String::from("The sender"),
            kernel => format!("The sender's kernel ({kernel})"),
        };
        Caveat::new(
            "missing_counters",
            format!("{whose} gave no or few TCP counters: fewer causes can be told apart"),
        )
    })
}

fn host_drops(scene: &Scene, _: &Analysis) -> Option<Caveat> {
    let dropped = scene.host_drops();
    (dropped > 0).then(|| {
        Caveat::new("interface_drops", format!("Interfaces of the two hosts dropped {dropped} packets during the run: part of the loss is not the path's"))
    })
}

fn stream_failed(scene: &Scene, analysis: &Analysis) -> Option<Caveat> {
    let failed = analysis.totals.stream_errors;
    let mut ends = scene
        .observation
        .streams
        .iter()
        .flat_map(|s| [&s.sender, &s.receiver]);
    let reason = ends.find_map(|e| e.error.clone())?;
    Some(Caveat::new(
        "stream_failed",
        format!("{failed} streams ended before their time (the first: {reason})"),
    ))
}

fn uneven_streams(scene: &Scene, _: &Analysis) -> Option<Caveat> {
    let together = (scene.arrivals.to_us() - scene.arrivals.from_us()) as f64;
    let elapsed = scene.observation.elapsed_us as f64;
    let several = scene.observation.streams.len() > 1;
    (several && together < TOGETHER_RATIO * elapsed).then(|| {
        let share = 100.0 * together / elapsed;
        Caveat::new("uneven_streams", format!("All streams ran together for only {share:.0} % of the run; the steady goodput is taken from that time"))
    })
}

fn stolen_time(scene: &Scene, _: &Analysis) -> Option<Caveat> {
    let ends = &scene.observation.ends;
    let cores = ends.sender.cores.iter().chain(&ends.receiver.cores);
    let worst = cores
        .map(|c| c.steal_us as f64 / c.elapsed_us.max(1) as f64)
        .reduce(f64::max)?;
    (worst > STEAL_RATIO).then(|| {
        let share = 100.0 * worst.min(1.0);
        Caveat::new(
            "stolen_time",
            format!("The hypervisor took {share:.0} % of one core's time"),
        )
    })
}

fn crowded(scene: &Scene, _: &Analysis) -> Option<Caveat> {
    let waits = |i: &Interval| {
        let threads = [i.sender.core_wait, i.receiver.core_wait];
        threads
            .into_iter()
            .flatten()
            .any(|share| share >= CROWDED_WAIT)
    };
    let all = scene.streams.iter().flatten().count() as f64;
    let crowded = scene.streams.iter().flatten().filter(|i| waits(i)).count() as f64;
    (crowded > CROWDED_INTERVALS * all).then(|| {
        let share = 100.0 * crowded / all;
        Caveat::new(
            "busy_machine",
            format!("In {share:.0} % of the intervals a stream's thread waited for a core: other work on the hosts is part of this result"),
        )
    })
}
