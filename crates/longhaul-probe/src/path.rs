//! A path: its route, its round trips, and what becomes of packets on it.

pub mod echo;
pub mod error;
mod mtu;
mod run;

pub use echo::EchoAsked;
pub use error::PathError;
pub use run::{Outcome, Part, Progress, run};
