//! iperf3's text, as 3.12 lays it out: every line of it, for both roles, without a clock or a screen.
//!
//! Scripts read these columns, so a line here is the same byte by byte; what stands in it comes as
//! plain numbers. [`Layout`] knows which lines a test has; [`opening`] what comes before them.
//! What iperf3 prints in front of each line (`-T`, `--timestamps`) is left to whoever writes them.

mod columns;
mod layout;
pub mod opening;
mod unit;

pub use columns::{Id, SEPARATOR, Tail, line};
pub use layout::{Layout, Outcome, Processor, Role, Row, Side, Told};
pub use unit::{Prefix, Unit, rate, transfer};

/// The last words of a client.
pub const DONE: &str = "\niperf Done.\n";
/// With `-V`, before the totals.
pub const COMPLETE: &str = "Test Complete. Summary Results:\n";

/// What the server printed there, as the client shows it.
pub fn server_output(text: &str) -> String {
    format!("\nServer output:\n{text}\n")
}

/// The same of a server that writes JSON.
pub fn server_json(text: &str) -> String {
    format!("\nServer JSON output:\n{text}\n")
}
