//! Emulated long paths between network namespaces on this machine, with ground truth, for tests of
//! any program that needs a path with known properties.
//!
//! - [`path_spec`]: the description of a path
//! - [`path_file`]: reads a description from TOML
//! - [`path_catalogue`]: the shipped paths
//! - [`path_description`]: the text of `lab show`
//! - [`emulation_engine`]: carries packets over the path in virtual time
//! - [`lab_runtime`]: connects the engine to network namespaces in real time
//! - [`lab_run`]: runs one command on one path
//! - [`sysctl_guard`]: settings of the whole machine, and what a killed lab has left of them
//! - [`lab_error`]: errors of setting up a lab

#![forbid(unsafe_code)]

pub mod emulation_engine;
pub mod lab_error;
mod lab_privileges;
pub mod lab_run;
pub mod lab_runtime;
pub mod path_catalogue;
pub mod path_description;
pub mod path_file;
pub mod path_spec;
pub mod sysctl_guard;
mod truth_file;
