//! Copies whose slowest stage is known: a pipeline of five stages with short queues, simulated
//! block by block.
//!
//! Wrong when: real stages share cores and disks; here each has its own.

use super::{AccuracyRow, ErrorTally};
use longhaul_analysis::copy_analysis::split_copy_time;
use longhaul_model::report::v1::copy::{CopyEndCounts, CopyObservation, CopyStage, CopyTimeSplit};
use longhaul_model::splitmix::SplitMix64;

/// Queue capacity between two stages, in blocks.
const ROOM: usize = 4;
const CASES: usize = 200;

/// The time of one block in each stage, in microseconds.
#[derive(Debug, Clone, Copy)]
pub struct CopyPipeline {
    pub read: f64,
    pub source_hash: f64,
    pub network: f64,
    pub target_hash: f64,
    pub write: f64,
}

/// Start and end times of each step of a block.
#[derive(Debug, Clone, Copy, Default)]
struct BlockTimes {
    read_until: f64,
    handed_on: f64,
    sent_from: f64,
    sent_until: f64,
    taken: f64,
    write_from: f64,
    written: f64,
}

impl CopyPipeline {
    pub const EVEN: CopyPipeline = CopyPipeline {
        read: 1000.0,
        source_hash: 300.0,
        network: 1000.0,
        target_hash: 300.0,
        write: 1000.0,
    };

    /// Runs one thread for each stage: read and hash, send, receive and hash, write.
    pub fn run(&self, blocks: usize) -> CopyObservation {
        let mut all: Vec<BlockTimes> = Vec::with_capacity(blocks);
        for index in 0..blocks {
            let before = all.last().copied().unwrap_or_default();
            let room = |of: fn(&BlockTimes) -> f64| {
                let place = index.checked_sub(ROOM);
                place.map_or(0.0, |place| of(&all[place]))
            };
            let read_until = before.handed_on + self.read + self.source_hash;
            let handed_on = read_until.max(room(|times| times.sent_from));
            // The kernel's buffers hold little: a block is in transit until the target takes it.
            let sent_from = handed_on.max(before.sent_until);
            let sent_until = (sent_from + self.network).max(before.taken);
            let summed = sent_until.max(before.taken) + self.target_hash;
            let taken = summed.max(room(|times| times.write_from));
            let write_from = taken.max(before.written);
            all.push(BlockTimes {
                read_until,
                handed_on,
                sent_from,
                sent_until,
                taken,
                write_from,
                written: write_from + self.write,
            });
        }
        self.observation(&all)
    }

    fn observation(&self, all: &[BlockTimes]) -> CopyObservation {
        let count = all.len() as f64;
        let end = all.last().map_or(0.0, |times| times.written);
        let sum = |of: &dyn Fn(&BlockTimes) -> f64| all.iter().map(of).sum::<f64>();
        let active = all.last().map_or(0.0, |times| times.taken);
        let sending = sum(&|times| times.sent_until - times.sent_from);
        let hash = count * self.target_hash;
        let full = sum(&|times| {
            let begun = times.sent_until + self.target_hash;
            (times.taken - begun).max(0.0)
        });
        let stage = |busy: f64, cpu: f64, idle: f64, blocked: f64| CopyStage {
            threads: 1,
            busy_us: busy as u64,
            cpu_us: cpu as u64,
            idle_us: idle as u64,
            blocked_us: blocked as u64,
            core_wait_us: None,
        };
        let last_sent = all.last().map_or(0.0, |times| times.sent_until);
        let waited = sum(&|times| times.handed_on - times.read_until);
        CopyObservation {
            data_us: end as u64,
            source: CopyEndCounts {
                elapsed_us: end as u64,
                disk: stage(count * self.read, 0.0, 0.0, waited),
                network: stage(sending, 0.0, last_sent - sending, 0.0),
                hash_us: (count * self.source_hash) as u64,
                ..CopyEndCounts::default()
            },
            target: CopyEndCounts {
                elapsed_us: end as u64,
                network: stage((active - hash - full).max(0.0), 0.0, 0.0, full),
                disk: stage(count * self.write, 0.0, 0.0, 0.0),
                hash_us: hash as u64,
                ..CopyEndCounts::default()
            },
            ..CopyObservation::default()
        }
    }

    /// Draws a pipeline with one very slow stage; nearly all waiting is due to it.
    fn draw(rng: &mut SplitMix64) -> (CopyPipeline, fn(&CopyTimeSplit) -> f64) {
        let mut drawn = CopyPipeline {
            read: rng.between(50.0, 300.0),
            source_hash: rng.between(20.0, 100.0),
            network: rng.between(50.0, 300.0),
            target_hash: rng.between(20.0, 100.0),
            write: rng.between(50.0, 300.0),
        };
        let slow = rng.between(4000.0, 9000.0);
        let stage = &STAGES[rng.below(STAGES.len())];
        *(stage.time)(&mut drawn) = slow;
        (drawn, stage.share)
    }
}

/// A stage: its time for one block, and its share of the time of a copy.
struct PipelineStage {
    time: fn(&mut CopyPipeline) -> &mut f64,
    share: fn(&CopyTimeSplit) -> f64,
}

const STAGES: [PipelineStage; 5] = [
    PipelineStage { time: |it| &mut it.read, share: |split| split.source_disk_ratio },
    PipelineStage { time: |it| &mut it.source_hash, share: |split| split.source_cpu_ratio },
    PipelineStage { time: |it| &mut it.network, share: |split| split.network_ratio },
    PipelineStage { time: |it| &mut it.target_hash, share: |split| split.target_cpu_ratio },
    PipelineStage { time: |it| &mut it.write, share: |split| split.target_disk_ratio },
];

/// The distance of the slow stage's share from 100 %.
pub(super) fn evaluate_slow_stage(seed: u64) -> AccuracyRow {
    let errors = (0..CASES).map(|case| {
        let (pipeline, share) = CopyPipeline::draw(&mut SplitMix64::new(seed ^ (case as u64) << 8));
        split_copy_time(&pipeline.run(300)).map(|split| (1.0 - share(&split)).abs())
    });
    ErrorTally::of(errors).row("copy, share of its slow stage")
}
