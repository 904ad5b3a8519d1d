//! The agent behind `longhaul watch`.
//!
//! - [`startup`], [`startup_message`]: startup; [`event_loop`]: event loop; [`watch_file_reload`]: a changed watch file; [`lifecycle`]:
//!   lifecycle
//! - [`schedule_records`]: decisions of the schedule; [`archive_writer`]: the archive writer thread
//! - [`run_tasks`]: runs as tasks; [`process_runner`]: runs as processes; [`run_command`]: command line of a run
//! - [`finished_run`]: reads the report of a run; [`spool_recovery`]: recovers runs of an earlier process
//! - [`analysis_worker`]: detection and diagnosis; [`follow_ups`]: follow-up measurements; [`notifier`]:
//!   notifications
//! - [`export`]: sends results to a collector or database; [`shared_database`]: the shared database
//! - [`agent_folder`]: files of the agent; [`daily_retention`]: deletes expired data
//! - [`clocks`]: clocks; [`agent_log`]: log; [`service_manager`]: systemd notifications
//! - [`shared_state`]: state shared by agent and API

mod agent_folder;
mod agent_log;
mod analysis_worker;
mod archive_writer;
mod clocks;
mod daily_retention;
mod event_loop;
pub mod export;
mod finished_run;
mod follow_ups;
mod lifecycle;
mod notifier;
mod process_runner;
pub mod run_command;
mod run_tasks;
mod schedule_records;
mod service_manager;
#[cfg(feature = "clickhouse")]
mod shared_database;
pub mod shared_state;
mod spool_recovery;
mod startup;
mod startup_message;
mod watch_file_reload;

pub use analysis_worker::build_case_text;
pub use lifecycle::run;
pub use startup::AgentOptions;
