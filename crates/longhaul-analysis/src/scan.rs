//! What does a scan over settings say? Order of its cells, and its conclusions.
//!
//! Read in this order: [`order()`] (which cell when), [`probe`] (a cell's plan, and a cell of a
//! finished probe), [`conclude()`] (the entry: everything that follows from the cells, of guided
//! searches and grids alike), [`cells`] (what counts), [`regimes`] (was the path one), [`choose`]
//! (best and recommended), [`top`], [`curves`], [`asymmetry`], [`needs`], [`findings`], [`limits`].

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

/// One probe of a grid, at its place in the order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Slot {
    /// From 0; the same as of the cell that comes of it.
    pub index: u32,
    pub setting: Setting,
    /// True: the initiator is the sender.
    pub forward: bool,
    /// One fixed setting, measured between the others to see the path change.
    pub sentinel: bool,
}

/// Everything that follows from a scan.
#[derive(Debug, Clone, PartialEq)]
pub struct Conclusion {
    pub analysis: Analysis,
    pub findings: Vec<Finding>,
    pub caveats: Vec<Caveat>,
}
