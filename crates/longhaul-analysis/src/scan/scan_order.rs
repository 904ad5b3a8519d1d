//! Determines the order in which the cells of a grid are measured.
//!
//! Shuffled by the plan's seed, so that drift of the path does not look like an effect of a
//! setting; second repeats follow after all first ones; one setting returns regularly as a
//! sentinel. The same plan always gives the same order, because a scan is resumed by the index.
//!
//! Source: Fisher and Yates' shuffle over SplitMix64. Units: slots. Error: none.
//! Wrong when: the path changes within ten cells; then sentinels are too rare.

use super::ScanSlot;
use longhaul_model::report::v1::plan::RunDirection;
use longhaul_model::report::v1::scan::{ScanPlan, TransferSetting};
use longhaul_model::splitmix::SplitMix64;

/// The maximum number of slots; a month of ten-second probes would be 259 200.
pub const MAX_SLOTS: usize = 50_000;
/// Cells between two sentinels; fewer in a small grid, which needs some sentinels as well.
const SENTINEL_EVERY: usize = 10;
const MIN_SPACING: usize = 4;
const SENTINELS: usize = 6;
/// A smaller grid ends before a path changes; sentinels would double its cost.
const MIN_CELLS_FOR_SENTINELS: usize = 6;

/// Returns all probes of a grid, in order; at most [`MAX_SLOTS`].
pub fn order_cells(plan: &ScanPlan) -> Vec<ScanSlot> {
    let grid = list_settings(plan);
    let repeats = (plan.repeats.max(1) as usize).min(MAX_SLOTS / grid.len().max(1) + 1);
    let mut rng = SplitMix64::new(plan.seed);
    let mut slots = SlotList::new(plan.direction);
    let all = grid.len() * repeats;
    let watched = all >= MIN_CELLS_FOR_SENTINELS;
    let spacing = (all / SENTINELS).clamp(MIN_SPACING, SENTINEL_EVERY);
    let sentinel = choose_sentinel(plan);
    let mut cells = 0usize;
    for _ in 0..repeats {
        let mut round = grid.clone();
        rng.shuffle(&mut round);
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
    slots.list.truncate(MAX_SLOTS);
    slots.list
}

/// Returns every setting of the grid once, windows outermost.
pub(super) fn list_settings(plan: &ScanPlan) -> Vec<TransferSetting> {
    let windows = distinct_or_default(&plan.windows_bytes, None);
    let streams = distinct_or_default(&plan.streams, 1);
    let controls = distinct_or_default(&plan.congestion_controls, None);
    let mut settings: Vec<TransferSetting> = Vec::new();
    for &window_bytes in &windows {
        for &count in &streams {
            for congestion_control in &controls {
                if settings.len() < MAX_SLOTS {
                    settings.push(TransferSetting {
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
fn choose_sentinel(plan: &ScanPlan) -> TransferSetting {
    let mut windows = distinct_or_default(&plan.windows_bytes, None);
    windows.sort_unstable();
    let mut streams = distinct_or_default(&plan.streams, 1);
    streams.sort_unstable();
    let controls = distinct_or_default(&plan.congestion_controls, None);
    TransferSetting {
        window_bytes: windows[windows.len() / 2],
        streams: streams[streams.len() / 2].max(1),
        congestion_control: controls[0].clone(),
        pacing_bps: plan.probe.pacing_bps,
    }
}

fn distinct_or_default<T: Clone + PartialEq>(asked: &[T], otherwise: T) -> Vec<T> {
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

struct SlotList {
    direction: RunDirection,
    list: Vec<ScanSlot>,
}

impl SlotList {
    fn new(direction: RunDirection) -> SlotList {
        SlotList { direction, list: Vec::new() }
    }

    /// Adds one cell; for both directions, a random one comes first, so neither has an advantage.
    fn push(&mut self, setting: &TransferSetting, sentinel: bool, rng: &mut SplitMix64) {
        let directions: &[bool] = match self.direction {
            RunDirection::Forward => &[true],
            RunDirection::Reverse => &[false],
            RunDirection::Both if rng.below(2) == 0 => &[true, false],
            RunDirection::Both => &[false, true],
        };
        for &forward in directions {
            self.list.push(ScanSlot {
                index: u32::try_from(self.list.len()).unwrap_or(u32::MAX),
                setting: setting.clone(),
                forward,
                sentinel,
            });
        }
    }
}
