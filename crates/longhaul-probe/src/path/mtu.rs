//! The path MTU, by packets that must not be cut.

mod search;
