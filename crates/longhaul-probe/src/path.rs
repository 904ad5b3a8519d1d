//! Path measurements: route, round trips, and modifications of packets on the way.

mod alternatives;
pub mod echo;
pub mod error;
mod mtu;
mod options;
pub mod packet;
pub mod reply;
mod run;
pub mod trace;
mod watch;

pub use echo::{EchoAsked, echoes};
pub use error::PathError;
pub(crate) use options::offered;
pub use run::{Outcome, Part, Progress, run};
