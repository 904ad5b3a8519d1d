//! Finds the token bucket that explains the packets lost in a capture.
//!
//! Every packet is replayed through buckets of many rates and depths: each fills at its rate up to
//! its depth, and is drained by the packets that passed. With the right bucket, lost packets find
//! too few tokens and the others find enough. The two shares together (Youden's index) measure how
//! well a bucket explains the losses; by chance the index is about zero. Each round trip with losses
//! counts once, however many packets it lost: the overshoot of one slow start, which any bucket
//! explains, often loses more packets than all the rest of a run. A drop-tail queue acts
//! like a bucket too, so RTTs decide: in a queue they grow with the time that the bucket needs to fill, in
//! a policer they do not.
//!
//! Source: the replay is that of Flach et al., SIGCOMM 2016, which fills one bucket without a depth
//! at the goodput between the first and the last loss; rate and depth are searched here, and all
//! streams of a run share the bucket. Units: bytes of IP, microseconds, bit/s.
//! Error: of 180 drawn policers 178 were found, 22 of them with a lower bound of the rate; 154 of the other
//! 156 rates were within 10 %, and the depths within 25 % (the steps of the search).
//! Wrong when: the policer is shared with traffic that is not in the capture (rate and depth are
//! then what that traffic left), or a second limit loses most of the packets.

use crate::stats::{median, quantile, sort_finite};
use longhaul_model::report::v1::capture::CapturedPolicer;
use std::collections::HashMap;

/// The parameters of the replay of packets.
struct PacketReplayTuning;

impl PacketReplayTuning {
    /// The minimum number of losses and passes (Flach), and of round trips that contain losses.
    const MIN_LOST_PACKETS: usize = 15;
    const MIN_LOSS_ROUND_TRIPS: usize = 3;
    /// The minimum shares of losses and passes that a policer explains, and their minimum index. Random
    /// loss of 2 % gave an index of 0.12; the hardest policer of our captures, one of 2 MB, 0.61.
    const MIN_EXPLAINED_RATIO: f64 = 0.75;
    const MIN_INDEX: f64 = 0.58;
    /// The greatest index that random loss reached, times the root of the number of round trips with
    /// losses: 700 simulated runs of Reno, whose losses come mostly at the top of a sawtooth.
    const CHANCE_INDEX: f64 = 2.6;
    const MAX_CHANCE_INDEX: f64 = 0.85;
    /// The maximum rise of RTTs before losses, as a share of the bucket's fill time, if the bucket is about
    /// equally full all the time: a queue gave 0.4 to 1.0, policers at most 0.03.
    const MAX_RISE_RATIO: f64 = 0.15;
    /// The slope of the RTT over the time that the bucket needs to fill. On 180 drawn policers it was 0.00,
    /// on 50 queues that act like buckets 0.14 to 5, with one of 0.10.
    const MIN_QUEUE_SLOPE: f64 = 0.1;
    const MAX_BUCKET_SLOPE: f64 = 0.05;
    /// The minimum number of RTTs for it, and the range of these times.
    const MIN_ROUND_TRIPS: usize = 20;
    const MIN_WAIT_RANGE_US: f64 = 100.0;
    /// The delay that clocks and other queues add to any RTT.
    const NO_RISE_US: f64 = 200.0;
    /// The minimum number of RTTs just before losses to distinguish a queue from a bucket.
    const MIN_RISES: usize = 5;
    /// Steps of the search: rates around the goodput between losses, depths from two packets up; then a
    /// finer search around the best, since over many losses one per cent of the rate fills a bucket.
    const RATE_STEPS: i32 = 58;
    const MIN_RATE_RATIO: f64 = 0.6;
    const RATE_STEP: f64 = 1.02;
    const DEPTH_STEPS: i32 = 26;
    const MIN_DEPTH_BYTES: f64 = 3000.0;
    const DEPTH_STEP: f64 = 1.32;
    /// Far above the goodput lie the rates of buckets that only bursts overrun.
    const FAR_RATE_STEPS: i32 = 24;
    const FAR_RATE_STEP: f64 = 1.1;
    const FINE_RATE_STEPS: i32 = 5;
    const FINE_RATE_STEP: f64 = 1.004;
    const FINE_FAR_RATE_STEP: f64 = 1.01;
    const FINE_DEPTH_STEPS: i32 = 2;
    const FINE_DEPTH_STEP: f64 = 1.12;
    /// The minimum gain of the index for which a deeper bucket is preferred to a shallower one.
    const MIN_DEPTH_GAIN: f64 = 0.004;
    /// Rates and depths above the best, as multiples of it. If one of them explains nearly as much, the best
    /// is only a lower bound: what is sent at less than the rate does not show it, and a bucket that never
    /// fills does not show its depth. On 100 drawn networks wrong rates lost up to 0.03 and right ones 0.08
    /// or more; wrong depths up to 0.02.
    const HIGHER_RATES: [f64; 6] = [1.15, 1.3, 1.6, 2.5, 5.0, 10.0];
    const DEEPER_BUCKETS: [f64; 4] = [1.2, 1.44, 2.0, 4.0];
    const MIN_RATE_DROP: f64 = 0.05;
    const MIN_LOW_RATE_DROP: f64 = 0.02;
    /// A rate is known if no lower one, down from this share of it, explains nearly as much.
    const MIN_KNOWN_RATIO: f64 = 0.9;
    const MIN_DEPTH_DROP: f64 = 0.03;
}

/// A packet with payload, as seen at the sender.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReplayPacket {
    pub at_us: u64,
    pub bytes: u32,
    /// The packet was retransmitted later.
    pub lost: bool,
}

/// The RTT of a packet that was sent once and whose acknowledgement was not delayed by a loss.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PacketRtt {
    pub sent_us: u64,
    pub rtt_us: u64,
    /// Its acknowledgement was for more than one segment, and therefore not delayed.
    pub is_prompt: bool,
}

/// Returns the policer that explains the losses; `None` if nothing does, a queue does as well, or
/// too little was lost. Both lists are in order of time, all streams of a run together. `is_partial`: they
/// begin within a connection, so the bucket may not have been full.
pub fn find_policer_by_packets(
    packets: &[ReplayPacket],
    round_trips: &[PacketRtt],
    is_partial: bool,
) -> Option<CapturedPolicer> {
    let lost: Vec<&ReplayPacket> = packets.iter().filter(|packet| packet.lost).collect();
    let passed = packets.len() - lost.len();
    if lost.len() < PacketReplayTuning::MIN_LOST_PACKETS
        || passed < PacketReplayTuning::MIN_LOST_PACKETS
    {
        return None;
    }
    let prompt: Vec<PacketRtt> = round_trips.iter().copied().filter(|it| it.is_prompt).collect();
    let has_prompt = prompt.len() >= PacketReplayTuning::MIN_ROUND_TRIPS;
    let round_trips = if has_prompt { prompt.as_slice() } else { round_trips };
    let idle_us = quantile(&sort_finite(round_trips.iter().map(|it| it.rtt_us as f64)), 0.1)?;
    let losses = count_losses(&lost, idle_us);
    if losses.len() < PacketReplayTuning::MIN_LOSS_ROUND_TRIPS {
        return None;
    }
    let goodput = measure_goodput(packets, lost[0].at_us, lost[lost.len() - 1].at_us)?;
    let weighted = weigh_packets(packets, &losses, idle_us);
    let whole = BucketSearch::new(&weighted, InitialFill::Full);
    let best = whole.find_bucket(goodput)?;
    let late = lost[lost.len() / 3].at_us;
    let late = &weighted[weighted.partition_point(|packet| packet.at_us < late)..];
    let late = BucketSearch::new(late, InitialFill::Empty);
    // The first overshoot into a deep bucket may also lose packets elsewhere.
    let (search, best) = match late.find_bucket(goodput) {
        Some(found) if found.index() > best.index() => (late, found),
        _ => (whole, best),
    };
    if !explains_losses(best, losses.len()) || is_queue(search, best, &lost, round_trips)? {
        return None;
    }
    let lowest = search.find_lowest_rate(best);
    let is_lower_bound = lowest < best.bytes_per_us * PacketReplayTuning::MIN_KNOWN_RATIO
        || !search.bounds_rate(best);
    let bytes_per_us = if is_lower_bound { lowest } else { best.bytes_per_us };
    let burst = if is_partial {
        search.bounds_depth(best).then_some(best.depth)
    } else {
        Some(best.depth.max(measure_first_burst(packets, best.bytes_per_us)))
    };
    Some(CapturedPolicer {
        rate_bps: (bytes_per_us * 8e6) as u64,
        is_lower_bound,
        burst_bytes: burst.map(|bytes| bytes as u64),
    })
}

/// Returns whether the bucket explains more than chance does with losses in so many round trips.
fn explains_losses(best: BucketTrial, loss_round_trips: usize) -> bool {
    let by_chance = PacketReplayTuning::CHANCE_INDEX / (loss_round_trips as f64).sqrt();
    let by_chance = by_chance.min(PacketReplayTuning::MAX_CHANCE_INDEX);
    best.index() >= PacketReplayTuning::MIN_INDEX.max(by_chance)
        && best.losses >= PacketReplayTuning::MIN_EXPLAINED_RATIO
        && best.passes >= PacketReplayTuning::MIN_EXPLAINED_RATIO
}

/// Returns the bytes over the rate that passed before the first loss: a full bucket had at least these. A
/// sender that stays at the rate never lets it fill again.
fn measure_first_burst(packets: &[ReplayPacket], bytes_per_us: f64) -> f64 {
    let (mut used, mut most) = (0.0_f64, 0.0_f64);
    let mut last_us = packets.first().map_or(0, |packet| packet.at_us);
    for packet in packets.iter().take_while(|packet| !packet.lost) {
        let gap_us = packet.at_us.saturating_sub(last_us) as f64;
        used = (used - gap_us * bytes_per_us).max(0.0) + f64::from(packet.bytes);
        most = most.max(used);
        last_us = packet.at_us;
    }
    most
}

/// Returns whether the bucket is a queue: nearly all RTTs are above the shortest one by the time to fill it,
/// or they grow with that time, or, if that does not tell, they vary or rise before losses by it. Returns
/// `None` if too few RTTs were measured.
fn is_queue(
    search: BucketSearch<'_>,
    best: BucketTrial,
    lost: &[&ReplayPacket],
    round_trips: &[PacketRtt],
) -> Option<bool> {
    let rtts = sort_finite(round_trips.iter().map(|it| it.rtt_us as f64));
    let (shortest, idle_us) = (*rtts.first()?, quantile(&rtts, 0.1)?);
    let fill_us = best.depth / best.bytes_per_us;
    let least = (PacketReplayTuning::MAX_RISE_RATIO * fill_us).max(PacketReplayTuning::NO_RISE_US);
    if idle_us - shortest > least {
        return Some(true);
    }
    match search.measure_queueing(best, round_trips) {
        Some(slope) if slope > PacketReplayTuning::MIN_QUEUE_SLOPE => Some(true),
        Some(slope) if slope < PacketReplayTuning::MAX_BUCKET_SLOPE => Some(false),
        _ => {
            let before = measure_rtt_before_losses(lost, round_trips, idle_us)?;
            Some(before.max(quantile(&rtts, 0.9)?) - idle_us > least)
        }
    }
}

/// Returns the median RTT just before losses; `None` if too few were measured.
fn measure_rtt_before_losses(
    lost: &[&ReplayPacket],
    round_trips: &[PacketRtt],
    idle_us: f64,
) -> Option<f64> {
    let before = lost.iter().filter_map(|packet| {
        let next = round_trips.partition_point(|it| it.sent_us <= packet.at_us);
        let last = round_trips.get(next.checked_sub(1)?)?;
        let age_us = packet.at_us - last.sent_us;
        ((age_us as f64) < idle_us / 2.0).then_some(last.rtt_us as f64)
    });
    let before: Vec<f64> = before.collect();
    median(before.iter().copied()).filter(|_| before.len() >= PacketReplayTuning::MIN_RISES)
}

/// Returns the number of losses in each round trip that has any.
fn count_losses(lost: &[&ReplayPacket], idle_us: f64) -> HashMap<u64, u32> {
    let mut losses = HashMap::new();
    for packet in lost {
        *losses.entry(number_round_trip(packet.at_us, idle_us)).or_default() += 1;
    }
    losses
}

fn number_round_trip(at_us: u64, idle_us: f64) -> u64 {
    at_us / (idle_us as u64).max(1)
}

/// A packet of the replay.
#[derive(Debug, Clone, Copy)]
struct WeightedPacket {
    at_us: u64,
    bytes: f64,
    /// The share of a lost packet in the losses of its round trip; 0 if the packet passed.
    loss_share: f64,
}

fn weigh_packets(
    packets: &[ReplayPacket],
    losses: &HashMap<u64, u32>,
    idle_us: f64,
) -> Vec<WeightedPacket> {
    let share = |packet: &ReplayPacket| {
        let all = losses.get(&number_round_trip(packet.at_us, idle_us)).filter(|_| packet.lost);
        all.map_or(0.0, |all| 1.0 / f64::from(*all))
    };
    let weigh = |packet: &ReplayPacket| WeightedPacket {
        at_us: packet.at_us,
        bytes: f64::from(packet.bytes),
        loss_share: share(packet),
    };
    packets.iter().map(weigh).collect()
}

/// Returns the bytes that passed per microsecond.
fn measure_goodput(packets: &[ReplayPacket], from_us: u64, until_us: u64) -> Option<f64> {
    let within = |it: &&ReplayPacket| !it.lost && (from_us..=until_us).contains(&it.at_us);
    let bytes: u64 = packets.iter().filter(within).map(|it| u64::from(it.bytes)).sum();
    let time = until_us.checked_sub(from_us).filter(|time| *time > 0)?;
    (bytes > 0).then(|| bytes as f64 / time as f64)
}

/// A bucket, and the shares of losses and passes that it explains.
#[derive(Debug, Clone, Copy)]
struct BucketTrial {
    bytes_per_us: f64,
    depth: f64,
    losses: f64,
    passes: f64,
}

impl BucketTrial {
    fn index(&self) -> f64 {
        self.losses + self.passes - 1.0
    }
}

/// The initial fill of the bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum InitialFill {
    Full,
    Empty,
}

/// The packets of a search, and the fill of the bucket before the first.
#[derive(Debug, Clone, Copy)]
struct BucketSearch<'a> {
    packets: &'a [WeightedPacket],
    begin: InitialFill,
    /// The round trips with losses.
    lost: f64,
    /// The number of packets that passed.
    passed: f64,
}

impl BucketSearch<'_> {
    fn new(packets: &[WeightedPacket], begin: InitialFill) -> BucketSearch<'_> {
        let lost = packets.iter().map(|packet| packet.loss_share).sum::<f64>();
        let passed = packets.iter().filter(|packet| packet.loss_share == 0.0).count();
        // Without losses or passes there is nothing to explain.
        let (lost, passed) = (lost.max(f64::MIN_POSITIVE), (passed as f64).max(1.0));
        BucketSearch { packets, begin, lost, passed }
    }

    fn fill_bucket(self, trial: BucketTrial) -> ReplayBucket {
        let BucketTrial { bytes_per_us, depth, .. } = trial;
        let fill = if self.begin == InitialFill::Full { depth } else { 0.0 };
        let last_us = self.packets.first().map_or(0, |packet| packet.at_us);
        ReplayBucket { bytes_per_us, depth, fill, last_us }
    }

    /// Replays all packets through a bucket. Returns `None` as soon as the index cannot be more than `least`.
    fn replay_above(self, bytes_per_us: f64, depth: f64, least: f64) -> Option<BucketTrial> {
        let mut trial = BucketTrial { bytes_per_us, depth, losses: 1.0, passes: 1.0 };
        let mut bucket = self.fill_bucket(trial);
        for packet in self.packets {
            let is_enough = bucket.pass_packet(packet);
            let is_lost = packet.loss_share > 0.0;
            if is_lost == is_enough {
                if is_lost {
                    trial.losses -= packet.loss_share / self.lost;
                } else {
                    trial.passes -= 1.0 / self.passed;
                }
                if trial.index() <= least {
                    return None;
                }
            }
        }
        Some(trial)
    }

    /// Returns the bucket that explains the most; `goodput` is in bytes per microsecond.
    fn find_bucket(self, goodput: f64) -> Option<BucketTrial> {
        let near = (0..PacketReplayTuning::RATE_STEPS).map(|k| {
            goodput * PacketReplayTuning::MIN_RATE_RATIO * PacketReplayTuning::RATE_STEP.powi(k)
        });
        let mut rates: Vec<f64> = near.collect();
        let highest = rates.last().copied()?;
        let far = (1..=PacketReplayTuning::FAR_RATE_STEPS)
            .map(|k| highest * PacketReplayTuning::FAR_RATE_STEP.powi(k));
        rates.extend(far);
        let depths = (0..PacketReplayTuning::DEPTH_STEPS)
            .map(|k| PacketReplayTuning::MIN_DEPTH_BYTES * PacketReplayTuning::DEPTH_STEP.powi(k));
        let coarse = self.find_best_bucket(&rates, depths)?;
        let rate_step = if coarse.bytes_per_us > highest {
            PacketReplayTuning::FINE_FAR_RATE_STEP
        } else {
            PacketReplayTuning::FINE_RATE_STEP
        };
        let rates =
            step_around(coarse.bytes_per_us, PacketReplayTuning::FINE_RATE_STEPS, rate_step);
        let depths = step_around(
            coarse.depth,
            PacketReplayTuning::FINE_DEPTH_STEPS,
            PacketReplayTuning::FINE_DEPTH_STEP,
        );
        self.find_best_bucket(&rates.collect::<Vec<f64>>(), depths)
    }

    /// Returns the bucket that explains the most, and of those the shallowest.
    fn find_best_bucket(
        self,
        rates: &[f64],
        depths: impl Iterator<Item = f64>,
    ) -> Option<BucketTrial> {
        let mut best: Option<BucketTrial> = None;
        for depth in depths {
            let mut least = best.map_or(-1.0, |it| it.index() + PacketReplayTuning::MIN_DEPTH_GAIN);
            // Of rates that explain as much, the highest.
            for rate in rates.iter().rev() {
                if let Some(better) = self.replay_above(*rate, depth, least) {
                    (best, least) = (Some(better), better.index());
                }
            }
        }
        best
    }

    /// Returns the slope of the RTT over the time that the bucket needs to fill: about 1 if it is a queue,
    /// whose packets wait for that time, and 0 if it is a policer's. Returns `None` if there are too few RTTs,
    /// or the bucket is equally full for most of them.
    fn measure_queueing(self, best: BucketTrial, round_trips: &[PacketRtt]) -> Option<f64> {
        let mut bucket = self.fill_bucket(best);
        let mut left = round_trips.iter().peekable();
        let mut waits = Vec::new();
        for packet in self.packets {
            bucket.pass_packet(packet);
            while left.next_if(|it| it.sent_us < packet.at_us).is_some() {}
            if let Some(sample) = left.next_if(|it| it.sent_us == packet.at_us) {
                let wait_us = (bucket.depth - bucket.fill) / bucket.bytes_per_us;
                waits.push((wait_us, sample.rtt_us as f64));
            }
        }
        if waits.len() < PacketReplayTuning::MIN_ROUND_TRIPS {
            return None;
        }
        waits.sort_by(|one, other| one.0.total_cmp(&other.0));
        let quarter = waits.len() / 4;
        let middle = |part: &[(f64, f64)]| {
            Some((median(part.iter().map(|it| it.0))?, median(part.iter().map(|it| it.1))?))
        };
        let (short, long) = (middle(&waits[..quarter])?, middle(&waits[waits.len() - quarter..])?);
        let range_us = long.0 - short.0;
        (range_us >= PacketReplayTuning::MIN_WAIT_RANGE_US).then(|| (long.1 - short.1) / range_us)
    }

    /// Returns whether each higher rate explains less, with any depth.
    fn bounds_rate(self, best: BucketTrial) -> bool {
        let most = best.index() - PacketReplayTuning::MIN_RATE_DROP;
        PacketReplayTuning::HIGHER_RATES.into_iter().all(|up| {
            let mut depths = step_around(best.depth, 4, 1.25);
            depths.all(|depth| {
                let rate = best.bytes_per_us * up;
                self.replay_above(rate, depth, most).is_none()
            })
        })
    }

    /// Returns the lowest rate that explains nearly as much as the best, with about the same depth.
    fn find_lowest_rate(self, best: BucketTrial) -> f64 {
        let least = best.index() - PacketReplayTuning::MIN_LOW_RATE_DROP;
        let rates = (1..).map(|k| best.bytes_per_us / PacketReplayTuning::RATE_STEP.powi(k));
        let explains = |rate: &f64| {
            let mut depths = step_around(best.depth, 4, PacketReplayTuning::FINE_DEPTH_STEP);
            depths.any(|depth| self.replay_above(*rate, depth, least).is_some())
        };
        rates.take_while(explains).last().unwrap_or(best.bytes_per_us)
    }

    /// Returns whether each deeper bucket explains less, however full it was at first. Of the shallowest
    /// buckets this is not known.
    fn bounds_depth(self, best: BucketTrial) -> bool {
        let most = best.index() - PacketReplayTuning::MIN_DEPTH_DROP;
        let is_deep = best.depth > PacketReplayTuning::MIN_DEPTH_BYTES;
        is_deep
            && PacketReplayTuning::DEEPER_BUCKETS.into_iter().all(|up| {
                let mut rates =
                    step_around(best.bytes_per_us, 3, PacketReplayTuning::FINE_RATE_STEP);
                rates.all(|rate| {
                    [InitialFill::Full, InitialFill::Empty].into_iter().all(|begin| {
                        let search = BucketSearch { begin, ..self };
                        search.replay_above(rate, best.depth * up, most).is_none()
                    })
                })
            })
    }
}

/// A bucket while packets are replayed. The observation overrides the model: after a loss the bucket is
/// empty, and passed packets never make the fill negative.
#[derive(Debug, Clone, Copy)]
struct ReplayBucket {
    bytes_per_us: f64,
    depth: f64,
    fill: f64,
    last_us: u64,
}

impl ReplayBucket {
    /// Takes the packet, and returns whether the bucket had enough for it.
    fn pass_packet(&mut self, packet: &WeightedPacket) -> bool {
        let gap_us = packet.at_us.saturating_sub(self.last_us) as f64;
        self.fill = (self.fill + gap_us * self.bytes_per_us).min(self.depth);
        self.last_us = packet.at_us;
        let is_enough = self.fill >= packet.bytes;
        let is_lost = packet.loss_share > 0.0;
        self.fill =
            if is_lost { self.fill.min(packet.bytes) } else { (self.fill - packet.bytes).max(0.0) };
        is_enough
    }
}

fn step_around(middle: f64, steps: i32, step: f64) -> impl Iterator<Item = f64> {
    (-steps..=steps).map(move |k| middle * step.powi(k))
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT_US: u64 = 40_000;
    const BYTES: u32 = 1500;

    /// A deterministic generator of numbers from 0 to 1.
    fn chance(seed: u64) -> impl FnMut() -> f64 {
        let mut state = seed | 1;
        move || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 11) as f64 / (1u64 << 53) as f64
        }
    }

    fn rtt_of(packet: &ReplayPacket) -> PacketRtt {
        PacketRtt { sent_us: packet.at_us, rtt_us: RTT_US, is_prompt: true }
    }

    /// A sender that speeds up until a loss, then halves its rate; `fate` gives loss and RTT of a
    /// packet sent at a given time.
    fn run(
        seconds: u64,
        mut fate: impl FnMut(u64) -> (bool, u64),
    ) -> (Vec<ReplayPacket>, Vec<PacketRtt>) {
        let (mut packets, mut round_trips) = (vec![], vec![]);
        let (mut window, mut at_us, mut calm_until) = (10.0_f64, 0, 0);
        while at_us < seconds * 1_000_000 {
            let (lost, rtt_us) = fate(at_us);
            packets.push(ReplayPacket { at_us, bytes: BYTES, lost });
            if lost && at_us >= calm_until {
                window = (window / 2.0).max(2.0);
                calm_until = at_us + RTT_US;
            } else if !lost {
                window += 4.0 / window;
                round_trips.push(PacketRtt { sent_us: at_us, rtt_us, is_prompt: true });
            }
            // Packets leave in batches of eight.
            let is_last = packets.len() % 8 == 0;
            at_us += if is_last { (8.0 * RTT_US as f64 / window) as u64 + 1 } else { 1 };
            // Buckets fill between files.
            if at_us % 4_000_000 > 3_000_000 {
                at_us = at_us.next_multiple_of(4_000_000);
            }
        }
        (packets, round_trips)
    }

    /// Drops the excess over a bucket, or queues it while the bucket is empty if `queued`.
    fn bucket(rate_mbps: f64, depth: f64, queued: bool) -> impl FnMut(u64) -> (bool, u64) {
        let rate = rate_mbps / 8.0;
        let (mut fill, mut last_us) = (depth, 0);
        move |at_us| {
            fill = (fill + (at_us - last_us) as f64 * rate).min(depth);
            last_us = at_us;
            let lost = fill < f64::from(BYTES);
            if !lost {
                fill -= f64::from(BYTES);
            }
            let wait = if queued { (depth - fill) / rate } else { 0.0 };
            (lost, RTT_US + wait as u64)
        }
    }

    #[test]
    fn a_bucket_is_found_with_its_rate_and_its_depth() {
        for (mbps, depth) in [(2.0, 12_000.0), (5.0, 100_000.0), (8.0, 300_000.0)] {
            let (packets, round_trips) = run(15, bucket(mbps, depth, false));
            let found = find_policer_by_packets(&packets, &round_trips, false).expect("a policer");
            let rate = found.rate_bps as f64 / (mbps * 1e6);
            assert!((rate - 1.0).abs() < 0.08, "{mbps} Mbit/s: {found:?}");
            let burst = found.burst_bytes.expect("a depth") as f64 / depth;
            assert!((0.7..1.4).contains(&burst), "{depth} bytes: {found:?}");
        }
    }

    #[test]
    fn a_bucket_that_never_fills_again_is_known_by_its_first_burst() {
        let mut fate = bucket(5.0, 250_000.0, false);
        // At 6 Mbit/s for ever: a sixth of the packets is lost.
        let packets: Vec<ReplayPacket> = (0..10_000)
            .map(|number| number * 2000)
            .map(|at_us| ReplayPacket { at_us, bytes: BYTES, lost: fate(at_us).0 })
            .collect();
        let passed = packets.iter().filter(|packet| !packet.lost);
        let round_trips: Vec<PacketRtt> = passed.map(rtt_of).collect();
        let found = find_policer_by_packets(&packets, &round_trips, false).expect("a policer");
        let burst = found.burst_bytes.expect("a depth");
        assert!((240_000..260_000).contains(&burst), "{found:?}");
        let late = packets.len() / 2;
        let found = find_policer_by_packets(&packets[late..], &round_trips, true);
        assert_eq!(found.map(|it| it.burst_bytes), Some(None), "it was not seen full");
    }

    #[test]
    fn two_streams_of_one_bucket_are_one_trace() {
        let (packets, round_trips) = run(15, bucket(3.0, 50_000.0, false));
        let every_other = |parity: usize| {
            let own = packets.iter().enumerate().filter(move |(k, _)| k % 2 == parity);
            own.map(|(_, packet)| *packet).collect::<Vec<ReplayPacket>>()
        };
        // One of two streams alone shows nothing; both together equal a single stream.
        let mut both = every_other(0);
        both.extend(every_other(1));
        both.sort_by_key(|packet| packet.at_us);
        assert!(find_policer_by_packets(&both, &round_trips, false).is_some());
    }

    #[test]
    fn a_queue_that_drops_its_tail_is_no_policer() {
        for (mbps, depth) in [(2.0, 12_000.0), (5.0, 100_000.0), (8.0, 300_000.0)] {
            let (packets, round_trips) = run(15, bucket(mbps, depth, true));
            assert_eq!(
                find_policer_by_packets(&packets, &round_trips, false),
                None,
                "{mbps} Mbit/s, {depth}"
            );
        }
    }

    #[test]
    fn random_loss_is_no_policer() {
        for seed in 0..3 {
            for ratio in [0.002, 0.01, 0.03] {
                let mut draw = chance(seed * 77 + 5);
                let (packets, round_trips) = run(10, |_| (draw() < ratio, RTT_US));
                assert_eq!(
                    find_policer_by_packets(&packets, &round_trips, false),
                    None,
                    "seed {seed}, {ratio}"
                );
            }
        }
    }

    #[test]
    fn one_overshoot_and_random_losses_are_no_policer() {
        let mut draw = chance(77);
        let mut packets = vec![];
        // In one round trip 400 packets are sent and half of them lost; later, one of 250.
        for number in 0..400 {
            packets.push(ReplayPacket { at_us: number * 100, bytes: BYTES, lost: number >= 200 });
        }
        for number in 0..10_000 {
            let at_us = RTT_US + number * 1000;
            packets.push(ReplayPacket { at_us, bytes: BYTES, lost: draw() < 0.004 });
        }
        let passed = packets.iter().filter(|packet| !packet.lost);
        let round_trips: Vec<PacketRtt> = passed.map(rtt_of).collect();
        assert_eq!(find_policer_by_packets(&packets, &round_trips, false), None);
    }

    #[test]
    fn little_loss_no_round_trips_and_nothing_at_all_say_nothing() {
        let (packets, round_trips) = run(10, bucket(5.0, 100_000.0, false));
        assert_eq!(find_policer_by_packets(&[], &[], false), None);
        assert_eq!(find_policer_by_packets(&packets, &[], false), None);
        let lossless: Vec<ReplayPacket> =
            packets.iter().map(|it| ReplayPacket { lost: false, ..*it }).collect();
        assert_eq!(find_policer_by_packets(&lossless, &round_trips, false), None);
        let at_once: Vec<ReplayPacket> =
            packets.iter().map(|it| ReplayPacket { at_us: 7, ..*it }).collect();
        assert_eq!(find_policer_by_packets(&at_once, &round_trips, false), None);
    }
}
