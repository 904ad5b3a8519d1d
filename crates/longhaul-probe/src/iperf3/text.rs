//! The text output of iperf3 3.12, for both roles, without a clock or a terminal.
//!
//! Scripts parse these columns, so each line matches iperf3's byte for byte; the values are plain
//! numbers. [`Layout`] determines the lines of a test; [`opening`] those before its intervals. The
//! caller adds the prefix that iperf3 prints before each line (`-T`, `--timestamps`).

mod columns;
mod layout;
pub mod opening;
mod unit;

pub use columns::{Id, SEPARATOR, Tail, line};
pub use layout::{Layout, Outcome, Processor, Role, Row, Side, Told};
pub use unit::{Prefix, Unit, rate, transfer};

/// The last line of a client.
pub const DONE: &str = "\niperf Done.\n";
/// The line before the totals with `-V`.
pub const COMPLETE: &str = "Test Complete. Summary Results:\n";

/// Formats a server's text output, as the client prints it.
pub fn server_output(text: &str) -> String {
    format!("\nServer output:\n{text}\n")
}

/// Formats the output of a server that writes JSON.
pub fn server_json(text: &str) -> String {
    format!("\nServer JSON output:\n{text}\n")
}
