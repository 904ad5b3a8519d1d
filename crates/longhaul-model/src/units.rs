//! Units: bytes, rates and durations.
//!
//! Rates print with decimal prefixes (`6.25 Gbit/s`), memory with IEC ones (`64 KiB`), and a bare
//! `K` is never printed. Parsing accepts what users of iperf type: a bare `K`, `M` or `G` is a
//! power of 1024 in a size and a power of 1000 in a rate.

mod bytes;
mod duration;
mod number;
mod rate;

pub use bytes::Bytes;
pub use duration::{format_duration, parse_duration};
pub use number::ParseUnitError;
pub use rate::Rate;

#[cfg(test)]
mod tests;
