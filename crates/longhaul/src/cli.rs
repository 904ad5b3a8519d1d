//! The command line: arguments → what is asked → one function for each command.
//!
//! - [`args`]: the commands and their options, as typed
//! - [`parse`]: the texts of option values, pure
//! - [`expect`]: `--expect`, parsed and judged
//! - [`resolve`]: options → a plan and a target; first pure, then what needs the host
//! - [`mod@test`], [`serve`], [`lab`], [`report`]: the commands
//! - [`output`]: how results reach stdout, and the archive

pub mod args;
pub mod expect;
pub mod lab;
pub mod output;
pub mod parse;
pub mod report;
pub mod resolve;
pub mod serve;
pub mod test;
