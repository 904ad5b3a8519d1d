//! Order of the cells of a scan over settings, and conclusions from them.
//!
//! Read in this order: [`order()`] (the sequence of cells), [`probe`] (the plan and the cell of a
//! probe), [`conclude()`] (the entry: all conclusions from the cells of guided searches and grids),
//! [`cells`] (valid cells), [`regimes`] (changes of the path), [`choose`] (best and recommended),
//! [`top`], [`curves`], [`asymmetry`], [`needs`], [`findings`], [`limits`].

mod asymmetry;
mod cells;
mod choose;
mod conclude;
mod curves;
mod findings;
mod hosts;
mod limits;
mod needs;
mod noise;
mod order;
mod probe;
mod regimes;
mod top;
pub mod words;

#[cfg(test)]
mod tests;

pub use conclude::conclude;
pub use order::{MOST_SLOTS, order};
pub use probe::{cell, failed, probe_plan};
pub use top::of_rates as top_tenth_of;

use longhaul_model::report::v1::scan::{Analysis, Setting};
use longhaul_model::report::v1::{Caveat, Finding};

/// One probe of a grid, with its position in the order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Slot {
    /// Starts at 0; equals the index of the resulting cell.
    pub index: u32,
    pub setting: Setting,
    /// True if the initiator is the sender.
    pub forward: bool,
    /// One fixed setting, measured at intervals to detect changes of the path.
    pub sentinel: bool,
}

/// All conclusions from a scan.
#[derive(Debug, Clone, PartialEq)]
pub struct Conclusion {
    pub analysis: Analysis,
    pub findings: Vec<Finding>,
    pub caveats: Vec<Caveat>,
}
