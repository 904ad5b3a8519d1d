//! Emulated long paths between network namespaces on this machine, with ground truth.
//!
//! - [`spec`]: the description of a path
//! - [`path_file`]: reads a description from TOML
//! - [`catalogue`]: the shipped paths
//! - [`figures`]: capacity, RTT, BDP and goodput limit of a path
//! - [`describe`]: the text of `lab show`
//! - [`engine`]: carries packets over the path in virtual time
//! - [`runtime`]: connects the engine to network namespaces in real time
//! - [`run`]: runs one command on one path
//! - [`standing`]: persistent labs, kept until they are taken down
//! - [`error`]: errors of setting up a lab

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
