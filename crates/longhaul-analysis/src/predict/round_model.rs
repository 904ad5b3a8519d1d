//! Simulates streams of one kind over one drop-tail queue, one step per round trip.
//!
//! In each round trip the windows are outstanding; the excess over the path is queued, the excess
//! over the queue is dropped. Drops hit streams at random, in proportion to their outstanding
//! segments: some lose, others do not. Random losses hit each stream after a drawn number of
//! segments. Sixteen streams represent any larger number, short round trips are combined into one
//! step, and few streams are simulated several times; random numbers come from a fixed seed.
//!
//! The steady part is found as in a measurement (`throughput::ramp_detection`).
//!
//! Source: the round view of Mathis 1997 and Padhye 1998, with a queue; Altman 2006 for drops that
//! hit some of the streams. Units: segments and seconds inside, bit/s and bytes outside.
//! Error: see docs/methods/prediction.md. Wrong when: streams of other kinds share the queue.

use super::stream_model::{StreamModel, StreamRound};
use super::{AckTrain, link_bps, window_bytes};
use crate::throughput;
use crate::throughput::arrival_timeline::RunArrivals;
use crate::throughput::measure_goodput;
use longhaul_model::report::v1::predict::PredictionPlan;
use longhaul_model::report::v1::scan::TransferSetting;

/// The maximum numbers of steps per simulation, streams, simulations, and streams × steps over all.
const MAX_STEPS: f64 = 12_000.0;
const MAX_FLOWS: u32 = 16;
const MAX_SIMULATIONS: usize = 6;
const MAX_WORK: f64 = 200_000.0;
/// Spacing of the rates from which the steady part is found; longer on long paths.
const BIN_S: f64 = 0.1;
const SEED: u64 = 0x6c6f_6e67_6861_756c;

/// The path in the units of the model.
#[derive(Debug, Clone, Copy)]
pub struct ModelPath {
    per_s: f64,
    /// The maximum rate: the link's, or the CPU's.
    service_per_s: f64,
    rtt_s: f64,
    queue: f64,
    loss_ratio: f64,
    time_s: f64,
    mss_bytes: f64,
    segment_bytes: f64,
}

/// The result of one setting on the path.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct SimulationResult {
    pub goodput_bps: f64,
    pub queue_bytes: f64,
    pub made_loss_ratio: f64,
    /// Streams hit by drops of the queue, minus those hit by random losses.
    pub excess_losses: f64,
    /// The rate was still growing at the end.
    pub climbing: bool,
}

impl ModelPath {
    pub fn of(plan: &PredictionPlan, loss_ratio: f64, buffer_bytes: u64) -> ModelPath {
        let mss_bytes = f64::from(plan.path.mss_bytes);
        let segment_bytes = mss_bytes + f64::from(plan.path.header_bytes);
        let per_s = link_bps(&plan.path) / (8.0 * mss_bytes);
        let processor = plan.hosts.processor_bps.map(|bps| bps as f64 / (8.0 * mss_bytes));
        ModelPath {
            per_s,
            service_per_s: per_s.min(processor.unwrap_or(f64::INFINITY)),
            rtt_s: plan.path.rtt_us as f64 / 1e6,
            queue: buffer_bytes as f64 / segment_bytes,
            loss_ratio,
            time_s: plan.time_us as f64 / 1e6,
            mss_bytes,
            segment_bytes,
        }
    }
}

/// Returns the mean over several simulations.
pub fn simulate_setting(
    path: &ModelPath,
    plan: &PredictionPlan,
    setting: &TransferSetting,
) -> SimulationResult {
    let flows = setting.streams.clamp(1, MAX_FLOWS);
    let steps = (path.time_s / path.rtt_s).clamp(1.0, MAX_STEPS);
    let plays = (MAX_WORK / (steps * f64::from(flows))) as usize;
    let plays = plays.clamp(1, MAX_SIMULATIONS);
    let all: Vec<SimulationResult> =
        (0..plays).map(|number| RoundSimulation::new(path, plan, setting, number).run()).collect();
    let mean = |of: fn(&SimulationResult) -> f64| all.iter().map(of).sum::<f64>() / plays as f64;
    SimulationResult {
        goodput_bps: mean(|c| c.goodput_bps),
        queue_bytes: mean(|c| c.queue_bytes),
        made_loss_ratio: mean(|c| c.made_loss_ratio),
        excess_losses: mean(|c| c.excess_losses),
        climbing: 2 * all.iter().filter(|c| c.climbing).count() > plays,
    }
}

/// The sums of one interval: segments, and seconds × segments of the queue.
#[derive(Debug, Clone, Copy, Default)]
struct SimulationBin {
    taken: f64,
    dropped: f64,
    queued: f64,
    excess_losses: f64,
}

struct RoundSimulation<'a> {
    path: &'a ModelPath,
    flows: Vec<StreamModel>,
    paced: bool,
    bins: Vec<SimulationBin>,
    bin_s: f64,
    now_s: f64,
}

/// The queue and the RTT that result from the streams' windows.
struct RoundLoad {
    outstanding: f64,
    queue: f64,
    excess: f64,
    round_s: f64,
    per_s: f64,
}

impl<'a> RoundSimulation<'a> {
    fn new(
        path: &'a ModelPath,
        plan: &PredictionPlan,
        setting: &TransferSetting,
        number: usize,
    ) -> Self {
        let streams = setting.streams.max(1);
        let count = streams.min(MAX_FLOWS);
        let kind = setting.congestion_control.as_deref().unwrap_or("cubic");
        let most = window_bytes(plan, setting)
            .map_or(f64::INFINITY, |bytes| (bytes as f64 / path.mss_bytes).max(1.0));
        // A larger window would not change the load.
        let most = most.min(4.0 * (path.per_s * path.rtt_s + path.queue) + 100.0);
        let weight = f64::from(streams) / f64::from(count);
        let seed = SEED.wrapping_mul(number as u64 + 1);
        let mut flows: Vec<StreamModel> =
            (0..count as usize).map(|i| StreamModel::new(kind, i, weight, most, seed)).collect();
        for flow in &mut flows {
            flow.expect_loss(path.loss_ratio);
        }
        let bin_s = BIN_S.max(path.rtt_s).min(path.time_s);
        let bins = (path.time_s / bin_s).floor().max(1.0);
        // A duration of days does not need intervals of a tenth of a second.
        let (bins, bin_s) =
            if bins > MAX_STEPS { (MAX_STEPS, path.time_s / MAX_STEPS) } else { (bins, bin_s) };
        RoundSimulation {
            path,
            flows,
            paced: kind == "bbr",
            bins: vec![SimulationBin::default(); bins as usize],
            bin_s,
            now_s: 0.0,
        }
    }

    fn run(mut self) -> SimulationResult {
        let least_s = self.path.time_s / MAX_STEPS;
        while self.now_s < self.path.time_s {
            let load = self.load();
            let step_s = load.round_s.max(least_s);
            self.step(&load, step_s);
            self.now_s += step_s;
        }
        self.result()
    }

    fn load(&self) -> RoundLoad {
        let path = self.path;
        let sum = |of: &dyn Fn(&StreamModel) -> f64| {
            self.flows.iter().map(|f| f.weight * of(f)).sum::<f64>()
        };
        let mut outstanding = sum(&|f| f.outstanding(self.now_s));
        if path.service_per_s < path.per_s {
            // A slow host limits the streams before the path does.
            outstanding = outstanding.min(path.service_per_s * path.rtt_s);
        }
        let over = (outstanding - path.per_s * path.rtt_s).max(0.0);
        let queue = over.min(path.queue);
        RoundLoad {
            outstanding,
            queue,
            excess: over - queue,
            round_s: path.rtt_s + queue / path.per_s,
            per_s: (outstanding / path.rtt_s).min(path.service_per_s),
        }
    }

    fn step(&mut self, load: &RoundLoad, step_s: f64) {
        let rounds = step_s / load.round_s;
        let drops = self.drops(load);
        let all: f64 = self.flows.iter().map(|f| f.weight * f.outstanding(self.now_s)).sum();
        let train = AckTrain {
            rtt_s: self.path.rtt_s,
            queue_s: load.queue / self.path.per_s,
            length_s: load.outstanding / self.path.per_s,
            segment_s: 1.0 / self.path.per_s,
            streams: self.flows.iter().map(|f| f.weight).sum(),
        };
        let (now_s, loss_ratio) = (self.now_s, self.path.loss_ratio);
        let mut excess_losses = 0.0;
        for flow in &mut self.flows {
            let share = flow.outstanding(now_s) / all.max(1.0);
            let per_s = load.per_s * share;
            let hit = drops > 0.0 && flow.is_hit_by_drops(drops * share);
            let struck = flow.is_lost_at_random(per_s * step_s, loss_ratio);
            excess_losses += f64::from(u8::from(hit)) - f64::from(u8::from(struck));
            flow.end_round(
                hit || struck,
                StreamRound {
                    now_s: now_s + step_s,
                    round_s: load.round_s,
                    rounds,
                    delivered_per_s: per_s,
                    train,
                },
            );
        }
        let taken = load.per_s * step_s * (1.0 - loss_ratio);
        self.count(
            step_s,
            SimulationBin { taken, dropped: drops, queued: load.queue * step_s, excess_losses },
        );
    }

    /// Returns the segments that the queue drops before the streams notice: the excess of this
    /// round, plus their growth in the next one.
    fn drops(&self, load: &RoundLoad) -> f64 {
        if self.path.service_per_s < self.path.per_s {
            return 0.0;
        }
        let growth: f64 = self.flows.iter().map(|f| f.weight * f.growth).sum();
        if load.excess > 0.0 {
            return if self.paced { load.excess } else { load.excess.min(growth) + growth };
        }
        let bursts = self.flows.iter().map(|f| (f.weight, f.burst(self.now_s)));
        let (all, most) = bursts.fold((0.0, 0.0), |(all, most): (f64, f64), (weight, burst)| {
            (all + weight * burst, most.max(burst))
        });
        let overlap = (load.outstanding / (self.path.per_s * self.path.rtt_s)).min(1.0);
        let peak = load.queue + most.max(all * overlap);
        (peak - self.path.queue).max(0.0)
    }

    /// Spreads a step over the intervals that it covers.
    fn count(&mut self, step_s: f64, sum: SimulationBin) {
        let (from, to) = (self.now_s, self.now_s + step_s);
        let last = self.bins.len() - 1;
        let first = ((from / self.bin_s) as usize).min(last);
        for index in first..=((to / self.bin_s) as usize).min(last) {
            let (low, high) = (index as f64 * self.bin_s, (index + 1) as f64 * self.bin_s);
            let part = (to.min(high) - from.max(low)).max(0.0) / step_s;
            let bin = &mut self.bins[index];
            bin.taken += part * sum.taken;
            bin.dropped += part * sum.dropped;
            bin.queued += part * sum.queued;
            bin.excess_losses += part * sum.excess_losses;
        }
    }

    fn result(&self) -> SimulationResult {
        let bits = 8.0 * self.path.mss_bytes;
        let rates: Vec<f64> = self.bins.iter().map(|b| b.taken * bits / self.bin_s).collect();
        let bin_us = ((self.bin_s * 1e6) as u64).max(1);
        let arrivals = RunArrivals::from_rates(&rates, bin_us);
        let steady = throughput::find_steady_span(&arrivals, None);
        let from = steady.map_or(3 * self.bins.len() / 4, |span| (span.from_us / bin_us) as usize);
        let part = &self.bins[from.min(self.bins.len() - 1)..];
        let sum = |of: fn(&SimulationBin) -> f64| part.iter().map(of).sum::<f64>();
        let (taken, dropped) = (sum(|b| b.taken), sum(|b| b.dropped));
        SimulationResult {
            goodput_bps: measure_goodput(&arrivals, steady).bps.unwrap_or(0) as f64,
            queue_bytes: sum(|b| b.queued) / (part.len() as f64 * self.bin_s)
                * self.path.segment_bytes,
            made_loss_ratio: dropped / (taken + dropped).max(1.0),
            excess_losses: sum(|b| b.excess_losses),
            climbing: steady.is_none() && throughput::is_still_climbing(&arrivals),
        }
    }
}
