//! Analyses the round trips and the two directions of a session of STAMP or TWAMP.
//!
//! Read in this order: [`latency_conclusion`] (the entry: round trips, delays, variation, and
//! whether the clocks allow one-way delays), [`clock_skew`], [`one_way_counts`] (loss, duplicates
//! and reordering of each direction).

mod clock_skew;
mod latency_conclusion;
mod one_way_counts;

pub use latency_conclusion::{conclude_latency, list_one_way_delays};
