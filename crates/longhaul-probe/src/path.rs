//! Path measurements: route, round trips, and modifications of packets on the way.

pub(crate) mod clock_pair;
mod hop_watch;
mod mtu_probe;
mod multipath_discovery;
pub mod path_error;
mod path_measurement;
mod path_socket;
pub mod probe_packet;
pub mod probe_reply;
mod probe_target;
pub mod round_trips;
pub mod route_trace;
mod tcp_options;

pub use path_error::PathError;
pub use path_measurement::{PathOutcome, PathPart, PathProgress, run};
pub use probe_target::ProbeTarget;
pub(crate) use round_trips::{EchoSeriesRequest, measure_round_trips};
pub(crate) use tcp_options::read_offered_options;
