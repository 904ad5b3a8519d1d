//! `longhaul path`.

use super::args::PathArgs;
use crate::fail::{BUG, Fail};
use std::process::ExitCode;

pub fn run(args: &PathArgs) -> Result<ExitCode, Fail> {
    Err(Fail::new(BUG, format!("path {}", args.host)))
}
