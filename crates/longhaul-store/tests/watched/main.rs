//! The history of an agent: what is written is there, once, and answers are exact.
#![expect(clippy::float_cmp, reason = "what was stored comes back bit for bit")]

mod archive_queries;
#[path = "../history_cases/mod.rs"]
mod history_cases;
mod sent;
mod states;
#[path = "../temporary_archive/mod.rs"]
mod temporary_archive;
mod times;
mod written;
