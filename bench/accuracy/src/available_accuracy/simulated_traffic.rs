//! Cross traffic of a link: Poisson packets, bursts, or many heavy-tailed sources.

use longhaul_model::splitmix::SplitMix64;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TrafficPattern {
    /// Single packets of 1500, 576 and 60 B.
    Poisson,
    /// Bursts of 4 to 28 full-size packets, at ten times the rate of the link.
    Bursty,
    /// Thirty sources with Pareto on-times and exponential off-times.
    HeavyTailed,
}

const FULL_BITS: f64 = 12_000.0;
const SOURCES: usize = 30;
const SHAPE: f64 = 1.5;
/// The minimum number of packets in an on-time; the mean is three times as many.
const MIN_ON_PACKETS: f64 = 4.0;

/// Packet arrivals in time order.
#[derive(Debug, Clone)]
pub struct PacketArrivals {
    rng: SplitMix64,
    state: ArrivalState,
}

#[derive(Debug, Clone)]
enum ArrivalState {
    None,
    Poisson { at: f64, mean_gap: f64 },
    Bursty { at: f64, mean_gap: f64, left: usize, within: f64, next: f64 },
    HeavyTailed { sources: Vec<OnOffSource>, gap: f64, mean_off: f64 },
}

#[derive(Debug, Clone, Copy)]
struct OnOffSource {
    next: f64,
    left: f64,
}

impl PacketArrivals {
    pub fn new(
        traffic: TrafficPattern,
        load_bps: f64,
        capacity_bps: f64,
        seed: u64,
    ) -> PacketArrivals {
        let mut rng = SplitMix64::new(seed);
        let state = if load_bps <= 0.0 {
            ArrivalState::None
        } else {
            match traffic {
                TrafficPattern::Poisson => {
                    ArrivalState::Poisson { at: 0.0, mean_gap: POISSON_MEAN_BITS / load_bps }
                }
                TrafficPattern::Bursty => ArrivalState::Bursty {
                    at: 0.0,
                    mean_gap: 16.0 * FULL_BITS / load_bps,
                    left: 0,
                    within: FULL_BITS / (10.0 * capacity_bps),
                    next: 0.0,
                },
                TrafficPattern::HeavyTailed => start_heavy_tailed(load_bps, &mut rng),
            }
        };
        PacketArrivals { rng, state }
    }

    /// Returns the time and the size in bits of the next arrival.
    pub fn next_arrival(&mut self) -> (f64, f64) {
        let rng = &mut self.rng;
        match &mut self.state {
            ArrivalState::None => (f64::INFINITY, 0.0),
            ArrivalState::Poisson { at, mean_gap } => {
                *at += draw_exponential(rng, *mean_gap);
                (*at, draw_packet_bits(rng))
            }
            ArrivalState::Bursty { at, mean_gap, left, within, next } => {
                if *left == 0 {
                    *at += draw_exponential(rng, *mean_gap);
                    *left = 4 + rng.below(25);
                    // A burst delays the next one if it is not over.
                    *next = next.max(*at);
                }
                *left -= 1;
                let now = *next;
                *next += *within;
                (now, FULL_BITS)
            }
            ArrivalState::HeavyTailed { sources, gap, mean_off } => {
                let first = find_earliest_source(sources);
                let source = &mut sources[first];
                let now = source.next;
                source.left -= 1.0;
                source.next += *gap;
                if source.left < 1.0 {
                    source.next += draw_exponential(rng, *mean_off);
                    source.left = draw_pareto(rng);
                }
                (now, FULL_BITS)
            }
        }
    }
}

const POISSON_MEAN_BITS: f64 = 8.0 * (0.5 * 1500.0 + 0.25 * 576.0 + 0.25 * 60.0);

fn draw_packet_bits(rng: &mut SplitMix64) -> f64 {
    8.0 * match rng.below(4) {
        0 => 60.0,
        1 => 576.0,
        _ => 1500.0,
    }
}

fn start_heavy_tailed(load_bps: f64, rng: &mut SplitMix64) -> ArrivalState {
    // Each source is on for half of the time.
    let gap = FULL_BITS / (2.0 * load_bps / SOURCES as f64);
    let mean_on = MIN_ON_PACKETS * SHAPE / (SHAPE - 1.0);
    let sources = (0..SOURCES).map(|_| OnOffSource {
        next: rng.between(0.0, 2.0 * mean_on * gap),
        left: draw_pareto(rng),
    });
    ArrivalState::HeavyTailed { sources: sources.collect(), gap, mean_off: mean_on * gap }
}

fn find_earliest_source(sources: &[OnOffSource]) -> usize {
    let mut first = 0;
    for (i, source) in sources.iter().enumerate() {
        if source.next < sources[first].next {
            first = i;
        }
    }
    first
}

pub fn draw_exponential(rng: &mut SplitMix64, mean: f64) -> f64 {
    -rng.between(1e-12, 1.0).ln() * mean
}

fn draw_pareto(rng: &mut SplitMix64) -> f64 {
    // Longer on-times would amount to a constant load.
    (MIN_ON_PACKETS * rng.between(1e-12, 1.0).powf(-1.0 / SHAPE)).min(1e4)
}
