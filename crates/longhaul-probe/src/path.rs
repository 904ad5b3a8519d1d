//! A path: its route, its round trips, and what becomes of packets on it.

pub mod error;

pub use error::PathError;
