//! What does bulk load do to round trips, to loss and to other flows?
//!
//! Read in this order: [`conclude()`] (the entry: everything that follows from one run),
//! [`stretch`] (which probes belong to which phase), [`delays`], [`rise`] (by how much, how sure,
//! which way), [`recovery`], [`rates`] (goodput, and what a competitor kept), [`yielding`] (what a
//! scavenger is worth), [`findings`], [`limits`].

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

/// Everything that follows from one run.
#[derive(Debug, Clone, PartialEq)]
pub struct Conclusion {
    pub analysis: Analysis,
    pub findings: Vec<Finding>,
    pub caveats: Vec<Caveat>,
}
