//! The schedule of probe trains.
//!
//! First bursts that grow until they are long compared with the receiver's batches; then small
//! probes at random times, with trains of many rates between them; then trains that narrow the
//! interval most, while budget remains. Byte and time budgets are checked before anything is sent.
//!
//! Source: docs/methods/available-bandwidth.md. Units: bytes of IP, µs. Error: none, it only plans.
//! Wrong when: the sender is slower than planned; then rounds are skipped, and budgets still hold.
//!
//! # Train budget
//!
//! The remaining byte and time budget.
//!
//! Source: the plan. Units: bytes of IP, µs from the first probe. Error: the duration of bursts is
//! estimated, then corrected. Wrong when: the sender lags; then later rounds are skipped.

mod train_planning;

use super::capacity::TrainDispersion;
use super::fusion::{self, FusedEstimate, MethodAgreement};
use super::{TrainEvidence, bucket_detection};
use longhaul_model::report::v1::available::{
    AvailableMode, AvailablePlan, ProbeTrain, TrainPlan, TrainSchedule,
};
use train_planning::TrainShape;

/// The facts known about one direction before the first probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PriorPathFacts {
    pub idle_rtt_us: Option<u64>,
    /// The speed of the sender's interface.
    pub interface_bps: Option<u64>,
    /// The largest IP packet that the path carries, if known.
    pub path_mtu_bytes: Option<u32>,
}

/// The parameters of the schedule.
struct ProbeScheduleTuning;

impl ProbeScheduleTuning {
    /// The maximum number of burst rounds before the bursts are considered too short.
    const MAX_BURST_ROUNDS: u32 = 5;
    /// The number of sufficiently long bursts needed before the sweep.
    const ENOUGH_BURSTS: usize = 4;
    /// The number of packets in the first bursts.
    const FIRST_BURST: u32 = 17;
    const MIN_BURST_PACKETS: u32 = 8;
    /// A burst may be shorter than requested by this ratio.
    const SHORT_BURST: f64 = 0.8;
    /// The rate of the long trains as a ratio of the capacity: slightly less than fills the link.
    const LONG_RATIO: f64 = 0.97;
    /// The rate of a shorter look as a ratio of the available bandwidth.
    const LOOK_RATIO: f64 = 0.95;
    /// The part of the time that is kept for this look.
    const LOOK_PART: u64 = 4;
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ScheduleStage {
    Bursts { round: u32, packets: u32 },
    Sweep { round: u32 },
    Memory,
    Long,
    RepeatLong,
    Done,
}

/// The probe schedule of one direction, without I/O: returns trains and takes their results.
#[derive(Debug, Clone, PartialEq)]
pub struct ProbeSchedule {
    plan: AvailablePlan,
    facts: PriorPathFacts,
    seen: Vec<ProbeTrain>,
    stage: ScheduleStage,
    purse: TrainBudget,
    next_index: u32,
}

impl ProbeSchedule {
    pub fn new(plan: &AvailablePlan, facts: PriorPathFacts) -> ProbeSchedule {
        let packet_bytes = facts
            .path_mtu_bytes
            .map_or(plan.packet_bytes, |mtu| plan.packet_bytes.min(mtu))
            .max(train_planning::SMALL_BYTES);
        let packets = match plan.mode {
            AvailableMode::Light => super::LIGHT_PACKETS,
            _ => ProbeScheduleTuning::FIRST_BURST,
        };
        let mut purse = TrainBudget::new(plan, facts);
        purse.reserve_time(reserved_look_us(plan));
        ProbeSchedule {
            purse,
            plan: AvailablePlan { packet_bytes, ..plan.clone() },
            facts,
            seen: Vec::new(),
            stage: ScheduleStage::Bursts { round: 0, packets },
            next_index: 0,
        }
    }

    /// Returns the next trains, to be sent in this order, or `None` when the schedule is complete.
    #[expect(
        clippy::should_implement_trait,
        reason = "it is told between two calls what came of the first, so it is no iterator"
    )]
    pub fn next(&mut self) -> Option<Vec<TrainPlan>> {
        while self.stage != ScheduleStage::Done {
            let asked = self.plan_stage();
            let mut trains = self.purse.take_affordable(asked);
            if !trains.is_empty() {
                for train in &mut trains {
                    train.index = self.next_index;
                    self.next_index += 1;
                }
                return Some(trains);
            }
            self.enter_next_stage(false);
        }
        None
    }

    /// Records the results of the trains returned last.
    pub fn record(&mut self, trains: &[ProbeTrain]) {
        self.purse.record_elapsed(trains);
        self.seen.extend_from_slice(trains);
        self.enter_next_stage(true);
    }

    /// Enters the next stage, with the time that is reserved for it. `sent` is false if the budget
    /// forbade all trains of this one.
    fn enter_next_stage(&mut self, sent: bool) {
        self.stage = self.next_stage(sent);
        if self.stage == ScheduleStage::Long {
            let look_us = reserved_look_us(&self.plan);
            self.purse.add_time(self.plan.shaper_time_us.unwrap_or(look_us));
        }
    }

    fn plan_stage(&self) -> Vec<TrainPlan> {
        let shape = self.shape();
        match self.stage {
            ScheduleStage::Bursts { round, packets } if self.plan.mode == AvailableMode::Light => {
                train_planning::plan_light_mode(&shape, &self.purse, round, packets)
            }
            ScheduleStage::Bursts { round, packets } => {
                let count = if round == 0 { 2 } else { ProbeScheduleTuning::ENOUGH_BURSTS as u32 };
                train_planning::plan_bursts(&shape, &self.purse, count, packets)
            }
            ScheduleStage::Sweep { round: 0 } => {
                train_planning::plan_main_sweep(&shape, &self.purse)
            }
            ScheduleStage::Sweep { .. } => self.fused().map_or_else(Vec::new, |fusion| {
                train_planning::plan_more_trains(&shape, &self.purse, &fusion)
            }),
            ScheduleStage::Memory => train_planning::plan_burst_pairs(&shape),
            ScheduleStage::Long => match self.plan.shaper_time_us {
                Some(us) => train_planning::plan_long_trains(&shape, &self.purse, us),
                None => train_planning::plan_bucket_look(&shape),
            },
            ScheduleStage::RepeatLong => self.plan_repetition(&shape),
            ScheduleStage::Done => Vec::new(),
        }
    }

    fn next_stage(&self, sent: bool) -> ScheduleStage {
        match self.stage {
            ScheduleStage::Bursts { round: 0, packets }
                if sent && self.plan.mode == AvailableMode::Light =>
            {
                self.plan_last_light_round(packets)
            }
            ScheduleStage::Bursts { .. } if self.plan.mode == AvailableMode::Light => {
                ScheduleStage::Done
            }
            ScheduleStage::Bursts { round, packets } if sent => {
                self.stage_after_bursts(round, packets)
            }
            ScheduleStage::Bursts { .. } if self.evidence().dispersion.is_some() => {
                ScheduleStage::Sweep { round: 0 }
            }
            ScheduleStage::Sweep { round } if sent => self.stage_after_sweep(round),
            ScheduleStage::Sweep { .. } | ScheduleStage::Memory => self.stage_long_or_done(),
            ScheduleStage::Long if sent => ScheduleStage::RepeatLong,
            ScheduleStage::Bursts { .. }
            | ScheduleStage::Long
            | ScheduleStage::RepeatLong
            | ScheduleStage::Done => ScheduleStage::Done,
        }
    }

    /// Doubles the second burst if the first one was too short, as behind a token bucket.
    fn plan_last_light_round(&self, packets: u32) -> ScheduleStage {
        let is_short = |d: TrainDispersion| {
            d.capacity_bps > super::max_resolvable_bps(d.batching_s, &self.plan)
        };
        let is_short = self.evidence().dispersion.is_some_and(is_short);
        ScheduleStage::Bursts { round: 1, packets: if is_short { 2 * packets } else { packets } }
    }

    fn stage_after_bursts(&self, round: u32, packets: u32) -> ScheduleStage {
        let evidence = self.evidence();
        if evidence.lost == evidence.sent {
            return ScheduleStage::Done;
        }
        let Some(dispersion) = evidence.dispersion else {
            // Bursts that overran a short queue give no result; nor do those within a few batches.
            let grown = if evidence.lost * 50 > evidence.sent {
                (packets / 2).max(ProbeScheduleTuning::MIN_BURST_PACKETS)
            } else {
                (packets * 4).min(super::MAX_TRAIN_PACKETS)
            };
            return if round < ProbeScheduleTuning::MAX_BURST_ROUNDS && grown != packets {
                ScheduleStage::Bursts { round: round + 1, packets: grown }
            } else {
                ScheduleStage::Done
            };
        };
        let bits = f64::from(self.plan.packet_bytes) * 8.0;
        let needed_s = dispersion.min_burst_s();
        let fits = (needed_s * dispersion.capacity_bps / bits).ceil() as u32 + 4;
        let long_enough = evidence.count_long_bursts(ProbeScheduleTuning::SHORT_BURST * needed_s);
        if fits > super::MAX_TRAIN_PACKETS {
            return ScheduleStage::Done;
        }
        if long_enough >= ProbeScheduleTuning::ENOUGH_BURSTS
            || round >= ProbeScheduleTuning::MAX_BURST_ROUNDS
        {
            return ScheduleStage::Sweep { round: 0 };
        }
        ScheduleStage::Bursts {
            round: round + 1,
            packets: fits.max(ProbeScheduleTuning::FIRST_BURST).max(packets.min(fits)),
        }
    }

    fn stage_after_sweep(&self, round: u32) -> ScheduleStage {
        let evidence = self.evidence();
        if bucket_detection::is_bucket_suspected(&evidence) {
            return ScheduleStage::Memory;
        }
        let (target, most_rounds) = match self.plan.mode {
            AvailableMode::Careful => (0.012, 6),
            _ => (0.025, 2),
        };
        let unsure = self.fused().is_some_and(|f| {
            let off = f.available.is_none_or(|a| a.deviation > target * f.capacity.value);
            off && f.accord != MethodAgreement::SeveralHops
        });
        if unsure && round < most_rounds {
            ScheduleStage::Sweep { round: round + 1 }
        } else {
            self.stage_long_or_done()
        }
    }

    /// Looks for a bucket that outlasts the bursts, unless a smaller one was found.
    fn stage_long_or_done(&self) -> ScheduleStage {
        let is_found = || bucket_detection::find_small_bucket(&self.evidence()).is_some();
        if self.plan.shaper_time_us.is_some() || !is_found() {
            ScheduleStage::Long
        } else {
            ScheduleStage::Done
        }
    }

    /// Returns the rate of the long trains: with a search for a large bucket slightly less than fills
    /// the link, otherwise slightly less than is available, so that no queue grows without a bucket.
    fn long_bps(&self, capacity_bps: f64) -> f64 {
        match (self.stage, self.plan.shaper_time_us) {
            (ScheduleStage::Long | ScheduleStage::RepeatLong, None) => {
                let available = self.fused().and_then(|fusion| fusion.available);
                let free_bps = available.map_or(0.0, |it| it.value.min(capacity_bps));
                ProbeScheduleTuning::LOOK_RATIO * free_bps
            }
            _ => ProbeScheduleTuning::LONG_RATIO * capacity_bps,
        }
    }

    /// Repeats the start of the long trains; plans nothing if they are conclusive or show no knee.
    fn plan_repetition(&self, shape: &TrainShape) -> Vec<TrainPlan> {
        let evidence = self.evidence();
        if bucket_detection::find_large_bucket(&evidence).is_some() {
            return Vec::new();
        }
        let hint = bucket_detection::find_knee_hint(&evidence);
        hint.map_or_else(Vec::new, |knee| {
            let is_search = self.plan.shaper_time_us.is_some();
            train_planning::plan_repeated_trains(
                shape,
                knee.at_bytes,
                knee.sustained_bps,
                is_search,
            )
        })
    }

    fn evidence(&self) -> TrainEvidence {
        TrainEvidence::of(&self.seen)
    }

    fn fused(&self) -> Option<FusedEstimate> {
        fusion::fuse_methods(&self.evidence())
    }

    /// Returns the lower bound of the available share so far; one fifth before anything is known.
    fn free_ratio(&self) -> f64 {
        let known = match self.stage {
            ScheduleStage::Sweep { round: 1.. } => self.fused(),
            _ => None,
        };
        let ratio = known.and_then(|f| Some(f.available?.interval[0] / f.capacity.value));
        ratio.map_or(0.2, |r| r.clamp(0.1, 0.5))
    }

    fn shape(&self) -> TrainShape {
        let dispersion = self.evidence().dispersion;
        let capacity_bps = dispersion.map_or(train_planning::UNKNOWN_BPS, |d| d.capacity_bps);
        TrainShape {
            mode: self.plan.mode,
            packet_bytes: self.plan.packet_bytes,
            interface_bps: self.facts.interface_bps,
            seed: self.plan.seed ^ u64::from(self.next_index).wrapping_mul(0x9e37_79b9_7f4a_7c15),
            rate_bps: dispersion.map_or(train_planning::UNKNOWN_BPS, |d| d.rate_bps),
            capacity_bps,
            long_bps: self.long_bps(capacity_bps),
            hides_queues: dispersion.is_some_and(|d| d.hidden_queue_s > 0.0),
            batching_s: dispersion.map_or(0.0, |d| d.batching_s),
            free_ratio: self.free_ratio(),
        }
    }
}

/// Returns the time that is kept for a look for a token bucket; a search has time of its own.
fn reserved_look_us(plan: &AvailablePlan) -> u64 {
    let looks = plan.mode != AvailableMode::Light && plan.shaper_time_us.is_none();
    if looks { plan.most_time_us / ProbeScheduleTuning::LOOK_PART } else { 0 }
}

/// The maximum cost of a mode, for each direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ModeBudget {
    pub most_bytes: u64,
    pub most_time_us: u64,
}

/// Returns the budget of a mode. Light mode costs what abing costs; the others use less on slower
/// paths, within the limit on the average load.
pub const fn budget_of_mode(mode: AvailableMode) -> ModeBudget {
    match mode {
        AvailableMode::Light => ModeBudget { most_bytes: 58_000, most_time_us: 1_000_000 },
        AvailableMode::Quick => ModeBudget { most_bytes: 64_000_000, most_time_us: 4_000_000 },
        AvailableMode::Careful => ModeBudget { most_bytes: 256_000_000, most_time_us: 10_000_000 },
    }
}

/// The processing time of both ends between two rounds, without the RTT.
const ROUND_US: u64 = 15_000;
/// The time for which the receiver waits for packets that were lost.
const LOSS_WAIT_US: u64 = 450_000;
/// The share of the time that is kept in reserve because senders lag.
const SPARE_RATIO: f64 = 0.03;
/// The maximum average share of the path's rate that probes may use.
const MAX_AVERAGE_LOAD: f64 = 0.12;

#[derive(Debug, Clone, PartialEq)]
struct TrainBudget {
    pub bytes: u64,
    most_time_us: u64,
    /// Time since the first probe.
    spent_us: u64,
    between_us: u64,
    first_sent_ns: Option<u64>,
}

impl TrainBudget {
    pub fn new(plan: &AvailablePlan, facts: PriorPathFacts) -> TrainBudget {
        TrainBudget {
            bytes: plan.most_bytes,
            most_time_us: plan.most_time_us,
            spent_us: 0,
            between_us: 2 * facts.idle_rtt_us.unwrap_or(0) + ROUND_US,
            first_sent_ns: None,
        }
    }

    /// Keeps time for the long trains, until it is added again.
    fn reserve_time(&mut self, time_us: u64) {
        self.most_time_us = self.most_time_us.saturating_sub(time_us);
    }

    /// Adds time that is reserved for the long trains; earlier stages must not use it.
    pub fn add_time(&mut self, time_us: u64) {
        self.most_time_us = self.most_time_us.saturating_add(time_us);
    }

    /// Returns the time left for trains of this round.
    pub fn seconds(&self) -> f64 {
        let spare = (self.most_time_us as f64 * SPARE_RATIO) as u64;
        self.most_time_us.saturating_sub(self.spent_us + spare) as f64 / 1e6
    }

    /// Returns the bits left for trains without overloading a path of this rate.
    pub fn bits(&self, rate_bps: f64) -> f64 {
        let gentle = MAX_AVERAGE_LOAD * rate_bps * self.most_time_us as f64 / 1e6;
        (self.bytes as f64 * 8.0).min(gentle)
    }

    /// Returns the trains that fit into the budget, in their order, and deducts them.
    pub fn take_affordable(&mut self, asked: Vec<TrainPlan>) -> Vec<TrainPlan> {
        let most_us = (self.seconds() * 1e6) as u64;
        let mut planned_us = 0;
        let mut kept = Vec::with_capacity(asked.len());
        for train in asked {
            let bytes = u64::from(train.packets) * u64::from(train.packet_bytes);
            let us = train.pause_us + compute_sending_us(&train);
            if train.packets > 0 && bytes <= self.bytes && planned_us + us <= most_us {
                self.bytes -= bytes;
                planned_us += us;
                kept.push(train);
            }
        }
        self.spent_us += planned_us;
        kept
    }

    /// Updates the time used from the results of the round.
    pub fn record_elapsed(&mut self, trains: &[ProbeTrain]) {
        let first = trains.iter().map(|t| t.sent_at_ns).min();
        let last = trains
            .iter()
            .map(|t| t.sent_at_ns.saturating_add(t.sent_ns.last().copied().unwrap_or(0)))
            .max();
        let (Some(first), Some(last)) = (first, last) else {
            return;
        };
        let zero = *self.first_sent_ns.get_or_insert(first);
        let observed_us = last.saturating_sub(zero) / 1000;
        let has_lost = |train: &ProbeTrain| train.received_ns.contains(&None);
        let waiting_us = if trains.iter().any(has_lost) { LOSS_WAIT_US } else { 0 };
        self.spent_us = self.spent_us.max(observed_us) + self.between_us + waiting_us;
    }
}

/// Returns the sending time of a train; bursts are assumed to leave at 1 Gbit/s.
fn compute_sending_us(train: &TrainPlan) -> u64 {
    let bits = f64::from(train.packets) * f64::from(train.packet_bytes) * 8.0;
    match train.schedule {
        TrainSchedule::BackToBack => (bits / train_planning::UNKNOWN_BPS * 1e4) as u64,
        TrainSchedule::RateBps(bps) => (bits / bps.max(1) as f64 * 1e6) as u64,
        // The sum of many gaps deviates from its mean.
        TrainSchedule::Poisson { mean_gap_ns, .. } => {
            let count = f64::from(train.packets);
            ((count + 2.0 * count.sqrt()) * mean_gap_ns as f64 / 1e3) as u64
        }
    }
}
