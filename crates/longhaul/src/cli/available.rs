//! `longhaul available`.

use super::args::AvailableArgs;
use crate::fail::{BUG, Fail};
use std::process::ExitCode;

pub fn run(args: &AvailableArgs) -> Result<ExitCode, Fail> {
    Err(Fail::new(BUG, format!("available {}", args.host)))
}
