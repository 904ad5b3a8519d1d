//! What do round trips, routes and hops under load say of a path?
//!
//! Read in this order: [`conclude()`] (the entry: everything that follows from one look at a path),
//! [`rtt`], [`hops`] (what each link adds), [`compare()`] and [`number()`] (routes over time),
//! [`KnownRoute::of`] (an earlier route, from its report), [`mtu`], [`symmetry`], [`narrow`] (where
//! the queue grows), [`findings`], [`limits`] (what could not be seen), [`table`] (many traces).

mod compare;
mod conclude;
mod findings;
mod hops;
mod known;
mod limits;
mod mtu;
mod narrow;
mod rtt;
#[cfg(test)]
pub(crate) mod scene;
mod symmetry;
pub mod table;
pub mod words;

pub use compare::compare;
pub use conclude::conclude;
pub use known::{KnownRoute, number};

use longhaul_model::report::v1::path::Analysis;
use longhaul_model::report::v1::{Caveat, Finding};

/// Everything that follows from one look at a path.
#[derive(Debug, Clone, PartialEq)]
pub struct Conclusion {
    pub analysis: Analysis,
    pub findings: Vec<Finding>,
    pub caveats: Vec<Caveat>,
}

/// Of the whole path in the direction of the load, from an estimate of available bandwidth or a
/// bulk run that the path itself held back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capacity {
    pub bps: u64,
    pub interval_bps: Option<[u64; 2]>,
}
