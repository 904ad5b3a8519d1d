//! Order of the cells of a scan over settings, and conclusions from them.
//!
//! Read in this order: [`scan_order`] (the sequence of cells), [`scan_cells`] (the plan and the cell of
//! a probe, valid cells), [`scan_conclusion`] (the entry: all conclusions from the cells of guided
//! searches and grids, the best and the recommended setting), [`path_regimes`] (changes of the path),
//! [`goodput_asymmetry`], [`kernel_needs`], [`scan_findings`] (findings).

mod goodput_asymmetry;
mod kernel_needs;
mod path_regimes;
mod scan_cells;
mod scan_conclusion;
mod scan_findings;
mod scan_order;

#[cfg(test)]
mod tests;

pub use goodput_asymmetry::build_histogram;
pub use scan_cells::{build_cell, build_probe_plan, find_min_granted};
pub use scan_conclusion::{compute_top_tenth, conclude_scan};
pub use scan_order::{MAX_SLOTS, order_cells};

use longhaul_model::report::v1::scan::TransferSetting;

/// One probe of a grid, with its position in the order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScanSlot {
    /// Starts at 0; equals the index of the resulting cell.
    pub index: u32,
    pub setting: TransferSetting,
    /// True if the initiator is the sender.
    pub forward: bool,
    /// One fixed setting, measured at intervals to detect changes of the path.
    pub sentinel: bool,
}
