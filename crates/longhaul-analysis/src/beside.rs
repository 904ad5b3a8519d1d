//! Comparisons of archived reports: two periods, two directions, two sets of runs, or all paths.
//!
//! Pure: periods and reports are arguments, and the same ones always give the same result.

pub mod asymmetry;
pub mod case;
pub mod cause;
pub mod change;
pub mod comparison;
mod material;
pub mod routes;
pub mod settings;
pub mod site;
#[cfg(test)]
mod sketch;

pub use material::{Material, Taken, reversed};
