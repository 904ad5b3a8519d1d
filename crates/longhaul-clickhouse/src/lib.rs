#![forbid(unsafe_code)]
//! The archive of a fleet: the trait `longhaul_store::Watched` answered by ClickHouse.
