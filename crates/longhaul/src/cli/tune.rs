//! `longhaul tune`.

use super::args::TuneArgs;
use crate::fail::{Fail, USAGE};
use std::process::ExitCode;

pub fn run(args: &TuneArgs) -> Result<ExitCode, Fail> {
    Err(Fail::new(USAGE, format!("{args:?}: under work")))
}
