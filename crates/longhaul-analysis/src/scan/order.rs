//! Determines the order in which the cells of a grid are measured.
//!
//! Shuffled by the plan's seed, so that drift of the path does not look like an effect of a
//! setting; second repeats follow after all first ones; one setting returns regularly as a
//! sentinel. The same plan always gives the same order, because a scan is resumed by the index.
//!
//! Source: Fisher and Yates' shuffle over SplitMix64. Units: slots. Error: none.
//! Wrong when: the path changes within ten cells; then sentinels are too rare.

use super::Slot;
use crate::accuracy::rng::Rng;
use longhaul_model::report::v1::plan::Direction;
use longhaul_model::report::v1::scan::{Plan, Setting};

/// The maximum number of slots; a month of ten-second probes would be 259 200.
pub const MOST_SLOTS: usize = 50_000;
/// Cells between two sentinels; fewer in a small grid, which needs some sentinels as well.
const SENTINEL_EVERY: usize = 10;
const LEAST_SPACING: usize = 4;
const SENTINELS: usize = 6;
/// A smaller grid ends before a path changes; sentinels would double its cost.
const LEAST_CELLS_FOR_SENTINELS: usize = 6;

/// Returns all probes of a grid, in order; at most [`MOST_SLOTS`].
pub fn order(plan: &Plan) -> Vec<Slot> {
    let grid = settings(plan);
    let repeats = (plan.repeats.max(1) as usize).min(MOST_SLOTS / grid.len().max(1) + 1);
    let mut rng = Rng::new(plan.seed);
    let mut slots = Slots::new(plan.direction);
    let all = grid.len() * repeats;
    let watched = all >= LEAST_CELLS_FOR_SENTINELS;
    let spacing = (all / SENTINELS).clamp(LEAST_SPACING, SENTINEL_EVERY);
    let sentinel = sentinel(plan);
    let mut cells = 0usize;
    for _ in 0..repeats {
        let mut round = grid.clone();
        shuffle(&mut round, &mut rng);
        for setting in round {
            if watched && cells.is_multiple_of(spacing) {
                slots.push(&sentinel, true, &mut rng);
            }
            slots.push(&setting, false, &mut rng);
            cells += 1;
        }
    }
    if watched {
        slots.push(&sentinel, true, &mut rng);
    }
    slots.list.truncate(MOST_SLOTS);
    slots.list
}

/// Returns every setting of the grid once, windows outermost.
pub(super) fn settings(plan: &Plan) -> Vec<Setting> {
    let windows = or_one(&plan.windows_bytes, None);
    let streams = or_one(&plan.streams, 1);
    let controls = or_one(&plan.congestion_controls, None);
    let mut settings: Vec<Setting> = Vec::new();
    for &window_bytes in &windows {
        for &count in &streams {
            for congestion_control in &controls {
                if settings.len() < MOST_SLOTS {
                    settings.push(Setting {
                        window_bytes,
                        streams: count.max(1),
                        congestion_control: congestion_control.clone(),
                        pacing_bps: plan.probe.pacing_bps,
                    });
                }
            }
        }
    }
    settings
}

/// Returns the middle of the grid: neither a small window nor many streams.
fn sentinel(plan: &Plan) -> Setting {
    let mut windows = or_one(&plan.windows_bytes, None);
    windows.sort_unstable();
    let mut streams = or_one(&plan.streams, 1);
    streams.sort_unstable();
    let controls = or_one(&plan.congestion_controls, None);
    Setting {
        window_bytes: windows[windows.len() / 2],
        streams: streams[streams.len() / 2].max(1),
        congestion_control: controls[0].clone(),
        pacing_bps: plan.probe.pacing_bps,
    }
}

fn or_one<T: Clone + PartialEq>(asked: &[T], otherwise: T) -> Vec<T> {
    let mut distinct: Vec<T> = Vec::new();
    for value in asked {
        if !distinct.contains(value) {
            distinct.push(value.clone());
        }
    }
    if distinct.is_empty() {
        distinct.push(otherwise);
    }
    distinct
}

fn shuffle<T>(list: &mut [T], rng: &mut Rng) {
    for last in (1..list.len()).rev() {
        list.swap(last, rng.below(last + 1));
    }
}

struct Slots {
    direction: Direction,
    list: Vec<Slot>,
}

impl Slots {
    fn new(direction: Direction) -> Slots {
        Slots {
            direction,
            list: Vec::new(),
        }
    }

    /// Adds one cell; for both directions, a random one comes first, so neither has an advantage.
    fn push(&mut self, setting: &Setting, sentinel: bool, rng: &mut Rng) {
        let directions: &[bool] = match self.direction {
            Direction::Forward => &[true],
            Direction::Reverse => &[false],
            Direction::Both if rng.below(2) == 0 => &[true, false],
            Direction::Both => &[false, true],
        };
        for &forward in directions {
            self.list.push(Slot {
                index: u32::try_from(self.list.len()).unwrap_or(u32::MAX),
                setting: setting.clone(),
                forward,
                sentinel,
            });
        }
    }
}
