//! `longhaul host`.

use super::args::HostArgs;
use crate::fail::{Fail, USAGE};
use std::process::ExitCode;

pub fn run(args: &HostArgs) -> Result<ExitCode, Fail> {
    Err(Fail::new(USAGE, format!("{args:?}: under work")))
}
