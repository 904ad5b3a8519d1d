//! The text output of iperf3 3.12, for both roles, without a clock or a terminal.
//!
//! Scripts parse these columns, so each line matches iperf3's byte for byte; the values are plain
//! numbers. [`TextLayout`] determines the lines of a test; [`text_opening`] those before its intervals. The
//! caller adds the prefix that iperf3 prints before each line (`-T`, `--timestamps`).

mod text_columns;
mod text_layout;
pub mod text_opening;
mod text_units;

pub use text_columns::{LineId, LineTail, SEPARATOR, format_line};
pub use text_layout::{
    CpuUtilization, IntervalRow, StreamSide, TextLayout, TextRole, TotalRow, VerboseTotals,
};
pub use text_units::{RateFormat, UnitPrefix, format_rate, format_transfer};

/// The last line of a client.
pub const DONE: &str = "\niperf Done.\n";
/// The line before the totals with `-V`.
pub const COMPLETE: &str = "Test Complete. Summary Results:\n";

/// Formats a server's text output, as the client prints it.
pub fn format_server_output(text: &str) -> String {
    format!("\nServer output:\n{text}\n")
}

/// Formats the output of a server that writes JSON.
pub fn format_server_json(text: &str) -> String {
    format!("\nServer JSON output:\n{text}\n")
}
