//! Analyses the effect of bulk load on round trips, loss and other flows.
//!
//! Read in this order: [`conclude()`] (the entry: all conclusions from one run), [`stretch`]
//! (assignment of probes to phases), [`delays`], [`rise`] (amount, confidence and direction),
//! [`recovery`], [`rates`] (goodput, and the share a competitor kept), [`yielding`] (verdict on a
//! scavenger), [`findings`], [`limits`].

mod conclude;
mod delays;
mod findings;
mod limits;
mod rates;
mod recovery;
mod rise;
mod stretch;
mod yielding;

#[cfg(test)]
mod tests;

pub use conclude::conclude;

use longhaul_model::report::v1::load::Analysis;
use longhaul_model::report::v1::{Caveat, Finding};

/// All conclusions from one run.
#[derive(Debug, Clone, PartialEq)]
pub struct Conclusion {
    pub analysis: Analysis,
    pub findings: Vec<Finding>,
    pub caveats: Vec<Caveat>,
}
