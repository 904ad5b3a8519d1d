//! Copies whose stages have known rates, simulated in steps of 100 ms.

use super::*;
use longhaul_model::splitmix::SplitMix64;

const STEP_US: u64 = 100_000;
const MBPS: f64 = 1e6;
const START: CopyConcurrency = CopyConcurrency { streams: 4, readers: 4, writers: 4 };
const LIMITS: CopyConcurrency = CopyConcurrency { streams: 32, readers: 16, writers: 16 };

/// The rates in bit/s that each stage can reach with so many workers.
struct StageRates {
    read: fn(u32) -> f64,
    network: fn(u32) -> f64,
    write: fn(u32) -> f64,
}

/// Stages of which none limits the others.
const FAST: StageRates = StageRates {
    read: |_| 100_000.0 * MBPS,
    network: |_| 100_000.0 * MBPS,
    write: |_| 100_000.0 * MBPS,
};

struct SimulatedCopy {
    rates: StageRates,
    sample: CopySample,
    adapter: CopyAdapter,
    random: SplitMix64,
    /// Of the rate, correlated from step to step, as a share.
    noise: f64,
    deviation: f64,
    /// The server refuses all changes.
    refuses: bool,
}

impl SimulatedCopy {
    fn new(rates: StageRates) -> SimulatedCopy {
        let concurrency = START;
        SimulatedCopy {
            rates,
            sample: CopySample { concurrency, idle_rtt_us: 50_000, ..CopySample::default() },
            adapter: CopyAdapter::new(LIMITS),
            random: SplitMix64::new(7),
            noise: 0.05,
            deviation: 0.0,
            refuses: false,
        }
    }

    /// Runs for so many seconds; returns the numbers at their end.
    fn run(&mut self, seconds: u64) -> CopyConcurrency {
        for _ in 0..seconds * 1_000_000 / STEP_US {
            self.step();
            let wanted = self.adapter.add_sample(&self.sample);
            if let Some(wanted) = wanted.filter(|_| !self.refuses) {
                self.sample.concurrency = wanted;
            }
        }
        self.sample.concurrency
    }

    /// Moves data for one step, and counts what each stage did. The slowest stage is always busy;
    /// those before it wait for space, those after it for work.
    fn step(&mut self) {
        let CopyConcurrency { streams, readers, writers } = self.sample.concurrency;
        let (read, write) = ((self.rates.read)(readers), (self.rates.write)(writers));
        let network = (self.rates.network)(streams);
        self.deviation = 0.6 * self.deviation + 0.8 * self.noise * self.random.normal();
        let rate = read.min(network).min(write) * (1.0 + self.deviation).max(0.0);
        let us = |workers: u32, share: f64| (f64::from(workers) * STEP_US as f64 * share) as u64;
        let sample = &mut self.sample;
        sample.elapsed_us += STEP_US;
        sample.network_bytes += (rate * STEP_US as f64 / 8e6) as u64;
        let share = |capacity: f64| (rate / capacity).min(1.0);
        let (reading, writing) = (share(read), share(write));
        // The buffers of sockets that a slow reader feeds are empty: they accept blocks at once.
        let moving = if network <= read { share(network) } else { 0.02 };
        let waits_for_target = write < read.min(network);
        sample.source.disk.busy_us += us(readers, reading);
        sample.source.disk.blocked_us += us(readers, 1.0 - reading);
        let sending = if waits_for_target { 1.0 } else { moving };
        sample.source.network.busy_us += us(streams, sending);
        sample.source.network.idle_us += us(streams, 1.0 - sending);
        let blocked = if waits_for_target { 1.0 - share(network) } else { 0.0 };
        sample.target.network.busy_us += us(streams, 1.0 - blocked);
        sample.target.network.blocked_us += us(streams, blocked);
        sample.target.disk.busy_us += us(writers, writing);
        sample.target.disk.idle_us += us(writers, 1.0 - writing);
    }

    fn trials(&self) -> usize {
        self.adapter.adjustments.len()
    }
}

#[test]
fn streams_are_added_while_each_adds_rate() {
    let rates = StageRates { network: |streams| f64::from(streams) * 10.0 * MBPS, ..FAST };
    let mut copy = SimulatedCopy::new(rates);
    let reached = copy.run(60);
    assert_eq!(reached.streams, 32, "{:?}", copy.adapter);
    let kept: Vec<_> = copy
        .adapter
        .adjustments
        .iter()
        .map(|it| (it.workers_before, it.workers_after, it.kept))
        .collect();
    assert_eq!(kept, [(4, 8, Some(true)), (8, 16, Some(true)), (16, 32, Some(true))]);
    let last = copy.adapter.adjustments[2];
    assert_eq!((last.workers, last.limited_by), (CopyWorkers::Streams, CopyLimiter::Network));
    let gain = last.after_bps.expect("judged") as f64 / last.before_bps as f64;
    assert!((1.8..2.2).contains(&gain), "{last:?}");
}

#[test]
fn streams_end_where_the_path_is_full() {
    let network = |streams| (f64::from(streams) * 10.0 * MBPS).min(75.0 * MBPS);
    let mut copy = SimulatedCopy::new(StageRates { network, ..FAST });
    assert_eq!(copy.run(600), CopyConcurrency { streams: 8, ..START });
    assert_eq!(copy.trials(), 2, "{:?}", copy.adapter.adjustments);
}

#[test]
fn a_full_path_gets_no_streams_and_is_asked_once() {
    let mut copy = SimulatedCopy::new(StageRates { network: |_| 75.0 * MBPS, ..FAST });
    assert_eq!(copy.run(600), START);
    assert_eq!(copy.trials(), 1, "{:?}", copy.adapter.adjustments);
    assert_eq!(copy.adapter.adjustments[0].kept, Some(false));
}

#[test]
fn slow_disks_get_threads_and_no_streams() {
    let disk = |threads| f64::from(threads) * 100.0 * MBPS;
    let mut source = SimulatedCopy::new(StageRates { read: disk, ..FAST });
    assert_eq!(source.run(60), CopyConcurrency { readers: 16, ..START });
    let mut target = SimulatedCopy::new(StageRates { write: disk, ..FAST });
    assert_eq!(target.run(60), CopyConcurrency { writers: 16, ..START });
    // A disk that its threads fill already.
    let mut full = SimulatedCopy::new(StageRates { write: |_| 400.0 * MBPS, ..FAST });
    assert_eq!(full.run(600), START);
    assert_eq!(full.trials(), 1, "{:?}", full.adapter.adjustments);
}

#[test]
fn the_stage_that_limits_next_is_adapted_next() {
    let network = |streams| f64::from(streams) * 20.0 * MBPS;
    let read = |readers| f64::from(readers) * 30.0 * MBPS;
    let mut copy = SimulatedCopy::new(StageRates { read, network, ..FAST });
    let reached = copy.run(120);
    assert_eq!((reached.readers, reached.writers), (16, 4), "{:?}", copy.adapter.adjustments);
    assert!(reached.streams >= 16, "{reached:?}");
}

#[test]
fn a_change_of_the_rate_allows_another_trial() {
    let mut copy = SimulatedCopy::new(StageRates { network: |_| 75.0 * MBPS, ..FAST });
    copy.run(100);
    copy.rates.network = |streams| f64::from(streams) * 5.0 * MBPS;
    assert_eq!(copy.run(100).streams, 32, "{:?}", copy.adapter.adjustments);
}

#[test]
fn a_rate_that_rises_by_itself_proves_nothing() {
    let mut copy = SimulatedCopy::new(StageRates { network: |_| 10.0 * MBPS, ..FAST });
    copy.noise = 0.01;
    for rate in [|_| 10.0 * MBPS, |_| 15.0 * MBPS, |_| 20.0 * MBPS, |_| 25.0 * MBPS] {
        copy.rates.network = rate;
        copy.run(1);
    }
    assert_eq!(copy.trials(), 0, "{:?}", copy.adapter.adjustments);
}

#[test]
fn what_the_user_or_the_server_fixes_stays() {
    let network = |streams| f64::from(streams) * 10.0 * MBPS;
    let mut fixed = SimulatedCopy::new(StageRates { network, ..FAST });
    fixed.adapter.limits.streams = 4;
    assert_eq!((fixed.run(60), fixed.trials()), (START, 0));
    let mut refused = SimulatedCopy::new(StageRates { network, ..FAST });
    refused.refuses = true;
    assert_eq!((refused.run(60), refused.trials()), (START, 0));
}

#[test]
fn a_copy_that_ends_soon_is_left_alone() {
    let network = |streams| f64::from(streams) * 10.0 * MBPS;
    let mut copy = SimulatedCopy::new(StageRates { network, ..FAST });
    copy.sample.left_bytes = Some(40_000_000);
    assert_eq!((copy.run(10), copy.trials()), (START, 0));
}

#[test]
fn noise_seldom_keeps_streams_that_add_nothing() {
    let (mut trials, mut kept) = (0, 0);
    for seed in 0..200 {
        let mut copy = SimulatedCopy::new(StageRates { network: |_| 75.0 * MBPS, ..FAST });
        (copy.random, copy.noise) = (SplitMix64::new(seed), 0.1);
        copy.run(60);
        let judged = copy.adapter.adjustments.iter().filter_map(|it| it.kept);
        trials += judged.clone().count();
        kept += judged.filter(|kept| *kept).count();
    }
    assert!(trials >= 200 && kept * 20 < trials, "{kept} of {trials}");
}
