//! Derives the traits of a whole stream before its intervals are judged.
//!
//! Standing queue, moving congestion window, small send buffer, application that keeps a requested
//! rate: single samples show these only by chance.
//!
//! Source: our experiments (docs/methods). Units: shares of the samples, bytes. Error: one sample.
//! Wrong when: the stream changes its traits during the run; the prevailing ones are used.

use super::interval_state::IntervalState;
use super::run_view::RunView;
use super::stream_intervals::SampleInterval;
use crate::stats::quantile::{quantile, sort_finite};
use longhaul_model::report::v1::observation::{ObservedStream, TcpReading};

/// A state that holds for this share of an interval's time determines the interval.
pub const HALF: f64 = 0.5;
/// Outstanding bytes below this share of both windows are limited by the send buffer.
pub const BELOW_WINDOW_RATIO: f64 = 0.9;
/// The parameters of a stream's traits.
struct StreamTraitsTuning;

impl StreamTraitsTuning {
    /// A congestion window that changed by this factor while the rate did not is not the limit.
    const MOVED_RATIO: f64 = 1.2;
    /// If unsent bytes are below this share of the outstanding ones, the buffer has no reserve.
    const NO_RESERVE_RATIO: f64 = 0.1;
    /// A stream whose send buffer ran dry in this share of its samples has a small buffer.
    const DRY_RATIO: f64 = 0.4;
    /// A requested rate is kept if this share of it is reached.
    const KEPT_RATIO: f64 = 0.9;
    /// A standing queue raises even the lower RTTs of a stream. A quarter, because a window slightly
    /// above the BDP takes a while to build its queue.
    const STANDING_QUANTILE: f64 = 0.25;
    /// The quantile for a queue that almost never empties. The bursts of a small send buffer also
    /// queue, in half of the samples and more, but not in these.
    const EVER_STANDING_QUANTILE: f64 = 0.1;
}

#[derive(Debug, Clone, Copy)]
pub struct StreamTraits {
    /// Even the lower RTTs are raised.
    pub standing_queue: bool,
    /// The congestion window changed during the judged part.
    pub window_moved: bool,
    /// The send buffer is smaller than the windows it could fill.
    pub small_buffer: bool,
    /// The application keeps the rate that was requested.
    pub requested_rate_state: Option<IntervalState>,
}

impl StreamTraits {
    pub fn of(
        run: &RunView,
        stream: &ObservedStream,
        intervals: &[SampleInterval],
    ) -> StreamTraits {
        let standing_queue =
            has_standing_queue(run, intervals, StreamTraitsTuning::STANDING_QUANTILE);
        StreamTraits {
            standing_queue,
            window_moved: has_window_moved(run, intervals),
            small_buffer: !has_standing_queue(
                run,
                intervals,
                StreamTraitsTuning::EVER_STANDING_QUANTILE,
            ) && has_small_send_buffer(run, stream, intervals),
            requested_rate_state: find_requested_rate_state(run).filter(|_| !standing_queue),
        }
    }
}

/// Returns the application state if an application keeps its requested rate. It is the limit even
/// if its thread also waited for a core.
fn find_requested_rate_state(run: &RunView) -> Option<IntervalState> {
    let whole = (run.arrivals.from_us(), run.arrivals.to_us());
    let (from_us, to_us) = run.steady.map_or(whole, |s| (s.from_us, s.to_us));
    let reached = run.arrivals.rate_between_bps(from_us, to_us);
    let kept = |asked: Option<u64>| {
        asked.is_some_and(|bps| reached >= StreamTraitsTuning::KEPT_RATIO * bps as f64)
    };
    if kept(run.plan.write_rate_bps) {
        return Some(IntervalState::SenderApp);
    }
    kept(run.plan.read_rate_bps).then_some(IntervalState::ReceiverApp)
}

fn has_standing_queue(run: &RunView, intervals: &[SampleInterval], share: f64) -> bool {
    let judged = intervals.iter().filter(|i| run.is_judged(i));
    let trips = sort_finite(judged.filter_map(|i| i.rtt_us).map(|us| us as f64));
    quantile(&trips, share).is_some_and(|rtt| run.is_rtt_inflated(rtt))
}

fn has_window_moved(run: &RunView, intervals: &[SampleInterval]) -> bool {
    let judged = intervals.iter().filter(|i| run.is_judged(i));
    let windows = sort_finite(judged.filter_map(|i| i.tcp).map(|t| t.cwnd_bytes as f64));
    let ends = quantile(&windows, 0.1).zip(quantile(&windows, 0.9));
    ends.is_some_and(|(low, high)| high > StreamTraitsTuning::MOVED_RATIO * low)
}

/// Returns true if a requested send buffer is smaller than the windows, or the buffer ran dry below
/// them in many samples. Linux lets one write exceed the buffer, so that a small one empties and
/// overfills alternately, and single samples show either.
fn has_small_send_buffer(
    run: &RunView,
    stream: &ObservedStream,
    intervals: &[SampleInterval],
) -> bool {
    let judged = || intervals.iter().filter(|i| run.is_judged(i) && i.tcp.is_some());
    let dry = judged().filter(|i| is_send_buffer_dry(i)).count() as f64;
    let often = dry >= StreamTraitsTuning::DRY_RATIO * judged().count() as f64 && dry > 0.0;
    let rooms =
        sort_finite(judged().filter_map(|i| i.tcp).map(|tcp| compute_window_room(tcp) as f64));
    let asked = stream.sender.send_buffer.filter(|b| b.asked_bytes.is_some());
    let small = asked.zip(rooms.last().copied()).is_some_and(|(buffer, room)| {
        let stored = buffer.stored_bytes.max(buffer.granted_bytes) as f64;
        stored > 0.0 && stored < BELOW_WINDOW_RATIO * room
    });
    often || (small && dry > 0.0) || run.refused_retransmits > 0
}

/// Returns the bytes that the peer and the congestion control allow to be outstanding.
pub fn compute_window_room(tcp: &TcpReading) -> u64 {
    tcp.cwnd_bytes.min(tcp.peer_window_bytes.unwrap_or(u64::MAX))
}

/// Returns true if the sender sleeps in write with nothing unsent, and the windows are not full.
pub fn is_send_buffer_dry(interval: &SampleInterval) -> bool {
    let Some(tcp) = interval.tcp else {
        return false;
    };
    let reserve = (StreamTraitsTuning::NO_RESERVE_RATIO * tcp.unacked_bytes as f64)
        .max(2.0 * tcp.mss_bytes as f64);
    let dry = tcp.unsent_bytes.is_some_and(|unsent| unsent as f64 <= reserve);
    let below = (tcp.unacked_bytes as f64) < BELOW_WINDOW_RATIO * compute_window_room(tcp) as f64;
    interval.sender.asleep() >= HALF && dry && below
}
