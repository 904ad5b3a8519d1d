//! A path: its route, its round trips, and what becomes of packets on it.

mod alternatives;
pub mod echo;
pub mod error;
mod mtu;
pub mod packet;
pub mod reply;
mod run;
pub mod trace;

pub use echo::EchoAsked;
pub use error::PathError;
pub use run::{Outcome, Part, Progress, run};
