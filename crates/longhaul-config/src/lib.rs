//! A reader of TOML files for programs whose users write their configuration by hand.
//!
//! TOML text becomes plain structs that derive `Deserialize`, or a list of all errors of the file,
//! each with its line, key, value and advice.
//!
//! - [`config_document`]: a TOML document that finds all errors in one pass
//! - [`config_problem`]: the errors
//! - [`config_values`]: values with units and ranges, for `deserialize_with` and as types
//!
//! This crate has no access to clock, host, disk or network (docs/decisions/0038).

#![forbid(unsafe_code)]

pub mod config_document;
pub mod config_problem;
pub mod config_values;

pub use config_document::{ConfigDocument, ConfigRules};
pub use config_problem::{
    ConfigProblem, ConfigProblems, find_nearest_word, quote_value, suggest_known,
};
