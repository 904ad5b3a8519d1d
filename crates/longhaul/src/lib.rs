#![forbid(unsafe_code)]
//! The part of the program that is pure, so that benches and tests drive it as the agent does.
//!
//! - [`watch`]: what `watch.toml` asks for, and when each run of it is due

pub mod watch;
