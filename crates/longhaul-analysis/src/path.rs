//! Conclusions about a path from round trips, routes and hops under load.
//!
//! Read in this order: [`path_conclusion`] (the entry: all conclusions and caveats from one path run),
//! [`hop_delays`] (delay of each link, RTT, path MTU), [`route_difference`] and
//! [`assign_route_number()`] (routes over time), [`KnownRoute::of`] (an earlier route, from its report),
//! [`narrow_link`] (location of the queue), [`path_findings`],
//! [`trace_table`] (many traces).

mod hop_delays;
mod known_routes;
mod narrow_link;
mod path_conclusion;
mod path_findings;
pub mod path_format;
#[cfg(test)]
pub(crate) mod path_test_builder;
mod route_difference;
pub mod trace_table;

pub use known_routes::{KnownRoute, assign_route_number};
pub use path_conclusion::conclude_path;
pub use route_difference::compare_routes;

/// The capacity of the whole path in the direction of the load, from an available-bandwidth
/// estimate or from a bulk run that the path limited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PathCapacityEstimate {
    pub bps: u64,
    pub interval_bps: Option<[u64; 2]>,
}
