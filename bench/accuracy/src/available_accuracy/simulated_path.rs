//! A path of FIFO links with cross traffic and a receiver that batches. It gives the estimators
//! what a real session would give, together with the truth.

use super::simulated_traffic::{PacketArrivals, TrafficPattern, draw_exponential};
use longhaul_model::report::v1::available::{ProbeTrain, TrainPlan, TrainSchedule};
use longhaul_model::splitmix::SplitMix64;

/// The time that the sender's software takes for a packet, and its mean delay.
const SOFTWARE_S: f64 = 0.6e-6;
const LATENESS_S: f64 = 1.5e-6;
/// The error of a timestamp.
const STAMP_S: f64 = 0.3e-6;
const BATCH_PACKETS: usize = 64;
/// One-way delay without queues.
const DELAY_S: f64 = 5e-3;

/// A link with cross traffic and optionally a token bucket.
#[derive(Debug, Clone)]
pub struct SimulatedLink {
    pub capacity_bps: f64,
    arrivals: PacketArrivals,
    next: (f64, f64),
    free_at: f64,
    /// Cross traffic that has arrived since the first train began.
    counted_bits: f64,
    bucket: Option<SimulatedBucket>,
}

/// A token bucket, counted in bits.
#[derive(Debug, Clone, Copy)]
pub struct SimulatedBucket {
    rate_bps: f64,
    most_bits: f64,
    drops: bool,
    /// The maximum amount of queued data, in bits.
    queue_bits: f64,
    level: f64,
    at: f64,
}

impl SimulatedBucket {
    pub fn new(rate_bps: f64, most_bytes: f64, drops: bool) -> SimulatedBucket {
        SimulatedBucket {
            rate_bps,
            most_bits: most_bytes * 8.0,
            drops,
            queue_bits: f64::INFINITY,
            level: most_bytes * 8.0,
            at: 0.0,
        }
    }

    /// Limits the queue; a packet that finds more waiting is dropped.
    #[must_use]
    pub fn with_queue(self, bytes: f64) -> SimulatedBucket {
        SimulatedBucket { queue_bits: bytes * 8.0, ..self }
    }

    /// Returns the departure of a packet queued for `waited_s` until `at`; `None` if dropped.
    fn admit(&mut self, at: f64, waited_s: f64, bits: f64) -> Option<f64> {
        if waited_s * self.rate_bps > self.queue_bits {
            return None;
        }
        self.level = (self.level + (at - self.at).max(0.0) * self.rate_bps).min(self.most_bits);
        self.at = self.at.max(at);
        if self.level >= bits {
            self.level -= bits;
            return Some(at);
        }
        if self.drops {
            return None;
        }
        let go = at + (bits - self.level) / self.rate_bps;
        self.level = 0.0;
        self.at = go;
        Some(go)
    }
}

impl SimulatedLink {
    pub fn new(
        capacity_bps: f64,
        load_ratio: f64,
        traffic: TrafficPattern,
        seed: u64,
    ) -> SimulatedLink {
        let mut arrivals =
            PacketArrivals::new(traffic, load_ratio * capacity_bps, capacity_bps, seed);
        let next = arrivals.next_arrival();
        SimulatedLink {
            capacity_bps,
            arrivals,
            next,
            free_at: 0.0,
            counted_bits: 0.0,
            bucket: None,
        }
    }

    #[must_use]
    pub fn with_bucket(self, tokens: SimulatedBucket) -> SimulatedLink {
        SimulatedLink { bucket: Some(tokens), ..self }
    }

    /// Returns the rate in bit/s and the size in bytes of its bucket, which it must have.
    pub fn bucket_truth(&self) -> (f64, f64) {
        let bucket = self.bucket.expect("a link with a bucket");
        (bucket.rate_bps, bucket.most_bits / 8.0)
    }

    fn advance(&mut self, to: f64) {
        while self.next.0 <= to {
            let (at, bits) = self.next;
            self.free_at = self.free_at.max(at) + bits / self.capacity_bps;
            self.counted_bits += bits;
            self.next = self.arrivals.next_arrival();
        }
    }

    fn pass(&mut self, at: f64, bits: f64) -> Option<f64> {
        self.advance(at);
        let mut start = self.free_at.max(at);
        if let Some(tokens) = &mut self.bucket {
            start = tokens.admit(start, start - at, bits)?;
        }
        self.free_at = start + bits / self.capacity_bps;
        Some(self.free_at)
    }
}

/// Draws a normal delay with a deviation of a third of its mean, occasionally a longer one, and
/// rarely a stall. All packets that arrive during a stall are stamped at its end.
fn draw_lateness(rng: &mut SplitMix64, late_s: f64) -> f64 {
    if late_s <= 0.0 {
        return 0.0;
    }
    let usual = late_s * (1.0 + rng.normal() / 3.0).max(0.0);
    match rng.below(500) {
        0 => usual + draw_exponential(rng, 30.0 * late_s),
        1..=50 => usual + draw_exponential(rng, late_s),
        _ => usual,
    }
}

#[derive(Debug, Clone)]
pub struct SimulatedPath {
    pub line_bps: f64,
    pub links: Vec<SimulatedLink>,
    /// The receiver's interrupt coalescing timer.
    pub batching_s: f64,
    /// Skew of the receiver's clock.
    pub skew: f64,
    /// The mean delay of single timestamps on a busy receiver; some are much later.
    pub late_s: f64,
    now: f64,
    line_free_at: f64,
    rng: SplitMix64,
    began: Option<f64>,
    ended: f64,
}

impl SimulatedPath {
    pub fn new(
        line_bps: f64,
        links: Vec<SimulatedLink>,
        batching_s: f64,
        seed: u64,
    ) -> SimulatedPath {
        let slowest = links.iter().map(|l| l.capacity_bps).fold(f64::MAX, f64::min);
        SimulatedPath {
            line_bps,
            links,
            batching_s,
            skew: 0.0,
            late_s: 0.0,
            // Long enough for the queues to reach their steady state.
            now: (5e6 / slowest).clamp(2e-3, 0.5),
            line_free_at: 0.0,
            rng: SplitMix64::new(seed),
            began: None,
            ended: 0.0,
        }
    }

    /// Sends the trains one after the other, then waits for one round trip.
    pub fn send(&mut self, plans: &[TrainPlan]) -> Vec<ProbeTrain> {
        let trains = plans.iter().map(|plan| self.train(plan)).collect();
        self.now += 2.0 * DELAY_S;
        trains
    }

    fn train(&mut self, plan: &TrainPlan) -> ProbeTrain {
        let bits = f64::from(plan.packet_bytes) * 8.0;
        let sent_at = self.now + plan.pause_us as f64 / 1e6;
        let sent: Vec<f64> = self.departures(plan, sent_at);
        if self.began.is_none() {
            self.begin(sent_at);
        }
        let arrived: Vec<Option<f64>> = sent.iter().map(|at| self.carry(*at, bits)).collect();
        let stamped = self.stamp(&arrived);
        let last = sent.last().copied().unwrap_or(sent_at);
        self.now = last;
        self.ended = last;
        let zero = stamped.iter().flatten().next().copied().unwrap_or(0.0);
        let ns = |s: f64| (s * 1e9).round() as u64;
        ProbeTrain {
            index: plan.index,
            purpose: plan.purpose,
            packet_bytes: plan.packet_bytes,
            rate_bps: match plan.schedule {
                TrainSchedule::RateBps(bps) => Some(bps),
                _ => None,
            },
            micro_burst_packets: 1,
            sent_at_ns: ns(sent_at),
            sent_ns: sent.iter().map(|at| ns(at - sent_at)).collect(),
            received_at_ns: 77_000_000_000 + ns(zero),
            received_ns: stamped.iter().map(|at| at.map(|at| ns((at - zero).max(0.0)))).collect(),
            clock_step_ns: Some(0),
            spoilt: None,
        }
    }

    fn begin(&mut self, at: f64) {
        self.began = Some(at);
        for link in &mut self.links {
            link.advance(at);
            link.counted_bits = 0.0;
        }
    }

    fn departures(&mut self, plan: &TrainPlan, from: f64) -> Vec<f64> {
        let bits = f64::from(plan.packet_bytes) * 8.0;
        let mut planned = from;
        let mut at = from;
        let mut poisson = match plan.schedule {
            TrainSchedule::Poisson { seed, .. } => Some(SplitMix64::new(seed)),
            _ => None,
        };
        let mut times = Vec::with_capacity(plan.packets as usize);
        for i in 0..plan.packets {
            let late = match plan.schedule {
                TrainSchedule::BackToBack => 0.05 * LATENESS_S,
                _ => LATENESS_S,
            };
            at = at.max(planned + draw_exponential(&mut self.rng, late));
            times.push(at);
            at += SOFTWARE_S;
            planned = match plan.schedule {
                TrainSchedule::BackToBack => at,
                TrainSchedule::RateBps(bps) => from + f64::from(i + 1) * bits / bps as f64,
                TrainSchedule::Poisson { mean_gap_ns, .. } => {
                    let rng = poisson.as_mut().expect("set for this schedule");
                    planned + draw_exponential(rng, mean_gap_ns as f64 / 1e9)
                }
            };
        }
        times
    }

    fn carry(&mut self, at: f64, bits: f64) -> Option<f64> {
        self.line_free_at = self.line_free_at.max(at) + bits / self.line_bps;
        let mut at = self.line_free_at;
        for link in &mut self.links {
            at = link.pass(at, bits)?;
        }
        Some(at + DELAY_S)
    }

    /// Timestamps all packets that arrive before the timer expires; the first one starts it.
    fn stamp(&mut self, arrived: &[Option<f64>]) -> Vec<Option<f64>> {
        let skewed = |at: f64| at * (1.0 + self.skew);
        if self.batching_s <= 0.0 {
            let (rng, late_s) = (&mut self.rng, self.late_s);
            let mut before = 0.0f64;
            let stamps = arrived.iter().map(|at| {
                at.map(|at| {
                    let late = rng.normal().abs() * STAMP_S + draw_lateness(rng, late_s);
                    before = before.max(skewed(at) + late);
                    before
                })
            });
            return stamps.collect();
        }
        let mut stamps = vec![None; arrived.len()];
        let mut i = 0;
        while i < arrived.len() {
            let Some(first) = arrived[i] else {
                i += 1;
                continue;
            };
            let fires = first + self.batching_s * self.rng.between(0.8, 1.0);
            let mut batch: Vec<usize> = Vec::new();
            let mut last = first;
            while i < arrived.len()
                && batch.len() < BATCH_PACKETS
                && arrived[i].is_none_or(|at| at <= fires)
            {
                if let Some(at) = arrived[i] {
                    batch.push(i);
                    last = at;
                }
                i += 1;
            }
            let mut at = if batch.len() == BATCH_PACKETS { last } else { fires };
            for packet in batch {
                stamps[packet] = Some(skewed(at));
                at += self.rng.between(0.3e-6, 1e-6);
            }
        }
        // Handling one batch may last into the next one.
        let mut before = 0.0f64;
        for stamp in stamps.iter_mut().flatten() {
            before = before.max(*stamp);
            *stamp = before;
        }
        stamps
    }

    /// The average free capacity of the link with the least, from the first probe to the last.
    pub fn truth_bps(&self) -> f64 {
        let seconds = self.seconds().max(1e-9);
        let free = self.links.iter().map(|l| l.capacity_bps - l.counted_bits / seconds);
        free.fold(f64::MAX, f64::min)
    }

    pub fn capacity_bps(&self) -> f64 {
        self.links.iter().map(|l| l.capacity_bps).fold(f64::MAX, f64::min)
    }

    pub fn seconds(&self) -> f64 {
        self.ended - self.began.unwrap_or(self.ended)
    }
}
