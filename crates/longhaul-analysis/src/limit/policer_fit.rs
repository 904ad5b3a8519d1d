//! Detects a policer, which drops the excess over a rate without queueing it.
//!
//! Methods for losses that no queue preceded. *Replay* (Flach et al., SIGCOMM 2016, constants
//! of its public code): fill a bucket at the rate found between first and last loss and drain it by
//! the bytes that passed; if it is equally empty at all losses, and emptier than at the loss-free
//! times, a bucket exists. *Bursts*: the losses are clustered, and the goodput is far above what
//! the same loss would allow if it were random (Mathis 1997). *Windows*: losses come at larger and more
//! equal windows than random ones do. *Overruns*: more than the rate passed before a part of a window was lost at once.
//! *Probes*: BBR loses all the time, and its probes fill no queue.
//!
//! Source: as named; the clusters are our own experiments (docs/methods). All streams share the one
//! bucket. Units: bit/s, bytes. Error: the rate is the goodput between losses, a few per cent below
//! the true one, or only a lower bound after few losses; the burst is known to one interval's bytes, and
//! not at all if it is only a few round trips at the rate.
//! Wrong when: a link's queue is too short to show in the RTT (it then acts as a bucket), or
//! intervals are much longer than the bucket's refill.

use super::loss_response::compute_min_random_scatter;
use super::loss_slots::{
    LossSlot, LossSlotTuning, build_slots, compute_slot_rate, is_losing_all_the_time,
    list_loss_episodes,
};
use super::loss_windows::{LossWindowTuning, estimate_random_chance};
use super::run_reading::RunView;
use super::visible_queue::{VisibleQueueTuning, has_queue_emptied, is_queue_visible};
use crate::stats::{mad_scale, mean_and_deviation, median, quantile, sort_finite};
use longhaul_model::report::v1::capture::CapturedPolicer;
use std::ops::Range;

/// The parameters of the policer detection.
struct PolicerFitTuning;

impl PolicerFitTuning {
    /// Retransmissions below this share may be random loss and overshoot.
    const MIN_LOSS_RATIO: f64 = 0.0005;
    /// The minimum number of slots with loss: the replay needs a pattern, bursts need a repetition.
    const MIN_REPLAY_SLOTS: usize = 5;
    const MIN_BURST_SLOTS: usize = 2;
    /// The maximum share of losses preceded by a queue (Flach: a fifth). If nearly all slots lose, the
    /// RTTs of repeated segments are less certain.
    const MAX_QUEUED_RATIO: f64 = 0.2;
    const MAX_QUEUED_RATIO_DENSE: f64 = 0.5;
    /// Maximum shares: loss fills outside the tolerance, pass fills below the loss level (Flach).
    const MAX_LOSS_OUTSIDE: f64 = 0.1;
    const MAX_PASS_BELOW: f64 = 0.03;
    /// Tolerance: two round trips at the rate (Flach), and a quarter of a slot for our coarser time.
    const TOLERANCE_RTTS: f64 = 2.0;
    const TOLERANCE_SLOTS: f64 = 0.25;
    /// A bucket evens the rate out over blocks of slots while it loses in nearly all of them. On drawn
    /// networks four slots scatter by 0.4 to 4 % with a policer, and by at least 16 % with random loss.
    /// Longer blocks, where there are slots enough, because timeouts of 200 ms beat with the slots.
    const MIN_BLOCK_SLOTS: usize = 4;
    const BLOCKS: usize = 12;
    const MIN_BLOCKS: usize = 8;
    /// The minimum losses of half of the blocks: with fewer, random losses spread evenly by chance.
    const MIN_BLOCK_LOSSES: f64 = 4.0;
    const FEW_BLOCK_LOSSES: f64 = 10.0;
    const BLOCK_SCATTER: f64 = 0.05;
    const NEARLY_EVEN_SCATTER: f64 = 0.12;
    /// BBR does not slow down for losses, and loses in bursts when the bucket is empty: then this loss
    /// ratio replaces the losses in all blocks, which have to be more even.
    const HEAVY_LOSS_RATIO: f64 = 0.02;
    const HEAVY_BLOCK_SCATTER: f64 = 0.03;
    /// Random losses of so many segments stop a stream by timeouts again and again, so that its rate
    /// scatters by more than this: by 29 to 83 % in eight of nine runs with 10 to 30 % of random loss; the
    /// ninth stalled.
    const STOPPING_LOSS_RATIO: f64 = 0.1;
    const STOPPING_BLOCK_SCATTER: f64 = 0.1;
    /// With BBR, bursts of losses, whatever the rate, at this loss ratio.
    const BBR_LOSS_RATIO: f64 = 0.05;
    /// On a full link BBR's probes raise the RTT by a quarter (Cardwell et al., BBR, 2016): the maximum rise
    /// without one, as a share of the idle RTT, of so many RTTs, and the minimum of segments per RTT that
    /// show it. Under random losses of 2 to 7 % the RTT of full links rose by 15 segments and more.
    const PROBE_RISE_SHARE: f64 = 0.125;
    const PROBE_QUANTILE: f64 = 0.95;
    const MIN_PROBE_SEGMENTS: f64 = 8.0;
    /// The bytes over the mean rate stay within a bucket's: the maximum range of their sum, in standard
    /// deviations of a slot times the root of the number of slots. Independent slots have 0.86 or more
    /// in 95 % (Lo, Econometrica 1991); on drawn networks random loss had 0.87 to 3, policers 0.3 to 1.
    const MAX_SUM_RANGE: f64 = 0.6;
    /// For slots that vary at least so much: others are blocks that scatter little.
    const MIN_SLOT_VARIATION: f64 = 0.3;
    const MIN_RANGE_SLOTS: usize = 50;
    /// Losses in a good part of the slots: the rate found is the policer's.
    const DENSE_RATIO: f64 = 0.6;
    /// The minimum ratio of goodput to the bound of random loss: random loss gave 1.3, a policer 5.9.
    const MIN_OVER_BOUND: f64 = 2.5;
    const MIN_OVER_BOUND_REPLAY: f64 = 1.5;
    /// The more losses are clustered, the less distance to the bound they need: 2.5 with the least
    /// clustering, 2.0 with three times as much.
    const CLUSTERING_WEIGHT: f64 = 0.2;
    const MIN_CLUSTERED_OVER_BOUND: f64 = 3.3;
    /// Losses this clustered hit BBR in bursts.
    const FAR_CLUSTERING: f64 = 12.0;
    /// Above this ratio, few random losses cannot explain the rate, clustered or not.
    const FAR_OVER_BOUND: f64 = 4.0;
    const MIN_FAR_SLOTS: usize = 3;
    /// A single overrun: the minimum number of lost segments, and their share of all sent segments.
    const MIN_OVERRUN_SEGMENTS: f64 = 50.0;
    const MIN_OVERRUN_RATIO: f64 = 0.005;
    /// The minimum ratio of variance to mean of the losses per slot; 1 for random loss.
    const MIN_CLUSTERING: f64 = 4.0;
    /// The same for any method with BBR, whose rate is constant whatever is lost: random losses gave up to
    /// 1.5.
    const MIN_CLUSTERING_BBR: f64 = 2.0;
    /// The maximum ratio of fast intervals to the mean: a policed rate has an upper limit.
    const MAX_TOP_RATIO: f64 = 1.6;
    /// The minimum size of a bucket whose bytes are known, in round trips at the rate.
    const MIN_BURST_TRIPS: f64 = 8.0;
    /// The headers of a segment.
    const HEADER_BYTES: f64 = 52.0;
    /// The minimum number of lost segments (Flach: 15 lost and 15 passed).
    const MIN_LOST_SEGMENTS: f64 = 15.0;
    /// The maximum probability that random losses come at windows as large as those observed.
    const MAX_RANDOM_CHANCE: f64 = 0.001;
    /// The minimum ratio of the goodput to the bound of random loss with that: a transfer that others nearly
    /// stop is far below it.
    const MIN_OVER_BOUND_WINDOWS: f64 = 0.5;
    /// An overrun loses at least this share of the window, in an episode.
    const MIN_OVERRUN_SHARE: f64 = 0.1;
    /// The minimum ratio of the rate in so many slots before an overrun to the policer's: a full link passes
    /// no more than its rate.
    const MIN_OVERRUN_RATE_RATIO: f64 = 1.1;
    const OVERRUN_SLOTS: usize = 2;
    const MIN_OVERRUNS: usize = 2;
}

/// The signs of a bucket in the losses that no queue preceded.
struct PolicerSigns<'s> {
    /// The slot of the first loss.
    first: usize,
    /// The slots at the policed rate: between the first and the last loss, or all after the first one.
    held: &'s [LossSlot],
    /// The bound of random loss.
    random_bps: f64,
    has_pattern: bool,
    random_chance: Option<f64>,
    needs_large_windows: bool,
    has_overruns: bool,
    has_single_overrun: bool,
}

impl PolicerSigns<'_> {
    fn is_repeated(&self) -> bool {
        self.has_pattern || self.needs_large_windows || self.has_overruns
    }

    /// Returns true if losses in few slots show a policer. A short watch of another program sees too few of
    /// them for a pattern, unless the rate is even, large windows lose, a burst that passed was too large, or
    /// BBR's bursts of losses fill no queue. The windows alone are weak evidence.
    fn is_strong(&self, run: &RunView, blocks: Option<LossBlocks>) -> bool {
        let is_own = run.has_own_senders();
        if !self.has_pattern {
            return self.has_overruns || (is_own && !self.needs_large_windows);
        }
        is_own
            || self.has_overruns
            || self.needs_large_windows
            || blocks.is_some_and(LossBlocks::is_even)
            || has_no_probe_queue(run, self.held)
    }

    /// Returns true if random losses hardly come at the windows of the losses.
    fn has_unlikely_windows(&self) -> bool {
        self.random_chance.is_some_and(|chance| chance < LossWindowTuning::MIN_RANDOM_CHANCE)
    }
}

/// Finds a policer in the losses of all streams.
pub fn find_policer(run: &RunView) -> Option<PolicerFit> {
    let slots = build_slots(run);
    let random_chance = estimate_random_chance(&slots, run.streams.len());
    let needs_large_windows =
        random_chance.is_some_and(|it| it < PolicerFitTuning::MAX_RANDOM_CHANCE);
    if !is_suspicious(run, &slots, needs_large_windows) {
        return None;
    }
    let suspected = drop_queued_losses(&slots);
    let signs = find_signs(run, &slots, &suspected, random_chance)?;
    let first = signs.first;
    let rate_bps = measure_policed_rate(signs.held);
    let is_found = (signs.is_repeated() || signs.has_single_overrun)
        && (has_queue_emptied(&slots, first, rate_bps) || !is_queue_visible(run, &slots, rate_bps));
    if !is_found || rate_bps <= 0.0 {
        return None;
    }
    let burst_bytes = measure_burst_bytes(run, &slots[..=first], rate_bps);
    let loss_slots = slots.iter().filter(|slot| slot.lost >= 1.0).count();
    let sparse = (loss_slots as f64) < PolicerFitTuning::DENSE_RATIO * signs.held.len() as f64;
    let is_rare = loss_slots < PolicerFitTuning::MIN_REPLAY_SLOTS;
    let over_bound = compute_slot_rate(signs.held) / signs.random_bps;
    let blocks = measure_loss_blocks(signs.held);
    let may_be_random = over_bound < PolicerFitTuning::MIN_OVER_BOUND_REPLAY
        && blocks.is_some_and(LossBlocks::may_be_random);
    let is_strong = !sparse || signs.is_strong(run, blocks);
    Some(PolicerFit {
        from_us: slots[first].from_us,
        rate_bps,
        burst_bytes,
        loss_ratio: run.loss_ratio.unwrap_or(0.0),
        over_bound,
        loss_slots,
        is_lower_bound: is_rare || (sparse && burst_bytes.is_none()),
        sparse,
        is_likely: is_strong || signs.has_unlikely_windows(),
        is_certain: is_strong && !may_be_random,
        is_from_packets: false,
    })
}

/// Returns true if enough was lost, mostly without a queue, and not by the hosts.
fn is_suspicious(run: &RunView, slots: &[LossSlot], needs_large_windows: bool) -> bool {
    let losing = slots.iter().filter(|slot| slot.lost >= 1.0);
    let count = losing.clone().count();
    let lost: f64 = slots.iter().map(|slot| slot.lost).sum();
    let queued = losing.filter(|slot| slot.queued).count() as f64;
    let max_queued = if is_losing_all_the_time(slots) {
        PolicerFitTuning::MAX_QUEUED_RATIO_DENSE
    } else {
        PolicerFitTuning::MAX_QUEUED_RATIO
    };
    let is_enough = lost >= PolicerFitTuning::MIN_LOST_SEGMENTS
        && run.loss_ratio.is_some_and(|ratio| ratio >= PolicerFitTuning::MIN_LOSS_RATIO);
    (is_enough || needs_large_windows)
        && queued <= max_queued * count as f64
        && count >= PolicerFitTuning::MIN_BURST_SLOTS
        && !run.is_dropped_by_hosts()
}

/// Looks for all signs in the slots; those of `suspected` are without the losses that a queue preceded. `None`
/// without a bound of random loss.
fn find_signs<'s>(
    run: &RunView,
    slots: &[LossSlot],
    suspected: &'s [LossSlot],
    random_chance: Option<f64>,
) -> Option<PolicerSigns<'s>> {
    let first = slots.iter().position(|slot| slot.lost >= 1.0)?;
    let last = slots.iter().rposition(|slot| slot.lost >= 1.0)?;
    let lost: f64 = slots.iter().map(|slot| slot.lost).sum();
    let unqueued: f64 = suspected.iter().map(|slot| slot.lost).sum();
    // Random losses would be those without a queue only.
    let random_bps = run.random_loss_bound_bps()? * (lost / unqueued).sqrt();
    // The slot of the first loss still contains the burst; the rest is at the policed rate.
    let between = suspected.get(first + 1..=last).unwrap_or(&[]);
    let after = suspected.get(first + 1..).unwrap_or(&[]);
    let rate_bps = compute_slot_rate(between);
    // BBR is far above the bound of random losses whatever is lost, so its losses have to come in bursts.
    let is_telling =
        !run.bbr || measure_clustering(between) >= PolicerFitTuning::MIN_CLUSTERING_BBR;
    let mss = run.mss_bytes.unwrap_or(LossSlotTuning::USUAL_MSS);
    let signs = PolicerSigns {
        first,
        held: between,
        random_bps,
        has_pattern: (is_telling && has_bucket_pattern(run, between, random_bps))
            || is_probing_without_queue(run, between, random_bps),
        random_chance,
        needs_large_windows: random_chance
            .is_some_and(|it| it < PolicerFitTuning::MAX_RANDOM_CHANCE)
            && rate_bps >= PolicerFitTuning::MIN_OVER_BOUND_WINDOWS * random_bps,
        has_overruns: rate_bps >= PolicerFitTuning::FAR_OVER_BOUND * random_bps
            && is_overrun_only(suspected, mss, rate_bps),
        has_single_overrun: false,
    };
    if signs.is_repeated() {
        return Some(signs);
    }
    let is_overrun = suspected[first].lost >= 1.0 && is_telling;
    let has_single_overrun = is_overrun && is_single_overrun(run, after, lost, random_bps);
    Some(PolicerSigns { held: after, has_single_overrun, ..signs })
}

/// Returns true if all losses are overruns: more than the rate passed, until a good part of a window was lost
/// at once.
fn is_overrun_only(slots: &[LossSlot], mss: u64, rate_bps: f64) -> bool {
    let is_overrun = |episode: &Range<usize>| {
        let lost: f64 = slots[episode.clone()].iter().map(|slot| slot.lost).sum();
        let window = slots[episode.start].window_bytes / mss as f64;
        let from = episode.start.saturating_sub(PolicerFitTuning::OVERRUN_SLOTS);
        let passed_bps = compute_slot_rate(&slots[from..episode.start]);
        lost >= PolicerFitTuning::MIN_OVERRUN_SEGMENTS
            && lost >= PolicerFitTuning::MIN_OVERRUN_SHARE * window
            && passed_bps >= PolicerFitTuning::MIN_OVERRUN_RATE_RATIO * rate_bps
    };
    let episodes = list_loss_episodes(slots);
    episodes.len() >= PolicerFitTuning::MIN_OVERRUNS && episodes.iter().all(is_overrun)
}

/// Returns the slots without the losses that a queue preceded, which are not a policer's.
fn drop_queued_losses(slots: &[LossSlot]) -> Vec<LossSlot> {
    let drop =
        |slot: &LossSlot| LossSlot { lost: if slot.queued { 0.0 } else { slot.lost }, ..*slot };
    slots.iter().map(drop).collect()
}

/// Describes a policer that the packets of a capture showed, in bytes of payload.
pub fn describe_captured_policer(run: &RunView, policer: CapturedPolicer) -> PolicerFit {
    let mss = run.mss_bytes.unwrap_or(LossSlotTuning::USUAL_MSS) as f64;
    let payload_ratio = mss / (mss + PolicerFitTuning::HEADER_BYTES);
    let rate_bps = policer.rate_bps as f64 * payload_ratio;
    PolicerFit {
        from_us: 0,
        rate_bps,
        burst_bytes: policer.burst_bytes.map(|bytes| bytes as f64 * payload_ratio),
        loss_ratio: run.loss_ratio.unwrap_or(0.0),
        over_bound: run.random_loss_bound_bps().map_or(1.0, |bound| run.level_bps / bound),
        loss_slots: build_slots(run).iter().filter(|slot| slot.lost >= 1.0).count(),
        is_lower_bound: policer.is_lower_bound,
        sparse: false,
        is_likely: true,
        is_certain: true,
        is_from_packets: true,
    }
}

/// Returns true if one of the methods finds a bucket in the slots between first and last loss.
fn has_bucket_pattern(run: &RunView, held: &[LossSlot], random_bps: f64) -> bool {
    if held.is_empty() {
        return false;
    }
    let rate_bps = compute_slot_rate(held);
    let over_bound = rate_bps / random_bps;
    measure_loss_blocks(held).is_some_and(|blocks| {
        is_dense_loss(run, held, blocks) || (blocks.is_losing && is_bounded_sum(held))
    }) || matches_replay(run, held, rate_bps, over_bound)
        || has_loss_bursts(held, over_bound)
        || is_far_above_random(held, rate_bps, over_bound)
}

/// Detects a single overrun, which on a long path may be the only sign: a large part of the bytes
/// in flight was lost without a queue, and random loss cannot explain the rate that followed. The
/// rate found is what TCP had grown back to, and may be below the policer's.
fn is_single_overrun(run: &RunView, after: &[LossSlot], lost: f64, random_bps: f64) -> bool {
    lost >= PolicerFitTuning::MIN_OVERRUN_SEGMENTS
        && run.loss_ratio.is_some_and(|ratio| ratio >= PolicerFitTuning::MIN_OVERRUN_RATIO)
        && compute_slot_rate(after) >= PolicerFitTuning::FAR_OVER_BOUND * random_bps
}

/// Returns true if nearly every block of slots has loss and yet the rate is constant, or more constant than
/// so much loss allows, or the loss is heavy and in bursts.
fn is_dense_loss(run: &RunView, held: &[LossSlot], blocks: LossBlocks) -> bool {
    let clustering = measure_clustering(held);
    let loss_ratio = run.loss_ratio.unwrap_or(0.0);
    let is_heavy = loss_ratio >= PolicerFitTuning::HEAVY_LOSS_RATIO
        && blocks.scatter_ratio < PolicerFitTuning::HEAVY_BLOCK_SCATTER
        && clustering >= PolicerFitTuning::MIN_CLUSTERING;
    let is_even_without_stops = !run.bbr
        && blocks.is_losing
        && loss_ratio >= PolicerFitTuning::STOPPING_LOSS_RATIO
        && blocks.scatter_ratio < PolicerFitTuning::STOPPING_BLOCK_SCATTER;
    let is_bursty_bbr = run.bbr
        && loss_ratio >= PolicerFitTuning::BBR_LOSS_RATIO
        && clustering >= PolicerFitTuning::FAR_CLUSTERING;
    blocks.is_even() || is_heavy || is_even_without_stops || is_bursty_bbr
}

/// Returns true if BBR loses all the time at a constant rate, and its probes fill no queue.
fn is_probing_without_queue(run: &RunView, held: &[LossSlot], random_bps: f64) -> bool {
    let is_even = |blocks: LossBlocks| {
        blocks.is_losing && blocks.scatter_ratio < PolicerFitTuning::HEAVY_BLOCK_SCATTER
    };
    run.loss_ratio.is_some_and(|ratio| ratio >= PolicerFitTuning::HEAVY_LOSS_RATIO)
        && compute_slot_rate(held) >= PolicerFitTuning::MIN_OVER_BOUND * random_bps
        && measure_loss_blocks(held).is_some_and(is_even)
        && has_no_probe_queue(run, held)
}

/// Returns true if BBR's probes would show in the RTT of a full link, and do not.
fn has_no_probe_queue(run: &RunView, held: &[LossSlot]) -> bool {
    let idle_us = run.idle_rtt_us.unwrap_or(0) as f64;
    let segment_us = run.segment_us(compute_slot_rate(held));
    let max_rise_us = (PolicerFitTuning::PROBE_RISE_SHARE * idle_us)
        .min(VisibleQueueTuning::RISE_SEGMENTS * segment_us);
    let trips = sort_finite(held.iter().filter_map(|slot| slot.rtt_us).map(|us| us as f64));
    run.bbr
        && idle_us >= PolicerFitTuning::MIN_PROBE_SEGMENTS * segment_us
        && quantile(&trips, PolicerFitTuning::PROBE_QUANTILE)
            .is_some_and(|high_us| high_us - idle_us <= max_rise_us)
}

/// Returns true if the rate changes from slot to slot, as after timeouts, but the sum of all bytes is
/// never far from the mean rate: a bucket holds so many bytes.
fn is_bounded_sum(held: &[LossSlot]) -> bool {
    let mean_bytes_s = compute_slot_rate(held) / 8.0;
    let (mut sum, mut low, mut high, mut squares) = (0.0_f64, 0.0_f64, 0.0_f64, 0.0_f64);
    for slot in held {
        let excess = slot.bytes - mean_bytes_s * slot.seconds();
        sum += excess;
        (low, high) = (low.min(sum), high.max(sum));
        squares += excess * excess;
    }
    let mean_bytes = held.iter().map(|slot| slot.bytes).sum::<f64>() / held.len() as f64;
    let deviation = (squares / held.len() as f64).sqrt();
    held.len() >= PolicerFitTuning::MIN_RANGE_SLOTS
        && deviation >= PolicerFitTuning::MIN_SLOT_VARIATION * mean_bytes
        && high - low <= PolicerFitTuning::MAX_SUM_RANGE * squares.sqrt()
}

/// Returns true if the run loses all the time at a rate that is more even than random losses usually
/// leave it: a policer whose bucket holds a few packets looks alike.
pub fn is_nearly_even(run: &RunView) -> bool {
    let blocks = measure_loss_blocks(&build_slots(run));
    blocks
        .is_some_and(|it| it.is_losing && it.scatter_ratio < PolicerFitTuning::NEARLY_EVEN_SCATTER)
}

/// Blocks of slots, long enough for a bucket to even the rate out.
#[derive(Debug, Clone, Copy)]
struct LossBlocks {
    /// Nearly all of them lose, and half of them more than a few segments.
    is_losing: bool,
    /// The scatter of their rates, as a share of the median.
    scatter_ratio: f64,
    /// Their standard deviation, as a share of the mean.
    deviation_ratio: f64,
    usual_losses: f64,
}

impl LossBlocks {
    /// Returns true if the rate is constant although nearly every block loses.
    fn is_even(self) -> bool {
        self.is_losing && self.usual_scatter() < PolicerFitTuning::BLOCK_SCATTER
    }

    /// Returns true if random losses can leave the rate as constant as it is.
    fn may_be_random(self) -> bool {
        self.usual_scatter() > compute_min_random_scatter(self.usual_losses)
    }

    /// Returns the scatter of the rates. If the losses are few, half of the blocks may be alike by chance.
    fn usual_scatter(self) -> f64 {
        let are_few = self.usual_losses < PolicerFitTuning::FEW_BLOCK_LOSSES;
        if are_few { self.deviation_ratio } else { self.scatter_ratio }
    }
}

fn measure_loss_blocks(held: &[LossSlot]) -> Option<LossBlocks> {
    let slots = (held.len() / PolicerFitTuning::BLOCKS).max(PolicerFitTuning::MIN_BLOCK_SLOTS);
    let blocks: Vec<&[LossSlot]> = held.chunks_exact(slots).collect();
    let losses: Vec<f64> =
        blocks.iter().map(|block| block.iter().map(|slot| slot.lost).sum()).collect();
    let losing = losses.iter().filter(|lost| **lost >= 1.0).count() as f64;
    let usual_losses = median(losses.iter().copied())?;
    let rates: Vec<f64> = blocks.iter().map(|block| compute_slot_rate(block)).collect();
    let level = median(rates.iter().copied()).filter(|level| *level > 0.0)?;
    let is_losing = losing >= LossSlotTuning::LOSING_RATIO * blocks.len() as f64
        && usual_losses >= PolicerFitTuning::MIN_BLOCK_LOSSES;
    let scatter_ratio = mad_scale(&rates)? / level;
    let (mean, deviation) = mean_and_deviation(&rates)?;
    (blocks.len() >= PolicerFitTuning::MIN_BLOCKS).then_some(LossBlocks {
        is_losing,
        scatter_ratio,
        deviation_ratio: deviation / mean,
        usual_losses,
    })
}

/// Returns the ratio of variance to mean of the losses per slot without a queue.
fn measure_clustering(held: &[LossSlot]) -> f64 {
    let unqueued = held.iter().filter(|slot| !slot.queued);
    let losses: Vec<f64> = unqueued.map(|slot| slot.lost).collect();
    let moments = mean_and_deviation(&losses).filter(|(mean, _)| *mean > 0.0);
    moments.map_or(0.0, |(mean, deviation)| deviation * deviation / mean)
}

fn matches_replay(run: &RunView, held: &[LossSlot], rate_bps: f64, over_bound: f64) -> bool {
    let (on_loss, on_pass) = replay_bucket_fills(held, rate_bps);
    if on_loss.len() < PolicerFitTuning::MIN_REPLAY_SLOTS
        || on_pass.len() < PolicerFitTuning::MIN_REPLAY_SLOTS
    {
        return false;
    }
    let middle = |fills: &[f64]| median(fills.iter().copied()).unwrap_or(0.0);
    let mean = |fills: &[f64]| fills.iter().sum::<f64>() / fills.len() as f64;
    let trip = rate_bps / 8.0 * run.idle_rtt_us.unwrap_or(0) as f64 / 1e6;
    let grain = rate_bps / 8.0 * PolicerFitTuning::TOLERANCE_SLOTS * held[0].seconds();
    let level = middle(&on_loss);
    let outside = |f: &&f64| (**f - level).abs() > PolicerFitTuning::TOLERANCE_RTTS * trip + grain;
    let below = |f: &&f64| **f < level - 0.75 * trip - grain;
    over_bound >= PolicerFitTuning::MIN_OVER_BOUND_REPLAY
        && middle(&on_pass) > level
        && mean(&on_pass) > mean(&on_loss)
        && on_loss.iter().filter(outside).count() as f64
            <= PolicerFitTuning::MAX_LOSS_OUTSIDE * on_loss.len() as f64
        && on_pass.iter().filter(below).count() as f64
            <= PolicerFitTuning::MAX_PASS_BELOW * on_pass.len() as f64
}

/// Few losses, far too few for the rate, always after the bucket was drained, and a limited rate.
fn is_far_above_random(held: &[LossSlot], rate_bps: f64, over_bound: f64) -> bool {
    let (on_loss, on_pass) = replay_bucket_fills(held, rate_bps);
    let mean = |fills: &[f64]| fills.iter().sum::<f64>() / fills.len() as f64;
    on_loss.len() >= PolicerFitTuning::MIN_FAR_SLOTS
        && !on_pass.is_empty()
        && over_bound >= PolicerFitTuning::FAR_OVER_BOUND
        && mean(&on_pass) > mean(&on_loss)
        && has_rate_limit(held)
}

/// Returns the bucket's fill at the end of each slot without a queue, for slots with and without loss.
fn replay_bucket_fills(held: &[LossSlot], rate_bps: f64) -> (Vec<f64>, Vec<f64>) {
    let (mut fill, mut on_loss, mut on_pass) = (0.0, Vec::new(), Vec::new());
    for slot in held {
        fill += rate_bps / 8.0 * slot.seconds() - slot.bytes;
        if slot.queued {
            continue;
        }
        let fills = if slot.lost >= 1.0 { &mut on_loss } else { &mut on_pass };
        fills.push(fill);
    }
    (on_loss, on_pass)
}

/// Returns true if the fast slots stay near the mean.
fn has_rate_limit(held: &[LossSlot]) -> bool {
    let rates = sort_finite(held.iter().map(|s| s.bytes / s.seconds()));
    let level = rates.iter().sum::<f64>() / rates.len() as f64;
    quantile(&rates, 0.95).is_some_and(|top| top <= PolicerFitTuning::MAX_TOP_RATIO * level)
}

fn has_loss_bursts(held: &[LossSlot], over_bound: f64) -> bool {
    let clustering = measure_clustering(held);
    over_bound * clustering.powf(PolicerFitTuning::CLUSTERING_WEIGHT)
        >= PolicerFitTuning::MIN_CLUSTERED_OVER_BOUND
        && clustering >= PolicerFitTuning::MIN_CLUSTERING
        && has_rate_limit(held)
}

/// Returns the policer's rate: while it drops in one slot after the other, the bucket is empty, and
/// what passes is the rate. Without such slots, the mean between the losses, which may be lower.
fn measure_policed_rate(held: &[LossSlot]) -> f64 {
    let empty = held.windows(2).filter(|pair| pair.iter().all(|slot| slot.lost >= 1.0));
    let rates: Vec<f64> = empty.map(|pair| compute_slot_rate(&pair[1..])).collect();
    let mean = compute_slot_rate(held);
    let is_enough = rates.len() >= PolicerFitTuning::MIN_REPLAY_SLOTS;
    median(rates).filter(|_| is_enough).map_or(mean, |rate| rate.max(mean))
}

/// Returns the bytes above the rate before the first loss: the bucket, which was full at the start. `None`
/// for a bucket of few round trips: slow start empties it with a burst that a slot does not show.
fn measure_burst_bytes(run: &RunView, until_loss: &[LossSlot], rate_bps: f64) -> Option<f64> {
    let excess = |slot: &LossSlot| slot.bytes - rate_bps / 8.0 * slot.seconds();
    let used = until_loss.iter().fold(0.0, |used: f64, slot| (used + excess(slot)).max(0.0));
    let trip_bytes = rate_bps / 8.0 * run.idle_rtt_us.unwrap_or(0) as f64 / 1e6;
    Some(used).filter(|used| *used > 0.0 && *used >= PolicerFitTuning::MIN_BURST_TRIPS * trip_bytes)
}

/// A policer: the excess over its rate is dropped.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PolicerFit {
    pub from_us: u64,
    pub rate_bps: f64,
    /// `None` if the bucket is too small to be seen.
    pub burst_bytes: Option<f64>,
    pub loss_ratio: f64,
    /// Goodput divided by the bound of random loss at this ratio.
    pub over_bound: f64,
    pub loss_slots: usize,
    /// TCP hardly reached the policer's rate again: few intervals had loss, or a bucket that is too small
    /// to be seen drops the bursts of a lower rate.
    pub is_lower_bound: bool,
    /// Most intervals had no loss: the rate is that of TCP growing back, and the policer's rate may
    /// be higher.
    pub sparse: bool,
    /// The losses are enough to name a policer, and not only to doubt another limit.
    pub is_likely: bool,
    /// They tell it from random loss, in bursts too.
    pub is_certain: bool,
    /// It explains which packets were lost.
    pub is_from_packets: bool,
}

#[cfg(test)]
mod tests {
    use super::{is_bounded_sum, is_overrun_only};
    use crate::limit::loss_slots::build_losing_slots;
    use longhaul_model::splitmix::SplitMix64;

    const SLOTS: usize = 99;

    /// A bucket of 174 kB that empties in 100 ms and fills during a timeout of 200 ms.
    fn stop_and_go_bytes() -> Vec<f64> {
        (0..SLOTS).map(|number| [150e3, 12e3, 0.0][number % 3]).collect()
    }

    #[test]
    fn stop_and_go_within_a_bucket_is_a_bounded_sum_and_in_random_order_is_not() {
        assert!(is_bounded_sum(&build_losing_slots(&stop_and_go_bytes(), |_| 4_000)));
        for seed in 0..100 {
            let mut random = SplitMix64::new(seed);
            let mut bytes = stop_and_go_bytes();
            for number in (1..SLOTS).rev() {
                bytes.swap(number, random.below(number + 1));
            }
            assert!(!is_bounded_sum(&build_losing_slots(&bytes, |_| 4_000)), "seed {seed}");
        }
    }

    #[test]
    fn a_bucket_passes_more_than_its_rate_until_a_part_of_a_window_is_lost_at_once() {
        // 100 segments of a window of 600 are lost after a second, and again after three.
        let slots_passing = |before: f64| {
            let mut slots = build_losing_slots(&[2e6; SLOTS], |_| 39_000);
            for slot in &mut slots {
                (slot.lost, slot.window_bytes) = (0.0, 868_800.0);
            }
            for number in [10, 30] {
                slots[number].lost = 100.0;
                (slots[number - 2].bytes, slots[number - 1].bytes) = (before, before);
            }
            slots
        };
        let policed = slots_passing(4e6);
        assert!(is_overrun_only(&policed, 1_448, 168e6));
        // A full link passes no more than its rate.
        assert!(!is_overrun_only(&slots_passing(2.1e6), 1_448, 168e6));
        // Not every loss is an overrun, and one alone is a coincidence.
        let mut mixed = policed.clone();
        mixed[50].lost = 1.0;
        assert!(!is_overrun_only(&mixed, 1_448, 168e6));
        assert!(!is_overrun_only(&policed[..20], 1_448, 168e6));
    }

    #[test]
    fn a_constant_rate_is_left_to_the_scatter_of_its_blocks() {
        assert!(!is_bounded_sum(&build_losing_slots(&[54e3; SLOTS], |_| 4_000)));
    }
}
