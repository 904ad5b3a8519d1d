//! The program as its users meet it: help, bad input, reports, and a run over loopback.

mod addresses;
mod available;
mod bad_input;
mod beside;
mod bundle;
mod capture;
mod collector;
mod copy;
mod copy_trouble;
mod data;
#[cfg(feature = "clickhouse")]
mod database;
mod documentation;
mod events;
mod fleet;
mod goldens;
mod help;
mod host;
mod imported;
mod iperf3;
mod iperf3_command;
mod iperf3_killed;
mod load;
mod logs;
mod loopback;
mod measured_record;
mod options_of_other_programs;
mod path;
mod predict;
mod record;
mod report;
mod routes;
mod support;
mod tune;
mod units;
mod watch;
