//! Options of `longhaul host`.

use super::ArchiveArgs;
use clap::Args;

#[derive(Debug, Args)]
pub struct HostArgs {
    #[command(flatten)]
    pub archive: ArchiveArgs,
}
