#![forbid(unsafe_code)]
//! The part of the program without I/O, shared by the agent, benches and tests.
//!
//! - [`watch`]: the content of `watch.toml`, and the schedule of its runs

pub mod watch;
