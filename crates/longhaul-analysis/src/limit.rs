//! Finds the limiter of a transfer: from the counters of both ends to shares, bounds and a verdict.
//!
//! Read in this order: [`stream_intervals`] aligns the samples of both ends; [`run_reading`] derives a
//! [`run_view`] of the run as a whole, with [`policer_fit`] and [`shaper_fit`]; [`stream_traits`] describes one stream; [`interval_classifier`] gives each
//! interval of each stream a [`interval_state`]; [`state_shares`] sums them to shares; [`limiter_verdict`] names the
//! limiter; [`limit_bounds`] computes what each limit would allow ([`loss_response`] for loss), and [`window_range`] rounds the windows that
//! are worth requesting.

pub mod interval_classifier;
pub mod interval_state;
pub mod limit_bounds;
pub mod limiter_verdict;
pub mod loss_response;
pub mod policer_fit;
pub mod run_reading;
pub mod run_view;
pub mod shaper_fit;
pub mod state_shares;
pub mod stream_intervals;
pub mod stream_traits;
pub mod window_range;
