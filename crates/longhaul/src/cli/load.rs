//! `longhaul load`.

use super::args::LoadArgs;
use crate::fail::{BUG, Fail};
use std::process::ExitCode;

pub fn run(args: &LoadArgs) -> Result<ExitCode, Fail> {
    Err(Fail::new(BUG, format!("load {}", args.host)))
}
