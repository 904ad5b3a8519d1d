//! Does a token bucket explain which packets of a capture were lost?
//!
//! Every packet that was sent is replayed through buckets of many rates and depths: each fills at its
//! rate up to its depth, and is emptied by what passed. In the right one the losses meet a bucket
//! that is too empty for them, and the others one that is not. The two shares together (Youden's
//! index) say how well a bucket explains what happened; chance gives about nothing. A queue that
//! drops its tail is a bucket too, so round trips decide: before the losses of a queue they are as
//! long as it takes to fill it, before those of a policer they are as ever.
//!
//! Source: the replay is that of Flach et al., SIGCOMM 2016, which fills one bucket without a depth at
//! the goodput between the first and the last loss; rate and depth are searched here, and all streams
//! of a run share the bucket. Units: bytes of IP, microseconds, bit/s.
//! Error: rate within 6 % and depth within 25 % (the steps of the search) where losses are many.
//! Wrong when: the policer is shared with traffic that is not in the capture (rate and depth then are
//! what was left of them), or a second limit loses most of the packets.

use crate::stats::quantile::{median, quantile, sorted};

/// Losses and passes below which nothing is said (Flach), and round trips over which they spread.
const LEAST_LOST: usize = 15;
const LEAST_SLICES: u64 = 3;
/// How much of the losses and of the passes a policer explains at least, and their index. Random loss
/// of 2 % gave an index of 0.12; the hardest policer of our captures, one of 2 MB, 0.61.
const LEAST_EXPLAINED: f64 = 0.75;
const LEAST_INDEX: f64 = 0.58;
/// The rise of round trips before losses, as a share of the time that the bucket takes to fill: a
/// queue gave 0.4 to 1.0, policers at most 0.03.
const MOST_RISE_RATIO: f64 = 0.15;
/// What clocks and other queues add to any round trip.
const NO_RISE_US: f64 = 1000.0;
/// Round trips just before losses, without which a queue cannot be told from a bucket.
const LEAST_RISES: usize = 5;
/// Steps of the search: rates around the goodput between losses, depths from two packets up; then
/// once more around the best, since over many losses a per cent of the rate fills a bucket.
const RATE_STEPS: i32 = 58;
const RATE_LEAST: f64 = 0.6;
const RATE_STEP: f64 = 1.02;
const DEPTH_STEPS: i32 = 26;
const DEPTH_LEAST: f64 = 3000.0;
const DEPTH_STEP: f64 = 1.32;
const FINE_RATE_STEPS: i32 = 5;
const FINE_RATE_STEP: f64 = 1.004;
const FINE_DEPTH_STEPS: i32 = 2;
const FINE_DEPTH_STEP: f64 = 1.12;
/// A deeper bucket must explain this much more than a shallower one.
const WORTH_DEPTH: f64 = 0.004;

/// A packet with payload, as its sender saw it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Packet {
    pub at_us: u64,
    pub bytes: u32,
    /// It was sent again later.
    pub lost: bool,
}

/// A packet that was sent once, and when its acknowledgement came back, not held up by a loss.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RoundTrip {
    pub sent_us: u64,
    pub rtt_us: u64,
}

/// A policer, by its packets.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Policing {
    pub rate_bps: f64,
    pub burst_bytes: f64,
    /// Losses that met an empty bucket, and passes that did not.
    pub losses_explained_ratio: f64,
    pub passes_explained_ratio: f64,
    /// By how much round trips just before losses are longer than the least.
    pub rise_us: f64,
}

/// The policer that explains the losses; `None`: nothing does, or a queue does it as well, or too
/// little was lost. Both lists in order of time, all streams of a run together.
pub fn find(packets: &[Packet], round_trips: &[RoundTrip]) -> Option<Policing> {
    let lost: Vec<&Packet> = packets.iter().filter(|packet| packet.lost).collect();
    let passed = packets.len() - lost.len();
    if lost.len() < LEAST_LOST || passed < LEAST_LOST {
        return None;
    }
    let (idle_us, rise_us) = rise(&lost, round_trips)?;
    if slices(&lost, idle_us) < LEAST_SLICES {
        return None;
    }
    let goodput = goodput_between(packets, lost[0].at_us, lost[lost.len() - 1].at_us)?;
    let whole = search(packets, goodput, Begin::Full)?;
    let late = lost[lost.len() / 3].at_us;
    let late = &packets[packets.partition_point(|packet| packet.at_us < late)..];
    // The first overshoot of a deep bucket may lose at other places as well.
    let best = match search(late, goodput, Begin::Empty) {
        Some(late) if late.index() > whole.index() => late,
        _ => whole,
    };
    let fill_us = best.depth / best.bytes_per_us;
    let is_queue = rise_us > (MOST_RISE_RATIO * fill_us).max(NO_RISE_US);
    let explains = best.index() >= LEAST_INDEX
        && best.losses >= LEAST_EXPLAINED
        && best.passes >= LEAST_EXPLAINED;
    (explains && !is_queue).then_some(Policing {
        rate_bps: best.bytes_per_us * 8e6,
        burst_bytes: best.depth,
        losses_explained_ratio: best.losses,
        passes_explained_ratio: best.passes,
        rise_us,
    })
}

/// The round trip without queues, and by how much it is longer just before losses.
fn rise(lost: &[&Packet], round_trips: &[RoundTrip]) -> Option<(f64, f64)> {
    let all = sorted(round_trips.iter().map(|it| it.rtt_us as f64));
    let idle = quantile(&all, 0.1)?;
    let before = lost.iter().filter_map(|packet| {
        let next = round_trips.partition_point(|it| it.sent_us <= packet.at_us);
        let last = round_trips.get(next.checked_sub(1)?)?;
        let age_us = packet.at_us - last.sent_us;
        ((age_us as f64) < idle / 2.0).then_some(last.rtt_us as f64)
    });
    let before: Vec<f64> = before.collect();
    if before.len() < LEAST_RISES {
        return None;
    }
    Some((idle, median(before)? - idle))
}

/// Over how many round trips losses spread.
fn slices(lost: &[&Packet], idle_us: f64) -> u64 {
    let slice = |packet: &Packet| packet.at_us / (idle_us as u64).max(1);
    let mut known = None;
    let mut count = 0;
    for packet in lost {
        let slice = Some(slice(packet));
        count += u64::from(slice != known);
        known = slice;
    }
    count
}

/// Bytes that passed per microsecond.
fn goodput_between(packets: &[Packet], from_us: u64, until_us: u64) -> Option<f64> {
    let within = |it: &&Packet| !it.lost && (from_us..=until_us).contains(&it.at_us);
    let bytes: u64 = packets
        .iter()
        .filter(within)
        .map(|it| u64::from(it.bytes))
        .sum();
    let time = until_us.checked_sub(from_us).filter(|time| *time > 0)?;
    (bytes > 0).then(|| bytes as f64 / time as f64)
}

/// A bucket, and the shares of losses and passes that it explains.
#[derive(Debug, Clone, Copy)]
struct Tried {
    bytes_per_us: f64,
    depth: f64,
    losses: f64,
    passes: f64,
}

impl Tried {
    fn index(&self) -> f64 {
        self.losses + self.passes - 1.0
    }
}

/// What is in the bucket before the first packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Begin {
    Full,
    Empty,
}

fn search(packets: &[Packet], goodput: f64, begin: Begin) -> Option<Tried> {
    let rates = (0..RATE_STEPS).map(|k| goodput * RATE_LEAST * RATE_STEP.powi(k));
    let rates: Vec<f64> = rates.collect();
    let depths = (0..DEPTH_STEPS).map(|k| DEPTH_LEAST * DEPTH_STEP.powi(k));
    let coarse = best((packets, begin), &rates, depths)?;
    let around =
        |middle: f64, steps: i32, step: f64| (-steps..=steps).map(move |k| middle * step.powi(k));
    let rates = around(coarse.bytes_per_us, FINE_RATE_STEPS, FINE_RATE_STEP);
    let depths = around(coarse.depth, FINE_DEPTH_STEPS, FINE_DEPTH_STEP);
    best((packets, begin), &rates.collect::<Vec<f64>>(), depths)
}

/// The bucket that explains most, of the least depth that does.
fn best(
    (packets, begin): (&[Packet], Begin),
    rates: &[f64],
    depths: impl Iterator<Item = f64>,
) -> Option<Tried> {
    depths.fold(None, |known: Option<Tried>, depth| {
        let tried = rates
            .iter()
            .map(|rate| replay(packets, *rate, depth, begin));
        let own = tried.max_by(|a, b| a.index().total_cmp(&b.index()));
        match (known, own) {
            (Some(known), Some(own)) if own.index() < known.index() + WORTH_DEPTH => Some(known),
            (_, Some(own)) => Some(own),
            (known, None) => known,
        }
    })
}

/// Sends all packets through a bucket. What happened overrules it: after a loss
/// it was empty, and nothing that passed makes it less than that.
fn replay(packets: &[Packet], bytes_per_us: f64, depth: f64, begin: Begin) -> Tried {
    let mut fill = if begin == Begin::Full { depth } else { 0.0 };
    let mut last_us = packets.first().map_or(0, |packet| packet.at_us);
    let (mut lost, mut lost_explained, mut passed, mut passed_explained) = (0u32, 0u32, 0u32, 0u32);
    for packet in packets {
        let bytes = f64::from(packet.bytes);
        let gap_us = packet.at_us.saturating_sub(last_us) as f64;
        fill = (fill + gap_us * bytes_per_us).min(depth);
        last_us = packet.at_us;
        let is_enough = fill >= bytes;
        if packet.lost {
            lost += 1;
            lost_explained += u32::from(!is_enough);
            fill = fill.min(bytes);
        } else {
            passed += 1;
            passed_explained += u32::from(is_enough);
            fill = (fill - bytes).max(0.0);
        }
    }
    Tried {
        bytes_per_us,
        depth,
        losses: f64::from(lost_explained) / f64::from(lost.max(1)),
        passes: f64::from(passed_explained) / f64::from(passed.max(1)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT_US: u64 = 40_000;
    const BYTES: u32 = 1500;

    /// Numbers from 0 to 1 that are always the same.
    fn chance(seed: u64) -> impl FnMut() -> f64 {
        let mut state = seed | 1;
        move || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 11) as f64 / (1u64 << 53) as f64
        }
    }

    /// A sender that speeds up until it loses, and halves; `fate` says of a packet sent at a time
    /// whether it is lost, and what its round trip is.
    fn run(
        seconds: u64,
        mut fate: impl FnMut(u64) -> (bool, u64),
    ) -> (Vec<Packet>, Vec<RoundTrip>) {
        let (mut packets, mut round_trips) = (vec![], vec![]);
        let (mut window, mut at_us, mut calm_until) = (10.0_f64, 0, 0);
        while at_us < seconds * 1_000_000 {
            let (lost, rtt_us) = fate(at_us);
            packets.push(Packet {
                at_us,
                bytes: BYTES,
                lost,
            });
            if lost && at_us >= calm_until {
                window = (window / 2.0).max(2.0);
                calm_until = at_us + RTT_US;
            } else if !lost {
                window += 4.0 / window;
                round_trips.push(RoundTrip {
                    sent_us: at_us,
                    rtt_us,
                });
            }
            // Eight leave together.
            let is_last = packets.len() % 8 == 0;
            at_us += if is_last {
                (8.0 * RTT_US as f64 / window) as u64 + 1
            } else {
                1
            };
            // Between files, buckets fill.
            if at_us % 4_000_000 > 3_000_000 {
                at_us = at_us.next_multiple_of(4_000_000);
            }
        }
        (packets, round_trips)
    }

    /// Drops what exceeds a bucket: `queued` lets the rest wait as long as the bucket is empty.
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
            let found = find(&packets, &round_trips).expect("a policer");
            let rate = found.rate_bps / (mbps * 1e6);
            assert!((rate - 1.0).abs() < 0.08, "{mbps} Mbit/s: {found:?}");
            let burst = found.burst_bytes / depth;
            assert!((0.7..1.4).contains(&burst), "{depth} bytes: {found:?}");
        }
    }

    #[test]
    fn two_streams_of_one_bucket_are_one_trace() {
        let (packets, round_trips) = run(15, bucket(3.0, 50_000.0, false));
        let every_other = |parity: usize| {
            let own = packets
                .iter()
                .enumerate()
                .filter(move |(k, _)| k % 2 == parity);
            own.map(|(_, packet)| *packet).collect::<Vec<Packet>>()
        };
        // One of two streams alone is a riddle; both together are no other than one.
        let mut both = every_other(0);
        both.extend(every_other(1));
        both.sort_by_key(|packet| packet.at_us);
        assert!(find(&both, &round_trips).is_some());
    }

    #[test]
    fn a_queue_that_drops_its_tail_is_no_policer() {
        for (mbps, depth) in [(2.0, 12_000.0), (5.0, 100_000.0), (8.0, 300_000.0)] {
            let (packets, round_trips) = run(15, bucket(mbps, depth, true));
            assert_eq!(find(&packets, &round_trips), None, "{mbps} Mbit/s, {depth}");
        }
    }

    #[test]
    fn random_loss_is_no_policer() {
        for seed in 0..3 {
            for ratio in [0.002, 0.01, 0.03] {
                let mut draw = chance(seed * 77 + 5);
                let (packets, round_trips) = run(10, |_| (draw() < ratio, RTT_US));
                assert_eq!(find(&packets, &round_trips), None, "seed {seed}, {ratio}");
            }
        }
    }

    #[test]
    fn little_loss_no_round_trips_and_nothing_at_all_say_nothing() {
        let (packets, round_trips) = run(10, bucket(5.0, 100_000.0, false));
        assert_eq!(find(&[], &[]), None);
        assert_eq!(find(&packets, &[]), None);
        let lossless: Vec<Packet> = packets
            .iter()
            .map(|it| Packet { lost: false, ..*it })
            .collect();
        assert_eq!(find(&lossless, &round_trips), None);
        let at_once: Vec<Packet> = packets
            .iter()
            .map(|it| Packet { at_us: 7, ..*it })
            .collect();
        assert_eq!(find(&at_once, &round_trips), None);
    }
}
