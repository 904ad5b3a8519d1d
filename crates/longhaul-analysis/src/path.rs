//! Conclusions about a path from round trips, routes and hops under load.
//!
//! Read in this order: [`conclude()`] (the entry: all conclusions from one path run), [`rtt`],
//! [`hops`] (delay of each link), [`compare()`] and [`number()`] (routes over time),
//! [`KnownRoute::of`] (an earlier route, from its report), [`mtu`], [`symmetry`], [`narrow`]
//! (location of the queue), [`findings`], [`limits`] (caveats), [`table`] (many traces).

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

/// All conclusions from one path run.
#[derive(Debug, Clone, PartialEq)]
pub struct Conclusion {
    pub analysis: Analysis,
    pub findings: Vec<Finding>,
    pub caveats: Vec<Caveat>,
}

/// The capacity of the whole path in the direction of the load, from an available-bandwidth
/// estimate or from a bulk run that the path limited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capacity {
    pub bps: u64,
    pub interval_bps: Option<[u64; 2]>,
}
