//! Options of `longhaul tune`.

use super::ArchiveArgs;
use clap::Args;

#[derive(Debug, Args)]
pub struct TuneArgs {
    #[command(flatten)]
    pub archive: ArchiveArgs,
}
