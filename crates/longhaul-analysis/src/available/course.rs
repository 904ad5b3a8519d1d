//! Which trains are sent next?
//!
//! Bursts that grow until they are long beside the receiver's batches; then small probes at random
//! times with trains of many rates among them; then more of what would narrow the interval most,
//! while budget is left. Budgets of bytes and time are counted before anything is sent.
//!
//! Source: docs/methods/available-bandwidth.md. Units: bytes of IP, µs. Error: none, it only asks.
//! Wrong when: the sender is slower than asked; then rounds are left out, never budgets exceeded.

mod blocks;
mod budget;

use super::bucket;
use super::evidence::Evidence;
use super::fusion::{self, Accord, Fusion};
use super::resolution;
use blocks::Shape;
use budget::Purse;
pub use budget::{Budget, budget};
use longhaul_model::report::v1::available::{Mode, Plan, Train, TrainPlan};

/// What is known of one direction before the first probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Facts {
    pub idle_rtt_us: Option<u64>,
    /// Speed of the sender's interface.
    pub interface_bps: Option<u64>,
    /// Largest IP packet of the path, where it is known.
    pub path_mtu_bytes: Option<u32>,
}

/// Rounds of bursts before it is said that they are too short.
const MOST_BURST_ROUNDS: u32 = 5;
/// Bursts that are long enough, before the sweep begins.
const ENOUGH_BURSTS: usize = 4;
/// Packets of the first bursts.
const FIRST_BURST: u32 = 17;
const LEAST_BURST: u32 = 8;
/// A burst may be this much shorter than asked.
const SHORT_BURST: f64 = 0.8;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Bursts { round: u32, packets: u32 },
    Main,
    More { round: u32 },
    Memory,
    Long,
    Again,
    Done,
}

/// The phases of one direction: plain data, asked for trains and told what came of them.
#[derive(Debug, Clone, PartialEq)]
pub struct Course {
    plan: Plan,
    facts: Facts,
    seen: Vec<Train>,
    stage: Stage,
    purse: Purse,
    next_index: u32,
}

impl Course {
    pub fn new(plan: &Plan, facts: Facts) -> Course {
        let packet_bytes = facts
            .path_mtu_bytes
            .map_or(plan.packet_bytes, |mtu| plan.packet_bytes.min(mtu))
            .max(blocks::SMALL_BYTES);
        Course {
            purse: Purse::new(plan, facts),
            plan: Plan {
                packet_bytes,
                ..plan.clone()
            },
            facts,
            seen: Vec::new(),
            stage: Stage::Bursts {
                round: 0,
                packets: FIRST_BURST,
            },
            next_index: 0,
        }
    }

    /// The next trains, to be sent in this order; `None`: enough was seen.
    #[expect(
        clippy::should_implement_trait,
        reason = "it is told between two calls what came of the first, so it is no iterator"
    )]
    pub fn next(&mut self) -> Option<Vec<TrainPlan>> {
        while self.stage != Stage::Done {
            let asked = self.ask();
            let mut trains = self.purse.pay(asked);
            if !trains.is_empty() {
                for train in &mut trains {
                    train.index = self.next_index;
                    self.next_index += 1;
                }
                return Some(trains);
            }
            self.stage = self.after_nothing();
            self.begin_long();
        }
        None
    }

    /// What came of the trains asked for last.
    pub fn record(&mut self, trains: &[Train]) {
        self.purse.elapsed(trains);
        self.seen.extend_from_slice(trains);
        self.stage = self.following();
        self.begin_long();
    }

    /// The long look has time of its own.
    fn begin_long(&mut self) {
        if self.stage == Stage::Long {
            self.purse.allow(self.plan.shaper_time_us.unwrap_or(0));
        }
    }

    fn ask(&self) -> Vec<TrainPlan> {
        let shape = self.shape();
        match self.stage {
            Stage::Bursts { round: 0, .. } if self.plan.mode == Mode::Light => {
                blocks::light(&shape, &self.purse)
            }
            Stage::Bursts { round, packets } => {
                let count = if round == 0 { 2 } else { ENOUGH_BURSTS as u32 };
                blocks::bursts(&shape, &self.purse, count, packets)
            }
            Stage::Main => blocks::main(&shape, &self.purse, self.facts.interface_bps),
            Stage::More { .. } => self.fused().map_or_else(Vec::new, |fusion| {
                blocks::more(&shape, &self.purse, &fusion, self.facts.interface_bps)
            }),
            Stage::Memory => blocks::memory(&shape),
            Stage::Long => blocks::long(&shape, &self.purse, self.plan.shaper_time_us),
            Stage::Again => self.again(&shape),
            Stage::Done => Vec::new(),
        }
    }

    /// Where the budget forbids all of what a stage asked for.
    fn after_nothing(&self) -> Stage {
        match self.stage {
            Stage::Bursts { .. } if self.evidence().dispersion.is_some() => Stage::Main,
            Stage::Main | Stage::More { .. } | Stage::Memory => self.long_or_done(),
            Stage::Bursts { .. } | Stage::Long | Stage::Again | Stage::Done => Stage::Done,
        }
    }

    fn following(&self) -> Stage {
        match self.stage {
            Stage::Bursts { .. } if self.plan.mode == Mode::Light => Stage::Done,
            Stage::Bursts { round, packets } => self.after_bursts(round, packets),
            Stage::Main => self.after_main(0),
            Stage::More { round } => self.after_main(round + 1),
            Stage::Memory => self.long_or_done(),
            Stage::Long => Stage::Again,
            Stage::Again | Stage::Done => Stage::Done,
        }
    }

    fn after_bursts(&self, round: u32, packets: u32) -> Stage {
        let evidence = self.evidence();
        if evidence.lost == evidence.sent {
            return Stage::Done;
        }
        let Some(dispersion) = evidence.dispersion else {
            // Bursts that overran a short queue tell nothing; nor do those within a few batches.
            let grown = if evidence.lost * 50 > evidence.sent {
                (packets / 2).max(LEAST_BURST)
            } else {
                (packets * 4).min(resolution::MOST_PACKETS)
            };
            return if round < MOST_BURST_ROUNDS && grown != packets {
                Stage::Bursts {
                    round: round + 1,
                    packets: grown,
                }
            } else {
                Stage::Done
            };
        };
        let bits = f64::from(self.plan.packet_bytes) * 8.0;
        let needed_s = dispersion.needed_s();
        let fits = (needed_s * dispersion.capacity_bps / bits).ceil() as u32 + 4;
        let long_enough = evidence.bursts_of_span(SHORT_BURST * needed_s);
        if fits > resolution::MOST_PACKETS {
            return Stage::Done;
        }
        if long_enough >= ENOUGH_BURSTS || round >= MOST_BURST_ROUNDS {
            return Stage::Main;
        }
        Stage::Bursts {
            round: round + 1,
            packets: fits.max(FIRST_BURST).max(packets.min(fits)),
        }
    }

    fn after_main(&self, rounds: u32) -> Stage {
        let evidence = self.evidence();
        if bucket::suspected(&evidence) {
            return Stage::Memory;
        }
        let (target, most_rounds) = match self.plan.mode {
            Mode::Careful => (0.012, 6),
            _ => (0.025, 2),
        };
        let unsure = self.fused().is_some_and(|f| {
            let off = f
                .available
                .is_none_or(|a| a.deviation > target * f.capacity.value);
            off && f.accord != Accord::SeveralHops
        });
        if unsure && rounds < most_rounds {
            Stage::More { round: rounds }
        } else {
            self.long_or_done()
        }
    }

    fn long_or_done(&self) -> Stage {
        if self.plan.shaper_time_us.is_some() {
            Stage::Long
        } else {
            Stage::Done
        }
    }

    /// Nothing where the long look is clear by itself, or shows no knee.
    fn again(&self, shape: &Shape) -> Vec<TrainPlan> {
        if bucket::long(&self.seen).is_some() {
            return Vec::new();
        }
        let hint = bucket::hint(&self.evidence());
        hint.map_or_else(Vec::new, |knee| {
            blocks::again(shape, knee.at_bytes, knee.sustained_bps)
        })
    }

    fn evidence(&self) -> Evidence {
        Evidence::of(&self.seen)
    }

    fn fused(&self) -> Option<Fusion> {
        fusion::fuse(&self.evidence(), None)
    }

    /// What is free at least, as far as is known; a fifth before anything is.
    fn free_ratio(&self) -> f64 {
        let known = match self.stage {
            Stage::More { .. } => self.fused(),
            _ => None,
        };
        let ratio = known.and_then(|f| Some(f.available?.interval[0] / f.capacity.value));
        ratio.map_or(0.2, |r| r.clamp(0.1, 0.5))
    }

    fn shape(&self) -> Shape {
        let dispersion = self.evidence().dispersion;
        Shape {
            mode: self.plan.mode,
            packet_bytes: self.plan.packet_bytes,
            seed: self.plan.seed ^ u64::from(self.next_index).wrapping_mul(0x9e37_79b9_7f4a_7c15),
            rate_bps: dispersion.map_or(blocks::UNKNOWN_BPS, |d| d.rate_bps),
            capacity_bps: dispersion.map_or(blocks::UNKNOWN_BPS, |d| d.capacity_bps),
            batching_s: dispersion.map_or(0.0, |d| d.batching_s),
            free_ratio: self.free_ratio(),
        }
    }
}
