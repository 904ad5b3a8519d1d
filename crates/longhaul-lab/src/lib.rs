//! Emulated long paths between network namespaces on this machine, with ground truth.
//!
//! - [`spec`]: what a path is
//! - [`path_file`]: reads one from TOML
//! - [`catalogue`]: the shipped ones
//! - [`figures`]: what a path can carry at best
//! - [`describe`]: the same in words, for `lab show`
//! - [`engine`]: what the path does to packets, in virtual time
//! - [`runtime`]: the path laid between namespaces, in real time
//! - [`run`]: one command on one path, from end to end
//! - [`standing`]: a path that stands until it is taken down
//! - [`error`]: why a lab could not be laid

#![forbid(unsafe_code)]

mod authority;
pub mod catalogue;
pub mod describe;
pub mod engine;
pub mod error;
pub mod figures;
mod guard;
mod lay;
pub mod path_file;
pub mod run;
pub mod runtime;
pub mod spec;
pub mod standing;
mod truth_file;
