//! Units: bytes, rates and durations; counts with their nouns.
//!
//! Rates print with decimal prefixes (`6.25 Gbit/s`), memory with IEC ones (`64 KiB`), and a bare
//! `K` is never printed. Parsing accepts what users of iperf type: a bare `K`, `M` or `G` is a
//! power of 1024 in a size and a power of 1000 in a rate.

mod byte_size;
mod duration;
mod grouped_number;
mod rate;
mod unit_number;

pub use byte_size::Bytes;
pub use duration::{format_duration, parse_duration};
pub use grouped_number::{capitalize_first, count_of, format_grouped};
pub use rate::Rate;
pub use unit_number::ParseUnitError;

#[cfg(test)]
mod tests;
