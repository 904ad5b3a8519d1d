//! Captures without a network: the filter in a small machine, files there and back, damage.

mod files;
mod machine;
mod packets;
