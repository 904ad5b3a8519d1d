//! What longhaul publishes. One shape, versioned: see [`v1`].

pub mod v1;
