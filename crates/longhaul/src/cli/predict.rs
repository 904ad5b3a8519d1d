//! `longhaul predict`.

use super::args::PredictArgs;
use crate::fail::{Fail, USAGE};
use std::process::ExitCode;

pub fn run(args: &PredictArgs) -> Result<ExitCode, Fail> {
    Err(Fail::new(USAGE, format!("{args:?}: under work")))
}
