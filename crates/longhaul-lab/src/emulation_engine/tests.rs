//! Tests of the engine in virtual time: no namespaces, no clock.

mod bench;
mod chain;
mod change;
mod control;
mod garbage;
mod headers;
mod hops;
mod packet_builder;
mod rate;
mod router;
mod wire;
