//! Inputs with a structure: the bytes of the fuzzer choose among fixtures and change them.

pub mod json_edits;
pub mod report_input;
