//! Classifies each interval of a stream into a state.
//!
//! An ordered list of rules; the first that matches decides. External causes come first (timeouts,
//! applications, CPU), then a path that shows itself full, then windows and buffers, and last the
//! states in which the congestion window is the limit.
//!
//! Source: state machine and pitfalls of our experiments on a 40 ms path (docs/methods); RFC 9438
//! for the recovery time. Units: shares of time, bytes, microseconds.
//! Error: an interval that changes its state midway counts whole for one of them.
//! Wrong when: samples are sparser than the changes. On a kernel too old for a counter its rules do
//! not match; they are never wrong.

use super::interval_state::IntervalState;
use super::loss_response::{compute_cubic_cycle_s, compute_min_random_scatter};
use super::run_reading::{QUEUED_RATIO, RunView};
use super::stream_intervals::{
    BELOW_WINDOW_RATIO, HALF, SampleInterval, StreamTraits, compute_window_room,
    is_send_buffer_dry, waits_for_send_buffer,
};
use longhaul_model::report::v1::analysis::Limiter;
use longhaul_model::report::v1::observation::{ObservedStream, TcpReading};

/// The parameters of the classification.
struct ClassifierTuning;

impl ClassifierTuning {
    /// A thread that runs or is runnable for this share of the time is short of CPU.
    const STARVED_RATIO: f64 = 0.85;
    /// A stream is stalled if nothing moved for this long with data outstanding.
    const STALL_US: u64 = 1_000_000;
    /// The intervals before a stall whose RTTs show whether the path was full.
    const STALL_MEMORY: usize = 3;
    /// Unread bytes above this share of the advertised window: the reader is behind.
    const UNREAD_RATIO: f64 = 0.25;
    /// The limit of unread bytes if no window is known: more than a reader leaves between two reads.
    const MUCH_UNREAD_BYTES: u64 = 1 << 18;
    /// The window counts as level while its maximum is below this multiple of its minimum...
    const LEVEL_WINDOW_RATIO: f64 = 1.3;
    /// ... over this many intervals.
    const WINDOW_MEMORY: usize = 10;
    /// A sender with nothing outstanding for this share of the time is not limited by the path, which would
    /// carry more.
    const IDLE_RATIO: f64 = 0.2;
    /// A thread that waited for a core for this share of the time is short of CPU, even if it slept for
    /// the rest.
    const WAITING_RATIO: f64 = 0.5;
    /// Slow start multiplies the window by at least this per interval of one round trip.
    const GROWTH_RATIO: f64 = 1.15;
    /// The path is full only while the rate is near its level.
    const NEAR_LEVEL_RATIO: f64 = 0.85;
    /// After a loss in a full queue, the path counts as the limit down to this share of the level.
    const SAG_RATIO: f64 = 0.7;
    /// The intervals in which a pause of the reader determines what follows.
    const PAUSE_MEMORY: usize = 10;
    /// Goodput above this share of the requested pacing rate counts as paced (headers are paced too).
    const PACED_RATIO: f64 = 0.85;
    /// Slow start ends within so many intervals, each at least one round trip.
    const SLOW_START_INTERVALS: usize = 20;
    /// A window below this share of the one before was reduced, not only sampled at another moment.
    const REDUCED_RATIO: f64 = 0.9;
}

/// One interval with its context.
struct IntervalContext<'v, 'a> {
    now: &'v SampleInterval<'a>,
    before: &'v [SampleInterval<'a>],
    run: &'v RunView<'a>,
    traits: StreamTraits,
    rate_bps: f64,
}

/// In order of precedence; see the header.
const RULES: [fn(&IntervalContext) -> Option<IntervalState>; 18] = [
    match_stalled,
    match_requested_rate,
    match_sender_app,
    match_sender_cpu,
    match_slow_receiver,
    match_pacing,
    match_unobserved_writer,
    match_small_send_buffer,
    match_pausing_reader,
    match_full_path,
    match_window_clip,
    match_send_buffer_clip,
    match_slow_start,
    match_flat_path,
    match_loss,
    match_recovery,
    match_marked,
    match_climbing,
];

/// Returns one state per interval of the stream.
pub fn classify_stream(
    run: &RunView,
    stream: &ObservedStream,
    intervals: &[SampleInterval],
) -> Vec<IntervalState> {
    let traits = StreamTraits::of(run, stream, intervals);
    let states = intervals.iter().enumerate().map(|(i, now)| {
        let view = IntervalContext {
            now,
            before: &intervals[..i],
            run,
            traits,
            rate_bps: run.segments.rate_between_bps(now.from_us, now.to_us),
        };
        let state = RULES.iter().find_map(|rule| rule(&view)).unwrap_or(IntervalState::Unknown);
        apply_bucket(&view, state)
    });
    states.collect()
}

/// Replaces states by what was found in the whole run: path-like ones by a bucket, a ramp by a full way
/// back.
fn apply_bucket(view: &IntervalContext, state: IntervalState) -> IntervalState {
    // A transfer of another program has met the policer before it was watched.
    let is_under_way = view.now.sender.blocked.is_none();
    let policed = view.run.policer.is_some_and(|p| is_under_way || view.now.to_us > p.from_us);
    let shaped = view.run.bucket.is_some_and(|b| view.now.to_us > b.knee_us);
    // Segments that a policer dropped were in excess of its rate, however little a capture shows unsent.
    let is_excess =
        view.run.is_captured && state == IntervalState::SenderApp && view.now.has_retransmits();
    match (policed, shaped) {
        (true, _) if state.is_path_like() || is_excess => IntervalState::Policer,
        (_, true) if state.is_path_like() => IntervalState::Shaper,
        // The window grows, and the rate does not.
        _ if view.run.full_return_path.is_some()
            && state.limiter() == Limiter::Ramp
            && view.now.rtt_us.is_some_and(|rtt| view.run.is_rtt_inflated(rtt as f64)) =>
        {
            IntervalState::PathFull
        }
        _ => state,
    }
}

/// If the send buffer is too small, it also limits the samples between the dry ones: little is
/// unsent, and the queue is the burst of a single write.
fn match_small_send_buffer(view: &IntervalContext) -> Option<IntervalState> {
    let tcp = view.now.tcp?;
    let little = tcp.unsent_bytes.is_some_and(|unsent| unsent <= tcp.unacked_bytes / 2);
    (view.traits.small_buffer
        && waits_for_send_buffer(view.now)
        && little
        && !is_window_limited(view))
    .then_some(IntervalState::SendBufferClip)
}

fn match_stalled(view: &IntervalContext) -> Option<IntervalState> {
    let waiting = view.now.tcp.is_some_and(|t| t.unacked_bytes > 0);
    let by_timeout = view.now.in_timeout.is_some_and(|share| share >= HALF);
    let idle = view.now.delivered_bytes <= 0.0
        && view.now.acked_bytes.is_none_or(|bytes| bytes == 0)
        && view.now.window_limited.is_none_or(|share| share < HALF)
        && view.now.length_us()
            >= ClassifierTuning::STALL_US.max(view.run.idle_rtt_us.unwrap_or(0).saturating_mul(3));
    // A queue before the stall: the path was full, and a whole window was lost in it.
    let from = view.before.len().saturating_sub(ClassifierTuning::STALL_MEMORY);
    let trips = view.before[from..].iter().chain([view.now]).filter_map(|interval| interval.rtt_us);
    // A stream that only retransmits has no new RTT (RFC 6298, section 3), but others of the run have.
    let queued = trips.max().is_some_and(|rtt| view.run.is_rtt_inflated(rtt as f64))
        || view.run.queued_ratio >= QUEUED_RATIO
        || view.run.has_queue_of_others;
    let state = if queued { IntervalState::Sawtooth } else { IntervalState::StalledRto };
    ((waiting && idle) || by_timeout).then_some(state)
}

fn match_requested_rate(view: &IntervalContext) -> Option<IntervalState> {
    view.traits.requested_rate_state
}

fn match_sender_app(view: &IntervalContext) -> Option<IntervalState> {
    let dry = view
        .now
        .tcp
        .is_none_or(|t| t.unsent_bytes.is_none_or(|bytes| bytes <= t.mss_bytes.saturating_mul(2)));
    (view.now.sender.outside_calls() >= HALF && dry).then_some(IntervalState::SenderApp)
}

/// The thread almost never sleeps, and the windows it could fill stay unfilled.
fn match_sender_cpu(view: &IntervalContext) -> Option<IntervalState> {
    let starved = view.now.sender.demand()? >= ClassifierTuning::STARVED_RATIO;
    let filled = view.now.tcp.is_some_and(|t| {
        t.unacked_bytes as f64 >= BELOW_WINDOW_RATIO * compute_window_room(t) as f64
            && t.unsent_bytes.is_some_and(|unsent| unsent > t.mss_bytes.saturating_mul(2))
    });
    (starved && !filled && !is_window_limited(view)).then_some(IntervalState::SenderCpu)
}

/// Returns true if the receive window held the sender back for half of the time, or is nearly full while the
/// congestion window is not: a sender that paces itself, such as BBR, hardly ever waits for it. A capture
/// does not show the congestion window.
fn is_window_limited(view: &IntervalContext) -> bool {
    let filled = |tcp: &TcpReading| {
        let window = tcp.peer_window_bytes? as f64;
        let unacked = tcp.unacked_bytes as f64;
        let full = (unacked + 2.0 * tcp.mss_bytes as f64).max(unacked / BELOW_WINDOW_RATIO);
        let has_room = unacked < BELOW_WINDOW_RATIO * tcp.cwnd_bytes as f64;
        Some(full >= window && (has_room || view.run.is_captured))
    };
    view.now.window_limited.is_some_and(|share| {
        share >= HALF || (share > 0.0 && view.now.tcp.and_then(filled) == Some(true))
    })
}

fn match_slow_receiver(view: &IntervalContext) -> Option<IntervalState> {
    let reader = view.now.receiver;
    if reader.asleep() >= HALF {
        return None; // It waits for data: whatever is slow, it is not the reader.
    }
    let unread = view.now.unread_bytes?;
    let window = view.now.own_window_bytes.or(view.now.tcp.and_then(|t| t.peer_window_bytes));
    let mss = view.now.tcp.map_or(0, |t| t.mss_bytes);
    let behind = match window {
        Some(window) => {
            unread > mss.saturating_mul(2)
                && unread as f64 > ClassifierTuning::UNREAD_RATIO * window as f64
        }
        None => unread > ClassifierTuning::MUCH_UNREAD_BYTES,
    };
    let starved = reader.demand().is_some_and(|share| share >= ClassifierTuning::STARVED_RATIO)
        || reader.core_wait.is_some_and(|share| share >= ClassifierTuning::WAITING_RATIO);
    match (behind, starved, is_window_limited(view)) {
        (true, true, _) | (_, true, true) => Some(IntervalState::ReceiverCpu),
        (true, false, _) => Some(IntervalState::ReceiverApp),
        // The window was closed and the reader elsewhere, though its queue was empty when sampled.
        (false, false, true) if reader.outside_calls() >= HALF => Some(IntervalState::ReceiverApp),
        _ => None,
    }
}

/// The thread of another program: it had nothing more to send although windows and buffer had room, or
/// nothing at all for a good part of the time, in which the buffer was empty.
/// (`tcpi_delivery_rate_app_limited` is no sign against it: the kernel keeps the flag of its fastest rate
/// sample.)
fn match_unobserved_writer(view: &IntervalContext) -> Option<IntervalState> {
    let tcp = view.now.tcp.filter(|_| view.now.sender.blocked.is_none())?;
    let is_idle = view.now.busy.is_some_and(|share| share < 1.0 - ClassifierTuning::IDLE_RATIO);
    let has_room =
        (tcp.unacked_bytes as f64) < BELOW_WINDOW_RATIO * compute_window_room(tcp) as f64;
    // Of a capture, the short segments tell.
    let is_limited = tcp.unsent_bytes.map_or(tcp.app_limited == Some(true), |bytes| {
        bytes <= tcp.mss_bytes.saturating_mul(2) && has_room
    });
    let is_dry = is_idle || (is_limited && !waits_for_send_buffer(view.now));
    (is_dry && !is_window_limited(view)).then_some(IntervalState::SenderApp)
}

fn match_pacing(view: &IntervalContext) -> Option<IntervalState> {
    let asked = view.run.plan.pacing_bps? as f64;
    // An interval has a few segments more or less, and one acknowledgement is for two.
    let unsure_bytes = 2.0 * view.now.tcp.map_or(0, |tcp| tcp.mss_bytes) as f64;
    let own_bytes = view.now.delivered_bytes + unsure_bytes;
    let paced_bytes = asked * view.now.length_us() as f64 / 8e6;
    let is_paced = own_bytes >= ClassifierTuning::PACED_RATIO * paced_bytes;
    // A capture does not tell a requested rate from that of BBR, which fills the path.
    let is_refuted = view.run.is_captured && view.run.queued_ratio >= QUEUED_RATIO;
    (is_paced && !is_refuted).then_some(IntervalState::Pacing)
}

/// Between two pauses of its reader a stream sends bursts, which fill a path and overrun queues.
fn match_pausing_reader(view: &IntervalContext) -> Option<IntervalState> {
    let from = view.before.len().saturating_sub(ClassifierTuning::PAUSE_MEMORY);
    let pauses = view.before[from..].iter().chain([view.now]).any(|i| i.is_window_shrunk);
    (view.traits.has_pausing_reader && pauses).then_some(IntervalState::ReceiverApp)
}

fn is_near_level(view: &IntervalContext) -> bool {
    view.rate_bps >= ClassifierTuning::NEAR_LEVEL_RATIO * view.run.level_at_bps(view.now.to_us)
}

fn match_full_path(view: &IntervalContext) -> Option<IntervalState> {
    let raised = view.now.rtt_us.is_some_and(|rtt| view.run.is_rtt_inflated(rtt as f64));
    // A window-limited stream has the same rate with and without jitter in its RTTs: only a queue
    // that never empties counts against the window.
    let raised = raised || view.traits.never_empty_queue;
    let queue = raised && (!is_window_limited(view) || view.traits.window_queue);
    let is_refuted = view.run.is_captured && view.run.has_uneven_arrivals;
    (queue && is_near_level(view) && !is_refuted).then_some(IntervalState::PathFull)
}

fn match_window_clip(view: &IntervalContext) -> Option<IntervalState> {
    let tcp = view.now.tcp?;
    let held = match view.now.window_limited {
        Some(_) => is_window_limited(view),
        // Before Linux 4.9: the window must be seen to be full.
        None => view.now.own_window_bytes.is_some_and(|own| {
            tcp.unacked_bytes as f64 >= BELOW_WINDOW_RATIO * own as f64
                && (tcp.unacked_bytes as f64) < BELOW_WINDOW_RATIO * tcp.cwnd_bytes as f64
        }),
    };
    // Of a reader that was not observed, the window that it lets shrink tells that it is behind.
    let is_reader_behind = view.now.sender.blocked.is_none() && view.now.is_window_shrunk;
    held.then(|| {
        if is_reader_behind {
            IntervalState::ReceiverApp
        } else if is_window_growing(view) {
            IntervalState::WindowGrowing
        } else {
            IntervalState::WindowClip
        }
    })
}

/// Returns true if the advertised window is well above that of some intervals ago: autotuning.
fn is_window_growing(view: &IntervalContext) -> bool {
    let window =
        |i: &SampleInterval| i.tcp.and_then(|t| t.peer_window_bytes).or(i.own_window_bytes);
    let earlier = view.before.len().saturating_sub(ClassifierTuning::WINDOW_MEMORY);
    let past = view.before[earlier..].iter().filter_map(window).min();
    let growing = past.zip(window(view.now));
    // Growth that the next interval does not continue has ended.
    growing.is_some_and(|(low, now)| {
        now as f64 > ClassifierTuning::LEVEL_WINDOW_RATIO * low.max(1) as f64
    }) && view.before.last().and_then(window) < window(view.now)
}

fn match_send_buffer_clip(view: &IntervalContext) -> Option<IntervalState> {
    let counted = view.now.buffer_limited.is_some_and(|share| share >= HALF);
    (counted || is_send_buffer_dry(view.now)).then_some(IntervalState::SendBufferClip)
}

fn match_slow_start(view: &IntervalContext) -> Option<IntervalState> {
    let tcp = view.now.tcp?;
    let fresh = tcp.retransmitted_segments == 0 && tcp.ca_state <= 1;
    let below = tcp.ssthresh_bytes.is_none_or(|threshold| tcp.cwnd_bytes < threshold);
    let earlier = view.before.last().and_then(|i| i.tcp).map(|t| t.cwnd_bytes);
    let grew =
        earlier.is_none_or(|e| tcp.cwnd_bytes as f64 >= ClassifierTuning::GROWTH_RATIO * e as f64);
    (fresh && below && grew).then_some(IntervalState::SlowStart)
}

/// No visible queue, but the windows move and the rate of all streams together does not; or the
/// congestion control keeps no queue and paces at the path's rate.
fn match_flat_path(view: &IntervalContext) -> Option<IntervalState> {
    let indifferent = view.run.flat && view.traits.window_moved && !is_evened_out(view.run);
    let modelled = view.run.bbr && view.now.tcp.is_some();
    ((indifferent || modelled) && is_near_level(view)).then_some(IntervalState::PathFull)
}

/// Returns true if random losses can leave the rate as flat as it is: the more windows make up the sum, and
/// the more losses each sample, the less it scatters.
fn is_evened_out(run: &RunView) -> bool {
    let bins = run.steady.map_or(0, |span| run.arrivals.within(span.from_us, span.to_us).len());
    let losses_per_bin = run.retransmitted_segments as f64 / bins.max(1) as f64;
    let parts = losses_per_bin.max(run.streams.len() as f64);
    let scatter = run.scatter_ratio.unwrap_or(f64::MAX);
    run.retransmitted_segments > 0 && scatter > compute_min_random_scatter(parts)
}

fn match_loss(view: &IntervalContext) -> Option<IntervalState> {
    view.now.has_retransmits().then(|| classify_loss(view, view.before.len(), IntervalState::Loss))
}

/// No loss now, but the window has not grown back from an earlier one.
fn match_recovery(view: &IntervalContext) -> Option<IntervalState> {
    let last = view.before.iter().rposition(SampleInterval::has_retransmits)?;
    let used = view.now.tcp.is_none_or(|t| t.unacked_bytes as f64 >= HALF * t.cwnd_bytes as f64);
    let past = view.now.to_us.saturating_sub(view.before[last].to_us) as f64 / 1e6;
    (used && past <= compute_recovery_seconds(view, last + 1))
        .then(|| classify_loss(view, last, IntervalState::Recovering))
}

/// A queue marked segments (RFC 3168), so the window was reduced without a loss and has not grown back.
fn match_marked(view: &IntervalContext) -> Option<IntervalState> {
    if !view.run.has_marked_segments {
        return None;
    }
    let window = |interval: &SampleInterval| interval.tcp.map(|tcp| tcp.cwnd_bytes as f64);
    let is_reduced = |pair: &[SampleInterval]| {
        let windows = window(&pair[0]).zip(window(&pair[1]));
        windows.is_some_and(|(before, now)| now < ClassifierTuning::REDUCED_RATIO * before)
    };
    let last = (1..view.before.len()).rfind(|at| is_reduced(&view.before[at - 1..=*at]))?;
    let past = view.now.to_us.saturating_sub(view.before[last].to_us) as f64 / 1e6;
    (past <= compute_recovery_seconds(view, last)).then_some(IntervalState::Sawtooth)
}

/// Loss in a full queue means that the path is full; loss without a queue is plain loss.
fn classify_loss(view: &IntervalContext, at: usize, plain: IntervalState) -> IntervalState {
    let around = at.saturating_sub(2)..=at;
    let trips = around.filter_map(|i| view.before.get(i).unwrap_or(view.now).rtt_us);
    let queued = view.run.has_queue_of_others
        || view.run.has_short_queue
        || view.run.is_queued_at_loss(trips, view.traits.calm_rtt);
    let level_bps = view.run.level_at_bps(view.now.to_us);
    match queued {
        true if view.rate_bps >= ClassifierTuning::SAG_RATIO * level_bps => IntervalState::Sawtooth,
        true if is_first_loss(view, at) => IntervalState::Overshot,
        true => IntervalState::Sawtooth,
        false => plain,
    }
}

/// Returns true if the losses until `at` are those of the end of slow start: it overran the path in the
/// first round trips, and nothing was lost since it recovered.
fn is_first_loss(view: &IntervalContext, at: usize) -> bool {
    let until = &view.before[..view.before.len().min(at + 1)];
    let began = until.iter().position(SampleInterval::has_retransmits).unwrap_or(at);
    let spans = until.chunk_by(|a, b| a.has_retransmits() == b.has_retransmits());
    let episodes = spans.filter(|span| span[0].has_retransmits()).count();
    began <= ClassifierTuning::SLOW_START_INTERVALS
        && view.before.len() <= 2 * ClassifierTuning::SLOW_START_INTERVALS
        && episodes <= 1
}

/// Returns the seconds from a loss, before this interval, until the window has its former size (at least
/// 1 s): CUBIC's K, or a round trip for each segment of half of the window with Reno.
fn compute_recovery_seconds(view: &IntervalContext, until: usize) -> f64 {
    let windows = view.before[..until].iter().rev().take(3).filter_map(|i| i.tcp);
    let segments = windows.map(|t| t.cwnd_bytes as f64 / t.mss_bytes.max(1) as f64);
    let greatest = segments.fold(0.0, f64::max);
    let rtt_s = view.run.idle_rtt_us.unwrap_or(0) as f64 / 1e6;
    let reno = if view.traits.is_reno { greatest / 2.0 * rtt_s } else { 0.0 };
    compute_cubic_cycle_s(greatest).max(reno).max(1.0)
}

/// Above ssthresh, without loss or queue, and still growing: slow start was left too early. A window that
/// grows since a loss without a queue is as small as that loss made it (Mathis 1997).
fn match_climbing(view: &IntervalContext) -> Option<IntervalState> {
    let tcp = view.now.tcp?;
    let earlier = view.before.len().saturating_sub(ClassifierTuning::WINDOW_MEMORY);
    let past = view.before.get(earlier)?.tcp?.cwnd_bytes;
    let gains = tcp.cwnd_bytes as f64 > past as f64 * ClassifierTuning::GROWTH_RATIO;
    let full = tcp.unacked_bytes as f64 >= 0.7 * tcp.cwnd_bytes as f64;
    let last_loss = view.before.iter().rposition(SampleInterval::has_retransmits);
    let is_loss = last_loss.is_some_and(|at| {
        classify_loss(view, at, IntervalState::Recovering) == IntervalState::Recovering
    });
    let state = if is_loss { IntervalState::Recovering } else { IntervalState::Climbing };
    (gains && full && !view.run.flat).then_some(state)
}
