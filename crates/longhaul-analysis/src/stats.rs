//! Statistics of finished series: quantiles, robust scales, confidence intervals, tests.

pub mod mean_interval;
pub mod mid_ranks;
pub mod quantile;
pub mod robust_scale;
pub mod sample_change;
pub mod sample_mode;
pub mod sign_test;
pub mod student_distribution;
