//! `longhaul completions` and `longhaul man`, generated from the definitions of the options.

use crate::cli::args::CliArgs;
use crate::cli::command_output;
use crate::command_failure::{CommandFailure, HOST, USAGE};
use clap::{Args, Command, CommandFactory};
use clap_complete::Shell;
use clap_mangen::Man;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

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

const VERSION: &str = concat!("longhaul ", env!("CARGO_PKG_VERSION"));

/// Writes the completion script of a shell to standard output.
pub fn write_completions(args: &CompletionsArgs) -> Result<ExitCode, CommandFailure> {
    let mut script = Vec::new();
    let mut command = CliArgs::command().disable_help_subcommand(true);
    clap_complete::generate(args.shell, &mut command, "longhaul", &mut script);
    command_output::print_unstyled(&String::from_utf8_lossy(&script))?;
    Ok(ExitCode::SUCCESS)
}

/// Writes one manual page to standard output, or all of them into a folder.
pub fn run(args: &ManArgs) -> Result<ExitCode, CommandFailure> {
    let mut root = CliArgs::command().disable_help_subcommand(true);
    root.build();
    let mut pages = Vec::new();
    collect_pages(&root, "longhaul".to_owned(), &mut pages);
    if let Some(folder) = &args.out {
        write_pages(folder, pages).map_err(|error| {
            CommandFailure::new(HOST, format!("cannot write pages to {}", folder.display()))
                .cause(&error)
                .hint(Some("name a writable folder"))
        })?;
        return Ok(ExitCode::SUCCESS);
    }
    let words = [&["longhaul".to_owned()], args.command.as_slice()].concat();
    let wanted = words.join("-");
    let Some((_, page)) = pages.into_iter().find(|(name, _)| *name == wanted) else {
        let text = format!("cannot find command `{}`", words.join(" "));
        return Err(
            CommandFailure::new(USAGE, text).hint(Some("list the commands with `longhaul --help`"))
        );
    };
    let mut text = Vec::new();
    page.render(&mut text)?;
    command_output::print_unstyled(&String::from_utf8_lossy(&text))?;
    Ok(ExitCode::SUCCESS)
}

/// Adds the page of `command` and those of its subcommands, by name.
fn collect_pages(command: &Command, name: String, pages: &mut Vec<(String, Man)>) {
    for inner in command.get_subcommands().filter(|inner| inner.get_name() != "help") {
        collect_pages(inner, format!("{name}-{}", inner.get_name()), pages);
    }
    let page = Man::new(command.clone().version(None).display_name(&name));
    let page = page.source(VERSION).manual("User Commands");
    pages.push((name, page));
}

fn write_pages(folder: &Path, pages: Vec<(String, Man)>) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    for (_, page) in pages {
        page.generate_to(folder)?;
    }
    Ok(())
}
