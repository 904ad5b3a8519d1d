//! The running agent: `longhaul watch`.
//!
//! - [`desk`]: what it shares with its page

pub mod desk;
