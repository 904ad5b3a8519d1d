#![forbid(unsafe_code)]
//! The agent of `longhaul watch`, for programs that run one, or only read, schedule or forecast a
//! watch file.
//!
//! It measures by a watch file, detects changes, sends notifications, and serves a web page.
//!
//! - [`watch`]: the content of `watch.toml`, and the schedule of its runs
//! - [`watch_file_reading`]: reads `watch.toml` and looks at its secret files
//! - [`included_files`]: the files that it includes
//! - [`http_client`]: HTTP clients, and what is fetched from URLs
//! - [`psconfig`]: templates of perfSONAR as tables of a watch file
//! - [`watch_cost`]: the cost of a watch file
//! - [`token_store`]: named tokens of an agent
//! - [`agent`]: the agent; `api`: its web page; `secret_file`: secrets in files
//! - [`event_log`]: the lines of logs outside a terminal; [`log_writer`] writes them
//! - `path_traces`: the traces of a pair over time
//! - [`agent_error`]: why an agent cannot start

pub mod agent;
pub mod agent_error;
mod api;
pub mod event_log;
pub mod http_client;
pub mod included_files;
pub mod log_writer;
mod path_traces;
pub mod psconfig;
mod secret_file;
pub mod token_store;
pub mod watch;
pub mod watch_cost;
pub mod watch_file_reading;

/// A digest of the embedded web page.
pub const PAGE_DIGEST: &str = env!("LONGHAUL_PAGE");
