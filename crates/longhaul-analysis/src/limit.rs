//! Finds the limiter of a transfer: from the counters of both ends to shares, bounds and a verdict.
//!
//! Read in this order: [`intervals`] aligns the samples of both ends; [`scene`] describes the run
//! as a whole, with [`policer`] and [`shaper`], and [`habits`] one stream; [`states`] gives each
//! interval of each stream a [`state`]; [`attribute`] sums them to shares; [`verdict`] names the
//! limiter; [`bounds`] computes what each limit would allow, and [`window`] rounds the windows that
//! are worth requesting.

pub mod attribute;
pub mod bounds;
pub mod habits;
pub mod intervals;
pub mod policer;
pub mod scene;
pub mod shaper;
pub mod state;
pub mod states;
pub mod verdict;
pub mod window;
