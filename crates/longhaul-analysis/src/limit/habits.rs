//! Derives the traits of a whole stream before its intervals are judged.
//!
//! Standing queue, moving congestion window, small send buffer, application that keeps a requested
//! rate: single samples show these only by chance.
//!
//! Source: our experiments (docs/methods). Units: shares of the samples, bytes. Error: one sample.
//! Wrong when: the stream changes its traits during the run; the prevailing ones are used.

use super::intervals::Interval;
use super::scene::Scene;
use super::state::State;
use crate::stats::quantile::{quantile, sorted};
use longhaul_model::report::v1::observation::{Stream, Tcp};

/// A state that holds for this share of an interval's time determines the interval.
pub const HALF: f64 = 0.5;
/// Outstanding bytes below this share of both windows are limited by the send buffer.
pub const BELOW_WINDOW_RATIO: f64 = 0.9;
/// A congestion window that changed by this factor while the rate did not is not the limit.
const MOVED_RATIO: f64 = 1.2;
/// If unsent bytes are below this share of the outstanding ones, the buffer has no reserve.
const NO_RESERVE_RATIO: f64 = 0.1;
/// A stream whose send buffer ran dry in this share of its samples has a small buffer.
const DRY_RATIO: f64 = 0.4;
/// A requested rate is kept if this share of it is reached.
const KEPT_RATIO: f64 = 0.9;
/// The minimum share of retransmissions that the kernel deferred because of the send buffer.
const REFUSED_RATIO: f64 = 0.5;
/// A standing queue raises even the lower RTTs of a stream. A quarter, because a window slightly
/// above the BDP takes a while to build its queue.
const STANDING_QUANTILE: f64 = 0.25;
/// The quantile for a queue that almost never empties. The bursts of a small send buffer also
/// queue, in half of the samples and more, but not in these.
const EVER_STANDING_QUANTILE: f64 = 0.1;

#[derive(Debug, Clone, Copy)]
pub struct Habits {
    /// Even the lower RTTs are raised.
    pub standing_queue: bool,
    /// The congestion window changed during the judged part.
    pub window_moved: bool,
    /// The send buffer is smaller than the windows it could fill.
    pub small_buffer: bool,
    /// The application keeps the rate that was requested.
    pub as_asked: Option<State>,
}

impl Habits {
    pub fn of(scene: &Scene, stream: &Stream, intervals: &[Interval]) -> Habits {
        let standing_queue = stands(scene, intervals, STANDING_QUANTILE);
        Habits {
            standing_queue,
            window_moved: moved(scene, intervals),
            small_buffer: !stands(scene, intervals, EVER_STANDING_QUANTILE)
                && runs_dry(scene, stream, intervals),
            as_asked: as_asked(scene).filter(|_| !standing_queue),
        }
    }
}

/// Returns the application state if an application keeps its requested rate. It is the limit even
/// if its thread also waited for a core.
fn as_asked(scene: &Scene) -> Option<State> {
    let whole = (scene.arrivals.from_us(), scene.arrivals.to_us());
    let (from_us, to_us) = scene.steady.map_or(whole, |s| (s.from_us, s.to_us));
    let reached = scene.arrivals.rate_between_bps(from_us, to_us);
    let kept = |asked: Option<u64>| asked.is_some_and(|bps| reached >= KEPT_RATIO * bps as f64);
    if kept(scene.plan.write_rate_bps) {
        return Some(State::SenderApp);
    }
    kept(scene.plan.read_rate_bps).then_some(State::ReceiverApp)
}

fn stands(scene: &Scene, intervals: &[Interval], share: f64) -> bool {
    let judged = intervals.iter().filter(|i| scene.is_judged(i));
    let trips = sorted(judged.filter_map(|i| i.rtt_us).map(|us| us as f64));
    quantile(&trips, share).is_some_and(|rtt| scene.inflated(rtt))
}

fn moved(scene: &Scene, intervals: &[Interval]) -> bool {
    let judged = intervals.iter().filter(|i| scene.is_judged(i));
    let windows = sorted(judged.filter_map(|i| i.tcp).map(|t| t.cwnd_bytes as f64));
    let ends = quantile(&windows, 0.1).zip(quantile(&windows, 0.9));
    ends.is_some_and(|(low, high)| high > MOVED_RATIO * low)
}

/// Returns true if a requested send buffer is smaller than the windows, or the buffer ran dry below
/// them in many samples. Linux lets one write exceed the buffer, so that a small one empties and
/// overfills alternately, and single samples show either.
fn runs_dry(scene: &Scene, stream: &Stream, intervals: &[Interval]) -> bool {
    let judged = || {
        intervals
            .iter()
            .filter(|i| scene.is_judged(i) && i.tcp.is_some())
    };
    let dry = judged().filter(|i| is_dry(i)).count() as f64;
    let often = dry >= DRY_RATIO * judged().count() as f64 && dry > 0.0;
    let rooms = sorted(judged().filter_map(|i| i.tcp).map(|tcp| room(tcp) as f64));
    let asked = stream
        .sender
        .send_buffer
        .filter(|b| b.asked_bytes.is_some());
    let small = asked
        .zip(rooms.last().copied())
        .is_some_and(|(buffer, room)| {
            let stored = buffer.stored_bytes.max(buffer.granted_bytes) as f64;
            stored > 0.0 && stored < BELOW_WINDOW_RATIO * room
        });
    often || (small && dry > 0.0) || refused_retransmissions(scene) > 0
}

/// Returns the number of retransmissions that the kernel deferred, or 0 if too few to matter. Since
/// 2019 Linux does not split a queued segment to retransmit it while the queue is far over its
/// buffer: repairing a loss then takes a round trip per few segments because of the buffer.
pub fn refused_retransmissions(scene: &Scene) -> u64 {
    let refused = scene.observation.ends.sender.protocol.iter();
    let refused = refused
        .filter(|(name, _)| name.ends_with("TCPWqueueTooBig"))
        .map(|(_, grown)| *grown)
        .fold(0, u64::saturating_add);
    if refused as f64 >= REFUSED_RATIO * scene.retransmitted_segments() as f64 {
        refused
    } else {
        0
    }
}

/// Returns the bytes that the peer and the congestion control allow to be outstanding.
pub fn room(tcp: &Tcp) -> u64 {
    tcp.cwnd_bytes
        .min(tcp.peer_window_bytes.unwrap_or(u64::MAX))
}

/// Returns true if the sender sleeps in write with nothing unsent, and the windows are not full.
pub fn is_dry(interval: &Interval) -> bool {
    let Some(tcp) = interval.tcp else {
        return false;
    };
    let reserve = (NO_RESERVE_RATIO * tcp.unacked_bytes as f64).max(2.0 * tcp.mss_bytes as f64);
    let dry = tcp
        .unsent_bytes
        .is_some_and(|unsent| unsent as f64 <= reserve);
    let below = (tcp.unacked_bytes as f64) < BELOW_WINDOW_RATIO * room(tcp) as f64;
    interval.sender.asleep() >= HALF && dry && below
}
