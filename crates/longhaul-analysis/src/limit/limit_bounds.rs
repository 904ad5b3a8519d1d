//! Computes the rate that each limit would allow, and the next limit after the verdict's.
//!
//! window × 8 / RTT; Mathis and CUBIC from the loss; the path if it was seen full; CPU time per
//! byte; the interfaces; requested rates. A limit that cannot be computed is left out.
//!
//! Source: Mathis 1997; RFC 9438 section 5.1 (C = 0.4, β = 0.7). Units: bit/s of payload.
//! Error: windows include the bytes in the queue, so their bound holds at the idle RTT.
//! Wrong when: limits interact (more window, more loss); a bound is not a promise.

use super::interval_state::IntervalState;
use super::limiter_verdict::RunVerdict;
use super::run_reading::RunView;
use crate::stats::median;
use crate::throughput::format_whole_percent;
use longhaul_model::report::v1::analysis::{Limiter, RateBound};
use longhaul_model::report::v1::observation::{
    EndObservation, ObservedStream, SocketBuffer, StreamEnd, TcpReading,
};
use longhaul_model::report::v1::plan::RunTransport;
use longhaul_model::units::{Bytes, Rate, format_duration};
use std::time::Duration;

/// The minimum number of losses that gives a loss ratio.
const MIN_LOST_SEGMENTS: u64 = 5;
/// A bound below this fraction of the measured rate is refuted.
const REFUTED_RATIO: f64 = 0.9;
/// A path that was full for this share of the bytes has shown its capacity.
const SEEN_FULL_RATIO: f64 = 0.1;
/// Text for a path that has not shown its capacity.
const UNMEASURED_TEXT: &str = "path capacity not measured yet";
/// Shorter round trips are within one host; their bound exceeds what any host can do.
const MIN_RTT_US: u64 = 20;
/// A thread busy for less than this share gives no estimate of its maximum rate.
const MIN_BUSY_RATIO: f64 = 0.05;

/// Returns the rate of `window_bytes` per `rtt_us`.
pub fn window_bound_bps(window_bytes: u64, rtt_us: u64) -> Option<u64> {
    Rate::over(window_bytes, Duration::from_micros(rtt_us)).map(Rate::as_bps)
}

/// A rate in bit/s, and the calculation that gives it.
type ExplainedRate = (u64, String);

/// Returns the bounds that the measurement does not refute, in ascending order.
pub fn compute_bounds(
    run: &RunView,
    verdict: &RunVerdict,
    goodput_bps: Option<u64>,
) -> Vec<RateBound> {
    let requested = |rate_bps: Option<u64>, what: &str| Some((rate_bps?, what.to_owned()));
    let cpu = |which| bound_by_cpu(run, verdict, goodput_bps, which);
    let found = [
        (Limiter::ReceiveWindow, bound_by_receive_window(run, verdict)),
        (Limiter::SendBuffer, bound_by_send_buffer(run, verdict, goodput_bps)),
        (Limiter::PathCapacity, bound_by_path(run, verdict, goodput_bps)),
        (Limiter::Loss, bound_by_loss(run, verdict)),
        (Limiter::Pacing, bound_by_pacing(run)),
        (Limiter::Application, requested(run.plan.write_rate_bps, "requested write rate")),
        (Limiter::Application, requested(run.plan.read_rate_bps, "requested read rate")),
        (Limiter::CpuSender, cpu(Limiter::CpuSender)),
        (Limiter::CpuReceiver, cpu(Limiter::CpuReceiver)),
        (Limiter::PathCapacity, bound_by_interface(run)),
        (Limiter::Policer, bound_by_policer(run)),
        (Limiter::Shaper, bound_by_shaper(run)),
    ];
    let mut all: Vec<RateBound> = found
        .into_iter()
        .filter_map(|(limiter, bound)| {
            let (rate_bps, why) = bound?;
            Some(RateBound { limiter, rate_bps, why })
        })
        .collect();
    let floor = goodput_bps.unwrap_or(0) as f64 * REFUTED_RATIO;
    all.retain(|b| b.limiter == verdict.limiter || b.rate_bps as f64 >= floor);
    all.sort_by(|a, b| a.rate_bps.cmp(&b.rate_bps).then(a.limiter.cmp(&b.limiter)));
    all
}

/// Returns the lowest bound of another limiter than the verdict's. If the run never filled the
/// path, the path itself may come first, and the text says so.
pub fn find_next_bound(bounds: &[RateBound], verdict: &RunVerdict) -> Option<RateBound> {
    let mut next = bounds.iter().find(|b| b.limiter != verdict.limiter).cloned()?;
    let seen_full = bounds
        .iter()
        .any(|b| b.limiter == Limiter::PathCapacity && !b.why.ends_with(UNMEASURED_TEXT));
    let by_choice = matches!(next.limiter, Limiter::Application | Limiter::Pacing);
    if !seen_full && !by_choice && !next.why.ends_with(UNMEASURED_TEXT) {
        next.why.push_str("; ");
        next.why.push_str(UNMEASURED_TEXT);
    }
    Some(next)
}

/// Returns the idle RTT for the bound of `limiter`, if it is long enough to bound anything.
fn find_bounding_rtt(
    run: &RunView,
    verdict: &RunVerdict,
    limiter: Limiter,
) -> Option<(u64, String)> {
    let us = run.idle_rtt_us?;
    let bounds = us >= MIN_RTT_US || verdict.limiter == limiter;
    bounds.then(|| (us, format_duration(Duration::from_micros(us))))
}

/// Sums a reading over the streams; `None` if one of them has no reading.
fn sum_over_streams(run: &RunView, of: impl Fn(&ObservedStream) -> Option<u64>) -> Option<u64> {
    let carrying = run.observation.streams.iter().filter(|s| s.receiver.bytes > 0);
    let readings: Option<Vec<u64>> = carrying.map(of).collect();
    readings.filter(|r| !r.is_empty()).map(|r| r.into_iter().fold(0, u64::saturating_add))
}

/// Returns the median reading of the second half of a run: by then a window has grown to its limit,
/// and one that began too large has been clamped.
fn compute_settled_median(end: &StreamEnd, of: fn(&TcpReading) -> Option<u64>) -> Option<u64> {
    let later = &end.samples[end.samples.len() / 2..];
    let readings = later.iter().filter_map(|s| of(s.tcp.as_ref()?));
    median(readings.map(|bytes| bytes as f64)).map(|bytes| bytes as u64)
}

/// Returns the windows that the receiver advertised, all streams together.
pub fn sum_advertised_windows(run: &RunView) -> Option<u64> {
    sum_over_streams(run, |s| {
        compute_settled_median(&s.sender, |t| t.peer_window_bytes)
            .or(compute_settled_median(&s.receiver, |t| t.own_window_bytes))
    })
}

/// Returns the median of the outstanding bytes, all streams together. Not the maximum: one write
/// may far exceed a send buffer, and then the stream waits until all of it has been acknowledged.
pub fn sum_median_outstanding(run: &RunView) -> Option<u64> {
    sum_over_streams(run, |s| {
        let readings = s.sender.samples.iter().filter_map(|x| x.tcp.as_ref());
        median(readings.map(|t| t.unacked_bytes as f64)).map(|bytes| bytes as u64)
    })
}

fn bound_by_receive_window(run: &RunView, verdict: &RunVerdict) -> Option<ExplainedRate> {
    if run.plan.transport != RunTransport::Tcp {
        return None;
    }
    let (rtt_us, rtt) = find_bounding_rtt(run, verdict, Limiter::ReceiveWindow)?;
    let seen = sum_advertised_windows(run)?;
    // A window that did not limit may still grow: to half of tcp_rmem's maximum, by default.
    let most = match (verdict.limiter, run.plan.receive_buffer_bytes) {
        (Limiter::ReceiveWindow, _) | (_, Some(_)) => seen,
        (_, None) => {
            let streams = run.observation.streams.len() as u64;
            let grows_to = run.observation.ends.receiver.host.tcp_rmem_bytes.map(|r| r[2] / 2);
            seen.max(grows_to?.saturating_mul(streams))
        }
    };
    let granted = run.receive_clip.map_or(String::new(), |clip| {
        format!(" (requested {}, got {})", Bytes(clip.requested_bytes), Bytes(clip.granted_bytes))
    });
    let why = format!("{} receive window{granted} / {rtt} RTT", Bytes(most));
    Some((window_bound_bps(most, rtt_us)?, why))
}

fn bound_by_send_buffer(
    run: &RunView,
    verdict: &RunVerdict,
    goodput_bps: Option<u64>,
) -> Option<ExplainedRate> {
    if verdict.limiter == Limiter::SendBuffer {
        return bound_limited_by_send_buffer(run, goodput_bps);
    }
    if run.plan.transport != RunTransport::Tcp {
        return None;
    }
    let (rtt_us, rtt) = find_bounding_rtt(run, verdict, Limiter::SendBuffer)?;
    let stored = |b: SocketBuffer| b.stored_bytes.max(b.granted_bytes);
    let mut buffers = run.observation.streams.iter().map(|s| s.sender.send_buffer);
    let most = if buffers.any(|b| b.is_some_and(|b| b.asked_bytes.is_some())) {
        sum_over_streams(run, |s| s.sender.send_buffer.map(stored))?
    } else {
        let each = run.observation.ends.sender.host.tcp_wmem_bytes?[2];
        each.saturating_mul(run.observation.streams.len() as u64)
    };
    Some((window_bound_bps(most, rtt_us)?, format!("{} send buffer / {rtt} RTT", Bytes(most))))
}

fn bound_limited_by_send_buffer(run: &RunView, goodput_bps: Option<u64>) -> Option<ExplainedRate> {
    let refused = run.refused_retransmits;
    if refused > 0 {
        let why = format!(
            "the send queue exceeded its buffer, and the kernel delayed {refused} retransmissions"
        );
        return Some((goodput_bps?, why));
    }
    let held = sum_median_outstanding(run)?;
    // The bursts of a small buffer queue behind themselves: use the loaded RTT.
    let rtt_us = run.loaded_rtt.map_or(run.idle_rtt_us?, |rtt| rtt.mean);
    let why = format!(
        "{} median in flight (send buffers full) / {} RTT",
        Bytes(held),
        format_duration(Duration::from_micros(rtt_us))
    );
    Some((window_bound_bps(held, rtt_us)?, why))
}

/// Only a path that was seen full has a known capacity.
fn bound_by_path(
    run: &RunView,
    verdict: &RunVerdict,
    goodput_bps: Option<u64>,
) -> Option<ExplainedRate> {
    if verdict.limiter == Limiter::PathCapacity {
        return Some((goodput_bps?, describe_full_path(run)));
    }
    let full = format_whole_percent(verdict.shares.state(IntervalState::PathFull));
    let why = format!("path full for {full} of the bytes");
    Some((find_seen_capacity_bps(run, verdict)?, why))
}

/// Returns the capacity if the path was seen full. On a host that is short of CPU, RTTs grow
/// because its acknowledgements are late, which is no evidence of a queue on the path.
pub fn find_seen_capacity_bps(run: &RunView, verdict: &RunVerdict) -> Option<u64> {
    let full = match verdict.limiter {
        Limiter::PathCapacity => verdict.shares.limiter(Limiter::PathCapacity),
        Limiter::CpuSender | Limiter::CpuReceiver => 0.0,
        _ => verdict.shares.state(IntervalState::PathFull),
    };
    (full >= SEEN_FULL_RATIO).then_some(run.level_bps as u64)
}

/// Describes the evidence for a full path: a queue in the RTTs, and a constant rate.
fn describe_full_path(run: &RunView) -> String {
    let queue = run.loaded_rtt.zip(run.idle_rtt_us).map(|(rtt, idle)| {
        let text = |us: u64| format_duration(Duration::from_micros(us));
        let added = rtt.mean.saturating_sub(idle);
        if run.is_rtt_inflated(rtt.mean as f64) {
            format!("queueing adds {} to the idle RTT of {}", text(added), text(idle))
        } else {
            format!("RTT rises by {} over {} idle", text(added), text(idle))
        }
    });
    let steadiness = run.scatter_ratio.map(|scatter| match 100.0 * scatter {
        least if least < 0.1 => String::from("the rate varies by less than 0.1 %"),
        percent => format!("the rate varies by {percent:.1} %"),
    });
    let signs: Vec<String> = queue.into_iter().chain(steadiness).collect();
    signs.join(", ")
}

fn bound_by_loss(run: &RunView, verdict: &RunVerdict) -> Option<ExplainedRate> {
    // Losses caused by full queues or buckets follow the rate; they do not set it.
    let own = matches!(verdict.limiter, Limiter::PathCapacity | Limiter::Policer | Limiter::Shaper);
    if own || run.retransmitted_segments < MIN_LOST_SEGMENTS || run.bbr {
        return None;
    }
    let (_, rtt) = find_bounding_rtt(run, verdict, Limiter::Loss)?;
    let ratio = run.loss_ratio?;
    let mss = run.mss_bytes?;
    let why = format!("{:.3} % loss, MSS {mss} B, {rtt} RTT", ratio * 100.0);
    Some((run.random_loss_bound_bps()? as u64, why))
}

fn bound_by_pacing(run: &RunView) -> Option<ExplainedRate> {
    let each = run.plan.pacing_bps?;
    let streams = run.observation.streams.len() as u64;
    let why = format!("pacing of {} × {streams} streams", Rate::bits_per_second(each));
    Some((each.saturating_mul(streams), why))
}

/// Scales the busiest stream thread's share of a core to a whole core; for the limiter itself,
/// returns the measured goodput.
fn bound_by_cpu(
    run: &RunView,
    verdict: &RunVerdict,
    goodput_bps: Option<u64>,
    which: Limiter,
) -> Option<ExplainedRate> {
    if verdict.limiter == which {
        let why = "stream threads running or waiting for a core nearly all the time";
        return Some((goodput_bps?, why.to_owned()));
    }
    let busy = |s: &ObservedStream| {
        let end = if which == Limiter::CpuSender { &s.sender } else { &s.receiver };
        let share = end.cpu_us? as f64 / end.duration_us.max(1) as f64;
        share.is_finite().then_some(share.min(1.0))
    };
    let busiest = run.observation.streams.iter().filter_map(busy).reduce(f64::max)?;
    let rate_bps = (goodput_bps? as f64 / busiest.max(MIN_BUSY_RATIO)) as u64;
    let place = if which == Limiter::CpuSender { "sender" } else { "receiver" };
    let why = format!("busiest {place} thread used {:.0} % of a core", busiest * 100.0);
    (busiest >= MIN_BUSY_RATIO).then_some((rate_bps, why))
}

/// Returns the slower of the two interfaces: the path is no faster, but may be slower.
fn bound_by_interface(run: &RunView) -> Option<ExplainedRate> {
    let ends = &run.observation.ends;
    let of = |end: &EndObservation, place: &str| {
        let interface = end.host.interface.as_ref()?;
        let rate_bps = interface.speed_bps.filter(|bps| *bps > 0)?;
        Some((rate_bps, format!("{} of the {place}", interface.name)))
    };
    let both = [of(&ends.sender, "sender"), of(&ends.receiver, "receiver")];
    let (rate_bps, whose) = both.into_iter().flatten().min()?;
    Some((rate_bps, format!("speed of interface {whose}; {UNMEASURED_TEXT}")))
}

fn bound_by_policer(run: &RunView) -> Option<ExplainedRate> {
    let policed = run.policer?;
    let percent = policed.loss_ratio * 100.0;
    let why = format!("excess dropped ({percent:.2} % of the segments), not queued");
    Some((policed.rate_bps as u64, why))
}

fn bound_by_shaper(run: &RunView) -> Option<ExplainedRate> {
    let bucket = run.bucket?;
    let why = format!(
        "excess queued after a burst of {} at {}",
        Bytes(bucket.burst_bytes as u64),
        Rate::bits_per_second(bucket.peak_bps as u64)
    );
    Some((bucket.sustained_bps as u64, why))
}
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_per_round_trip_is_a_rate() {
        assert_eq!(window_bound_bps(65_536, 160_000), Some(3_276_800));
        assert_eq!(window_bound_bps(65_536, 0), None);
    }
}
