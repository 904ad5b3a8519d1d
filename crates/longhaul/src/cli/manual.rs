//! `longhaul completions` and `longhaul man`, generated from the definitions of the options.

use crate::cli::args::CliArgs;
use crate::cli::command_output;
use crate::command_failure::{CommandFailure, HOST};
use clap::{Args, Command, CommandFactory};
use clap_complete::Shell;
use clap_mangen::Man;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::{fs, io};

const COMPLETIONS: &str = include_str!("help/completions.txt").trim_ascii_end();

const MANUAL: &str = include_str!("help/manual.txt").trim_ascii_end();

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
    /// Write the pages of all commands to this folder
    #[arg(long, value_name = "DIR")]
    pub out: PathBuf,
}

const VERSION: &str = concat!("longhaul ", env!("CARGO_PKG_VERSION"));

/// Writes the completion script of a shell to standard output.
pub fn write_completions(args: &CompletionsArgs) -> Result<ExitCode, CommandFailure> {
    let mut script = Vec::new();
    let mut command = CliArgs::command().disable_help_subcommand(true);
    clap_complete::generate(args.shell, &mut command, "longhaul", &mut script);
    command_output::print_unstyled(&String::from_utf8_lossy(&script))?;
    Ok(ExitCode::SUCCESS)
}

/// Writes the manual pages of all commands to a folder.
pub fn write_manual(args: &ManArgs) -> Result<ExitCode, CommandFailure> {
    let mut root = CliArgs::command().disable_help_subcommand(true);
    root.build();
    let written =
        fs::create_dir_all(&args.out).and_then(|()| write_pages(&root, "longhaul", &args.out));
    written.map_err(|error| {
        CommandFailure::new(HOST, format!("cannot write pages to {}", args.out.display()))
            .cause(&error)
            .hint(Some("name a writable folder"))
    })?;
    Ok(ExitCode::SUCCESS)
}

/// Writes the page of `command` and those of its subcommands.
fn write_pages(command: &Command, name: &str, folder: &Path) -> io::Result<()> {
    for inner in command.get_subcommands().filter(|inner| inner.get_name() != "help") {
        write_pages(inner, &format!("{name}-{}", inner.get_name()), folder)?;
    }
    let page = Man::new(command.clone().version(None).display_name(name));
    page.source(VERSION).manual("User Commands").generate_to(folder)?;
    Ok(())
}
