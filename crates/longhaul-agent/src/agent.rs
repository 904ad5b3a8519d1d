//! The agent behind `longhaul watch`.
//!
//! - [`startup`]: startup; [`event_loop`]: event loop; [`lifecycle`]: lifecycle
//! - [`job_status`]: the state of each job, for metrics
//! - [`run_tasks`]: runs as tasks; [`process_runner`]: runs as processes
//! - [`finished_run`]: reads the report of a run
//! - [`analysis_worker`]: detection and diagnosis; [`follow_ups`]: follow-up measurements; [`notifier`]:
//!   notifications
//! - [`export`]: sends results to a collector or database; [`shared_database`]: the shared database
//! - [`agent_folder`]: files of the agent
//! - [`clocks`]: clocks; [`agent_log`]: log; [`service_manager`]: systemd notifications
//! - [`watch_file_reload`]: reads the watch file again
//! - [`embedded_server`]: the server of `[serve]`
//! - [`firefly_receiver`]: the receiver of `[fireflies]`; [`firefly_table`], [`firefly_report`]: flows of
//!   which fireflies tell
//! - [`received_results`]: results of other agents that wait for the analysis
//! - [`shared_state`]: state shared by agent and API

mod agent_folder;
mod agent_log;
mod analysis_worker;
mod archive_writer;
mod clocks;
mod embedded_server;
mod event_loop;
pub mod export;
mod finished_run;
mod firefly_receiver;
mod firefly_report;
pub mod firefly_table;
#[cfg(test)]
pub(crate) mod flows_test_builder;
mod follow_ups;
pub mod job_status;
mod lifecycle;
mod notifier;
mod process_runner;
pub mod received_results;
mod run_tasks;
mod service_manager;
#[cfg(feature = "clickhouse")]
mod shared_database;
pub mod shared_state;
mod startup;
pub(crate) mod transfer_limit;
mod watch_file_reload;

pub(crate) use agent_folder::{agent_folder_path, replace_private_file};
pub use analysis_worker::build_case;
pub use embedded_server::ServerExtensions;
pub use lifecycle::run;
pub use process_runner::build_run_command;
pub use startup::AgentOptions;
pub(crate) use startup::MAX_NOTIFY_AGE_US;
pub(crate) use startup::read_hostname;
