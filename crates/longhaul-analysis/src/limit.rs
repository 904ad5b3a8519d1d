//! Finds the limiter of a transfer: from the counters of both ends to shares, bounds and a verdict.
//!
//! Read in this order: [`stream_intervals`] aligns the samples of both ends and describes one stream;
//! [`run_reading`] derives a view of the run as a whole, with [`policer_fit`] (on [`loss_slots`],
//! [`loss_windows`] and [`visible_queue`]), [`shaper_fit`],
//! [`rate_levels`], [`path_outage`], [`return_path`] and [`host_load`];
//! [`interval_classifier`] gives each interval of each stream an [`interval_state`], whose module sums
//! them to shares; [`limiter_verdict`] names the limiter; [`limit_bounds`] computes what each limit
//! would allow. [`receiver_side`] does the same for a transfer of another program of which only the
//! receiver is on this host, and [`request_pattern`] finds the requests that data answers.
//! [`live_limiter`] estimates the limiter of a moment while a run is in progress.

pub mod host_load;
pub mod interval_classifier;
pub mod interval_state;
pub mod limit_bounds;
pub mod limiter_verdict;
pub mod live_limiter;
pub mod loss_response;
pub mod loss_slots;
pub mod loss_windows;
pub mod path_outage;
pub mod policer_fit;
pub mod rate_levels;
pub mod receiver_side;
pub mod request_pattern;
pub mod return_path;
pub mod run_reading;
pub mod shaper_fit;
pub mod stream_intervals;
pub mod visible_queue;
pub mod window_cycle;
pub mod window_range;
