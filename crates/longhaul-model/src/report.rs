//! The published reports. There is one versioned format: see [`v1`].

pub mod v1;
