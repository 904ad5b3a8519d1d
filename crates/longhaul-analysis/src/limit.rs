//! What held the transfer back? From the counters of both ends to shares, bounds and a verdict.
//!
//! Read in this order: [`intervals`] aligns both ends' samples; [`scene`] holds what is true of the
//! run as a whole, with [`policer`] and [`shaper`], and [`habits`] what is true of one stream;
//! [`states`] gives each interval of each stream a [`state`]; [`attribute`] sums them to shares;
//! [`verdict`] names the limiter; [`bounds`] says what each limit would allow,
//! and [`window`] which windows are worth asking for.

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
