//! The command line: arguments → what is asked → one function for each command.
//!
//! - [`args`]: the commands and their options, as typed
//! - [`parse`]: the texts of option values, pure
//! - [`expect`]: `--expect`, parsed and judged
//! - [`resolve`]: options → a plan and a target; first pure, then what needs the host
//! - [`mod@test`], [`serve`], [`lab`], [`report`]: the commands
//! - [`tune`], [`mod@path`], [`available`], [`load`], [`host`], [`predict`]: likewise
//! - [`mod@copy`]: files, and what limited the copy
//! - [`mod@watch`]: the watch file, checked, and the agent
//! - [`capture`]: files of packets, read back
//! - [`record`]: records with their evidence; claims of others, checked
//! - [`import`]: what other programs printed, filed
//! - [`demo`]: two measurements on an emulated path, for a first look
//! - [`data`]: imported sets of address ranges, offline
//! - [`filing`]: from a finished measurement to a report in the archive
//! - [`manual`]: manual pages and completions
//! - [`interrupt`]: what Ctrl-C does
//! - [`output`]: how results reach stdout

pub mod args;
pub mod available;
pub mod called;
pub mod capture;
pub mod copy;
pub mod data;
pub mod demo;
pub mod expect;
pub mod filing;
pub mod host;
pub mod import;
mod interrupt;
pub mod iperf3;
pub mod lab;
pub mod load;
pub mod manual;
pub mod output;
pub mod parse;
pub mod path;
pub mod predict;
pub mod record;
pub mod report;
pub mod resolve;
pub mod serve;
pub mod test;
pub mod tune;
pub mod watch;
