//! A hop watch under load on a path with known queues: the results of probing every hop once a
//! second before, during and after eight seconds of load.

use longhaul_model::report::v1::path::{
    EndDelay, HopWatch, PathObservation, ProbeEcho, WatchedHop,
};
use longhaul_model::splitmix::SplitMix64;

/// The duration of each phase: idle, loaded, idle.
const PHASE_S: f64 = 8.0;
/// The interval between probes of one hop.
const SPACING_S: f64 = 1.0;
/// The interval between probes of the far end, which both ends timestamp.
const ENDS_SPACING_S: f64 = 0.1;
/// The time in which slow start fills the queue.
const FILLING_S: f64 = 1.2;
/// The maximum time for which the queue is empty before the load ends, in a third of the cases.
const MAX_DRAINED_S: f64 = 0.6;
/// The maximum share of moments with a shallow queue, in a third of the cases.
const MAX_GAP_RATIO: f64 = 0.2;
/// The offset between the two clocks, more than a year, and their maximum drift.
const OFFSET_NS: f64 = 4e16;
const MAX_DRIFT: f64 = 30e-6;

/// The location of the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueueLocation {
    /// Behind this hop on the forward path; 0: behind this host.
    Forward(u8),
    /// Behind this hop on the return path.
    Return(u8),
    /// No queue; some packets are dropped.
    Policer,
    None,
}

/// A simulated path.
#[derive(Debug, Clone)]
pub struct HopCase {
    pub queue: QueueLocation,
    /// The number of hops; the far end is the last one.
    pub hops: u8,
    /// The one-way delay to each hop in seconds.
    pub delays_s: Vec<f64>,
    /// The delay of the full queue, and the share that remains when streams halve their windows.
    pub depth_s: f64,
    pub dip_ratio: f64,
    pub period_s: f64,
    /// The time before the load's end with an empty queue, as when streams end at different times.
    pub drained_s: f64,
    /// The share of moments at which the queue is half as deep as its sawtooth.
    pub gap_ratio: f64,
    /// The mean delay that cross traffic adds at each hop.
    pub jitter_s: f64,
    pub silent: Option<u8>,
    /// Answers two of five probes.
    pub rate_limited: Option<u8>,
    /// Adds 0 to 5 ms to its answers.
    pub late: Option<u8>,
    /// Answers late while it forwards a load.
    pub slow_path: Option<u8>,
    pub two_ended: bool,
}

impl HopCase {
    /// Returns a path without any anomalies.
    pub fn plain(hops: u8, queue: QueueLocation) -> HopCase {
        HopCase {
            queue,
            hops,
            delays_s: (1..=hops).map(|hop| 0.001 * f64::from(hop)).collect(),
            depth_s: 0.04,
            dip_ratio: 0.7,
            period_s: 3.0,
            drained_s: 0.0,
            gap_ratio: 0.0,
            jitter_s: 0.0,
            silent: None,
            rate_limited: None,
            late: None,
            slow_path: None,
            two_ended: true,
        }
    }

    /// Draws 9 to 16 hops, 2 to 200 ms, and a queue of 8 to 100 ms of which 20 to 90 % remain at
    /// the dips. Each anomaly affects one hop in a third of the cases, never the far end.
    pub fn draw(rng: &mut SplitMix64, queue: QueueLocation) -> HopCase {
        let hops = 9 + rng.below(8) as u8;
        let whole_s = 0.001 * 100f64.powf(rng.between(0.0, 1.0));
        let mut delays_s: Vec<f64> = (1..hops).map(|_| rng.between(0.0, whole_s)).collect();
        delays_s.push(whole_s);
        delays_s.sort_by(f64::total_cmp);
        let mut oddity = || {
            let hop = 1 + rng.below(usize::from(hops) - 1) as u8;
            (rng.below(3) == 0).then_some(hop)
        };
        let (silent, rate_limited, late) = (oddity(), oddity(), oddity());
        let slow_path = oddity();
        let third = |rng: &mut SplitMix64, most: f64| match rng.below(3) {
            0 => rng.between(0.0, most),
            _ => 0.0,
        };
        let (drained_s, gap_ratio) = (third(rng, MAX_DRAINED_S), third(rng, MAX_GAP_RATIO));
        HopCase {
            depth_s: 0.008 * 12.5f64.powf(rng.between(0.0, 1.0)),
            dip_ratio: rng.between(0.2, 0.9),
            period_s: rng.between(0.5, 6.0),
            drained_s,
            gap_ratio,
            jitter_s: 1e-5 * 20f64.powf(rng.between(0.0, 1.0)),
            two_ended: rng.below(2) == 0 || matches!(queue, QueueLocation::Return(_)),
            delays_s,
            silent,
            rate_limited,
            late,
            slow_path,
            ..HopCase::plain(hops, queue)
        }
    }

    /// Returns the last hop without the queue and the first with it.
    pub fn truth(&self) -> Option<(u8, u8)> {
        match self.queue {
            QueueLocation::Forward(after) => Some((after, after + 1)),
            QueueLocation::Return(_) | QueueLocation::Policer | QueueLocation::None => None,
        }
    }

    pub fn observation(&self, seed: u64) -> PathObservation {
        let mut rng = SplitMix64::new(seed);
        let watched = (1..=self.hops).map(|ttl| self.hop(&mut rng, ttl)).collect();
        let ends = if self.two_ended { self.draw_end_delays(&mut rng) } else { Vec::new() };
        PathObservation {
            address: format_address(self.hops),
            hop_load: Some(HopWatch {
                load_from_us: (PHASE_S * 1e6) as u64,
                load_until_us: (2.0 * PHASE_S * 1e6) as u64,
                forward: true,
                load_bytes: Some(50_000_000),
                run_id: None,
                hops: watched,
                ends,
                own_backlog_bytes: None,
            }),
            ..PathObservation::default()
        }
    }

    fn hop(&self, rng: &mut SplitMix64, ttl: u8) -> WatchedHop {
        // Hops are probed one after the other within each second.
        let stagger_s = SPACING_S * f64::from(ttl - 1) / f64::from(self.hops);
        let probes = (3.0 * PHASE_S / SPACING_S) as usize;
        let echo = |place: usize| {
            let at_s = place as f64 * SPACING_S + stagger_s;
            let rtt_s = self.rtt(rng, ttl, at_s);
            ProbeEcho {
                at_us: (at_s * 1e6) as u64,
                rtt_ns: rtt_s.map(|s| (s * 1e9) as u64),
                ttl: None,
            }
        };
        WatchedHop {
            ttl,
            echoes: (0..probes).map(echo).collect(),
            address: (self.silent != Some(ttl)).then(|| format_address(ttl)),
        }
    }

    fn rtt(&self, rng: &mut SplitMix64, ttl: u8, at_s: f64) -> Option<f64> {
        let answers = match ttl {
            _ if self.silent == Some(ttl) => 0.0,
            _ if self.rate_limited == Some(ttl) => 0.4,
            _ => 1.0 - self.loss(at_s),
        };
        if rng.between(0.0, 1.0) >= answers {
            return None;
        }
        let [there, back] = self.draw_one_way_delays(rng, ttl, at_s);
        let mut rtt_s = there + back;
        if self.late == Some(ttl) {
            rtt_s += rng.between(0.0, 0.005);
        }
        if self.slow_path == Some(ttl) && is_loaded(at_s) {
            rtt_s += rng.between(0.01, 0.03);
        }
        // Routers occasionally answer late.
        if ttl < self.hops && rng.below(30) == 0 {
            rtt_s += rng.between(0.001, 0.01);
        }
        Some(rtt_s)
    }

    /// Draws the one-way delays there and back, with queues and cross traffic.
    fn draw_one_way_delays(&self, rng: &mut SplitMix64, ttl: u8, at_s: f64) -> [f64; 2] {
        let bare = self.delays_s[usize::from(ttl) - 1];
        let mut depth = self.queue_s(at_s);
        if rng.between(0.0, 1.0) < self.gap_ratio {
            depth /= 2.0;
        }
        let queued = |after: u8| if ttl > after { depth } else { 0.0 };
        let [there, back] = match self.queue {
            QueueLocation::Forward(after) => [queued(after), 0.0],
            QueueLocation::Return(after) => [0.0, queued(after)],
            QueueLocation::Policer | QueueLocation::None => [0.0, 0.0],
        };
        let others = self.jitter_s * f64::from(ttl).sqrt();
        let mut other = || -others * (1.0 - rng.between(0.0, 0.999_999)).ln();
        [bare + there + other(), bare + back + other()]
    }

    /// The queue's delay: filled by slow start, then a sawtooth.
    fn queue_s(&self, at_s: f64) -> f64 {
        let since = at_s - PHASE_S;
        if !(0.0..PHASE_S - self.drained_s).contains(&since) {
            return 0.0;
        }
        if since < FILLING_S {
            return self.depth_s * since / FILLING_S;
        }
        let phase = ((since - FILLING_S) / self.period_s).fract();
        self.depth_s * (self.dip_ratio + (1.0 - self.dip_ratio) * phase)
    }

    fn loss(&self, at_s: f64) -> f64 {
        match (self.queue, is_loaded(at_s)) {
            (QueueLocation::Policer, true) => 0.08,
            (_, true) => 0.02,
            (_, false) => 0.005,
        }
    }

    /// Delays stamped by both ends, sampled ten times as often as a hop.
    fn draw_end_delays(&self, rng: &mut SplitMix64) -> Vec<EndDelay> {
        let drift = rng.between(-MAX_DRIFT, MAX_DRIFT);
        let probes = (3.0 * PHASE_S / ENDS_SPACING_S) as usize;
        let mut found = Vec::with_capacity(probes);
        for place in 0..probes {
            let at_s = (place as f64 + rng.between(0.0, 0.5)) * ENDS_SPACING_S;
            let [there, back] = self.draw_one_way_delays(rng, self.hops, at_s);
            let offset_ns = OFFSET_NS + drift * at_s * 1e9;
            let lost = rng.between(0.0, 1.0) < self.loss(at_s);
            found.push(EndDelay {
                at_us: (at_s * 1e6) as u64,
                forward_ns: (!lost).then_some((there * 1e9 + offset_ns) as i64),
                reverse_ns: (!lost).then_some((back * 1e9 - offset_ns) as i64),
            });
        }
        found
    }
}

fn is_loaded(at_s: f64) -> bool {
    (PHASE_S..2.0 * PHASE_S).contains(&at_s)
}

fn format_address(ttl: u8) -> String {
    format!("10.0.{ttl}.1")
}
