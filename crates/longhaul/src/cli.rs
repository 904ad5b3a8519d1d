//! The command line: parses the arguments and runs one function for each command.
//!
//! - [`args`]: the commands and their options, as typed
//! - [`parse`]: parsers of option values, without I/O
//! - [`expect`]: parses and evaluates `--expect`
//! - [`resolve`]: turns options into a plan and a target; first without I/O, then with the host
//! - [`mod@test`], [`serve`], [`lab`], [`report`]: the commands of these names
//! - [`tune`], [`mod@path`], [`available`], [`load`], [`host`], [`predict`]: more commands
//! - [`mod@copy`]: copies files and reports what limited the copy
//! - [`mod@watch`]: checks the watch file and starts the agent
//! - [`capture`]: reads packet captures
//! - [`record`]: records with their evidence, and checks of published claims
//! - [`import`]: imports the output of other programs
//! - [`demo`]: two measurements on an emulated path
//! - [`data`]: imports sets of address ranges, offline
//! - [`filing`]: turns a finished measurement into a report and archives it
//! - [`manual`]: manual pages and shell completions
//! - [`interrupt`]: handles Ctrl-C
//! - [`output`]: writes results to stdout

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
