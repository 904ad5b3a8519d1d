//! Options of `longhaul available`.

use super::{LocalArgs, OutputArgs, TokenArgs};
use crate::cli::parse;
use clap::Args;

#[derive(Debug, Args)]
pub struct AvailableArgs {
    /// Name or address of the far end
    #[arg(value_name = "HOST", value_parser = parse::host)]
    pub host: String,
    /// Port of the far end
    #[arg(short, long, value_name = "PORT", default_value_t = 5201, value_parser = parse::port)]
    pub port: u16,
    #[command(flatten)]
    pub local: LocalArgs,
    #[command(flatten)]
    pub token: TokenArgs,
    #[command(flatten)]
    pub output: OutputArgs,
}
