//! The engine in virtual time: no namespaces, no clock.

mod bench;
mod rate;
