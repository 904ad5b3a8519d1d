//! Statistics of finished series: quantiles, robust scales, confidence intervals, tests.

pub mod change;
pub mod interval;
pub mod normal;
pub mod proportion;
pub mod quantile;
pub mod rank_sum;
pub mod robust;
pub mod sign;
pub mod student;
