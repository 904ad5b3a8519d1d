//! Options of `longhaul predict`.

use super::ArchiveArgs;
use clap::Args;

#[derive(Debug, Args)]
pub struct PredictArgs {
    #[command(flatten)]
    pub archive: ArchiveArgs,
}
