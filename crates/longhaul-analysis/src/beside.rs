//! What do archived reports say when they are laid beside each other?
//!
//! - [`Material`]: what the archive has of one path, and how to ask it
//! - [`change`]: one quantity in two samples, with its test
//! - [`mod@case`]: a path in two periods; [`routes`], [`settings`]: parts of it
//! - [`asymmetry`]: the two directions of a path; [`cause`]: why they differ
//! - [`mod@site`]: all paths on one page
//! - [`comparison`]: two sets of runs
//!
//! Pure: periods and reports come with the call, and the same ones give the same answer for ever.

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
