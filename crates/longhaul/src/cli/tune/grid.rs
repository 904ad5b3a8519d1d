//! Scans the whole grid in shuffled order, without the cells that are done.

use super::asked;
use super::course::{Course, Halt, Wanted};
use longhaul_analysis::scan::{Slot, order};
use std::collections::BTreeSet;
use std::time::Duration;

/// Measures every slot without a result.
pub fn scan(course: &mut Course<'_>) -> Result<&'static str, Halt> {
    let slots = order(&course.plan);
    let done = place(course, &slots);
    let time = Duration::from_micros(asked::time_us(&course.plan));
    for slot in slots.into_iter().filter(|slot| !done.contains(&slot.index)) {
        if course.interrupted() {
            return Err(Halt::Interrupted);
        }
        course.measure(&Wanted {
            index: slot.index,
            setting: slot.setting,
            forward: slot.forward,
            sentinel: slot.sentinel,
            why: None,
            time,
        })?;
    }
    Ok("grid_done")
}

/// Restores cells finished before the scan was resumed, and returns their indexes.
fn place(course: &mut Course<'_>, slots: &[Slot]) -> BTreeSet<u32> {
    let mut done = BTreeSet::new();
    for cell in &mut course.observation.cells {
        if let Some(slot) = slots.get(cell.index as usize) {
            cell.sentinel = slot.sentinel;
            done.insert(cell.index);
        }
    }
    done
}
