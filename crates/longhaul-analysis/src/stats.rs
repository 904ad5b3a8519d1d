//! Statistics of finished series: quantiles, robust scales, intervals of confidence.

pub mod interval;
pub mod quantile;
pub mod robust;
pub mod student;
