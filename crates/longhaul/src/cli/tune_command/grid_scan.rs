//! Scans the whole grid in shuffled order, without the cells that are done.

use super::active_scan::{ActiveScan, ProbeRequest, ScanHalt};
use super::scan_plan;
use longhaul_analysis::scan::{ScanSlot, order_cells};
use std::collections::BTreeSet;
use std::time::Duration;

/// Measures every slot without a result.
pub fn scan_grid(course: &mut ActiveScan<'_>) -> Result<&'static str, ScanHalt> {
    let slots = order_cells(&course.plan);
    let done = restore_finished_cells(course, &slots);
    let time = Duration::from_micros(scan_plan::probe_time_us(&course.plan));
    for slot in slots.into_iter().filter(|slot| !done.contains(&slot.index)) {
        if course.is_interrupted() {
            return Err(ScanHalt::Interrupted);
        }
        course.measure_cell(&ProbeRequest {
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
fn restore_finished_cells(course: &mut ActiveScan<'_>, slots: &[ScanSlot]) -> BTreeSet<u32> {
    let mut done = BTreeSet::new();
    for cell in &mut course.observation.cells {
        if let Some(slot) = slots.get(cell.index as usize) {
            cell.sentinel = slot.sentinel;
            done.insert(cell.index);
        }
    }
    done
}
