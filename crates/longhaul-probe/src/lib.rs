//! Doing a measurement: sessions, data pump, sampler.
//!
//! - [`throughput::run`]: one bulk run against a far end, from the initiator's side
//! - [`serve::serve`]: the far end
//! - [`session`], [`wire`]: the protocol between them, without sockets or clocks
//! - [`secure`]: TLS and the token
//! - [`limits`]: which plans can be run, and which are granted to strangers
//!
//! Threads and blocking calls with deadlines; no store, no web, no command line.

#![forbid(unsafe_code)]

pub mod error;
pub mod limits;
pub mod secure;
pub mod session;
pub mod wire;
