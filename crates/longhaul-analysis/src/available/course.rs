//! The schedule of probe trains.
//!
//! First bursts that grow until they are long compared with the receiver's batches; then small
//! probes at random times, with trains of many rates between them; then trains that narrow the
//! interval most, while budget remains. Byte and time budgets are checked before anything is sent.
//!
//! Source: docs/methods/available-bandwidth.md. Units: bytes of IP, µs. Error: none, it only plans.
//! Wrong when: the sender is slower than planned; then rounds are skipped, and budgets still hold.

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

/// The facts known about one direction before the first probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Facts {
    pub idle_rtt_us: Option<u64>,
    /// The speed of the sender's interface.
    pub interface_bps: Option<u64>,
    /// The largest IP packet that the path carries, if known.
    pub path_mtu_bytes: Option<u32>,
}

/// The maximum number of burst rounds before the bursts are considered too short.
const MOST_BURST_ROUNDS: u32 = 5;
/// The number of sufficiently long bursts needed before the sweep.
const ENOUGH_BURSTS: usize = 4;
/// The number of packets in the first bursts.
const FIRST_BURST: u32 = 17;
const LEAST_BURST: u32 = 8;
/// A burst may be shorter than requested by this ratio.
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

/// The probe schedule of one direction, without I/O: returns trains and takes their results.
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

    /// Returns the next trains, to be sent in this order, or `None` when the schedule is complete.
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

    /// Records the results of the trains returned last.
    pub fn record(&mut self, trains: &[Train]) {
        self.purse.elapsed(trains);
        self.seen.extend_from_slice(trains);
        self.stage = self.following();
        self.begin_long();
    }

    /// Adds the time that is reserved for the long trains.
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

    /// Returns the next stage if the budget forbids all trains of this one.
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
            // Bursts that overran a short queue give no result; nor do those within a few batches.
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

    /// Repeats the start of the long trains; plans nothing if they are conclusive or show no knee.
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

    /// Returns the lower bound of the available share so far; one fifth before anything is known.
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
