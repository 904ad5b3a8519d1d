//! Inputs with a structure: the bytes of the fuzzer choose among fixtures and change them.

pub mod json_edits;
#[path = "../../crates/longhaul-report/tests/support/report_conclusions.rs"]
pub mod report_conclusions;
pub mod report_input;
