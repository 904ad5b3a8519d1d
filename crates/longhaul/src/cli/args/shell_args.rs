//! Options of `longhaul completions` and `longhaul man`.

use clap::Args;
use clap_complete::Shell;
use std::path::PathBuf;

const COMPLETIONS: &str = "\
Examples:
  longhaul completions bash > /etc/bash_completion.d/longhaul
  longhaul completions zsh > /usr/local/share/zsh/site-functions/_longhaul
  longhaul completions fish > ~/.config/fish/completions/longhaul.fish";

const MANUAL: &str = "\
Examples:
  longhaul man test | man -l -     read the page of `longhaul test`
  longhaul man report case         print the page of `longhaul report case`
  longhaul man --out man1          write all pages to a folder";

#[derive(Debug, Args)]
#[command(after_help = COMPLETIONS)]
pub struct CompletionsArgs {
    /// Shell to generate the script for
    #[arg(value_name = "SHELL")]
    pub shell: Shell,
}

#[derive(Debug, Args)]
#[command(after_help = MANUAL)]
pub struct ManArgs {
    /// Command to print the page of [default: longhaul itself]
    #[arg(value_name = "COMMAND")]
    pub command: Vec<String>,
    /// Write the pages of all commands to this folder
    #[arg(long, value_name = "DIR", conflicts_with = "command")]
    pub out: Option<PathBuf>,
}
