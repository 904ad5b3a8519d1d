//! The command line: parses the arguments and runs one function for each command.
//!
//! - [`args`]: the commands and their options, as typed
//! - [`value_parsers`]: parsers of option values, without I/O
//! - [`expectation`]: parses and evaluates `--expect`
//! - [`option_resolution`]: turns options into a plan and a target; first without I/O, then with the host
//! - [`usage_hints`]: answers to the command lines of other programs
//! - [`mod@test_command`], [`serve_command`], [`lab_command`], [`report_command`]: the commands of these names
//! - [`tune_command`], [`mod@path_command`], [`available_command`], [`load_command`], [`host_command`], [`predict_command`]: more commands
//! - [`latency_command`]: latency by STAMP or TWAMP
//! - [`iperf3_command`]: `test` and `serve` with the options of iperf3
//! - [`ndt7_command`]: a test with an ndt7 server
//! - [`rpm_test`]: `load --rpm`, the responsiveness of an IETF draft
//! - [`mod@copy_command`]: copies files and reports what limited the copy
//! - [`explain_command`]: explains the transfers of other programs
//! - [`header_analysis`]: what the packet headers of a sender add to its counters
//! - [`mod@watch_command`]: checks the watch file and starts the agent
//! - [`capture_command`]: reads packet captures
//! - [`record_command`]: records with their evidence, and checks of published claims
//! - [`import_command`]: imports the output of other programs
//! - [`psconfig_command`]: templates of perfSONAR as watch files
//! - [`pscheduler_command`]: the methods of a tool plug-in of pScheduler
//! - [`demo`]: two measurements on an emulated path
//! - [`address_data`]: databases that name the network and place of an address
//! - [`report_archiving`]: turns a finished measurement into a report and archives it
//! - [`progress_lines`]: progress on stderr
//! - [`archive_command`]: checks, copies and prunes the archive
//! - [`mcp_command`]: tools for clients of the Model Context Protocol
//! - [`manual`]: manual pages and shell completions
//! - [`interrupt`]: handles Ctrl-C
//! - [`command_output`]: writes results to stdout

pub mod address_data;
pub mod archive_command;
pub mod args;
pub mod available_command;
pub mod capture_command;
pub mod command_output;
pub mod copy_command;
pub mod demo;
pub mod early_end;
pub mod expectation;
pub mod explain_command;
mod firefly_sender;
mod header_analysis;
pub mod host_command;
pub mod import_command;
pub mod interrupt;
pub mod invocation;
pub mod iperf3_command;
pub mod iperf3_server;
pub mod lab_command;
pub mod latency_command;
pub mod load_command;
pub mod manual;
pub mod mcp_command;
pub mod ndt7_command;
pub mod option_resolution;
pub mod path_command;
pub mod predict_command;
mod progress_lines;
pub mod pscheduler_command;
pub mod psconfig_command;
pub mod record_command;
pub mod report_archiving;
pub mod report_command;
mod rpm_test;
pub mod serve_command;
pub mod test_command;
pub mod tune_command;
pub mod usage_hints;
pub mod value_parsers;
pub mod watch_command;
