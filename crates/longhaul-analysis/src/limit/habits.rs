//! What is true of one stream from its beginning to its end, before its intervals are judged?
//!
//! Whether a queue stands, whether the congestion window moves, whether the send buffer is too small,
//! whether an application keeps a rate that it was asked for. Single samples show these by chance only.
//!
//! Source: our experiments (docs/methods). Units: shares of the samples, bytes. Error: a sample.
//! Wrong when: the stream changes its habits in mid-run; the usual ones are taken.

use super::intervals::Interval;
use super::scene::Scene;
use super::state::State;
use crate::stats::quantile::{quantile, sorted};
use longhaul_model::report::v1::observation::{Stream, Tcp};

/// An interval belongs to what held it for this share of its time.
pub const HALF: f64 = 0.5;
/// Outstanding bytes below this share of both windows are held by the send buffer.
pub const BELOW_WINDOW_RATIO: f64 = 0.9;
/// A congestion window that moved by this factor while the rate did not is not the limit.
const MOVED_RATIO: f64 = 1.2;
/// Unsent bytes below this share of the outstanding ones: the buffer has no reserve.
const NO_RESERVE_RATIO: f64 = 0.1;
/// A stream that is dry in this share of its samples has a small buffer.
const DRY_RATIO: f64 = 0.4;
/// An asked rate is kept when this share of it is reached.
const KEPT_RATIO: f64 = 0.9;
/// Retransmissions that the kernel refused for want of buffer, as a share of those it made.
const REFUSED_RATIO: f64 = 0.5;
/// The lower round trips of a stream with a standing queue are themselves raised. A quarter, since a
/// window a little above the BDP takes a while to build its queue.
const STANDING_QUANTILE: f64 = 0.25;
/// Those of a queue that hardly ever empties. The bursts that a small send buffer makes queue too,
/// in half of the samples and more, but not in these.
const EVER_STANDING_QUANTILE: f64 = 0.1;

#[derive(Debug, Clone, Copy)]
pub struct Habits {
    /// The lower round trips are raised.
    pub standing_queue: bool,
    /// The congestion window moved while it was judged.
    pub window_moved: bool,
    /// The send buffer is smaller than the windows it could fill.
    pub small_buffer: bool,
    /// An application was asked for a rate, and keeps it.
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

/// An application that was asked to be slow and is as slow as that is the limit, also where its thread
/// had to wait for a core besides.
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

/// A send buffer that was asked for and is smaller than the windows, or one that ran dry below them in
/// many of the samples. Linux lets one write run past the buffer, so that a small one empties and
/// overfills in turns, and single samples show either.
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

/// Since 2019 Linux does not split a queued segment to send it again while the queue is far over its
/// buffer: one loss then takes a round trip per few segments to mend, and it is the buffer's doing.
/// How often that happened; 0 where it was too seldom to matter.
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

/// What the peer and the congestion control would let be outstanding.
pub fn room(tcp: &Tcp) -> u64 {
    tcp.cwnd_bytes
        .min(tcp.peer_window_bytes.unwrap_or(u64::MAX))
}

/// The sender sleeps in write, its kernel has nothing unsent, and the windows are not full.
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
