//! `longhaul completions` and `longhaul man`, generated from the definitions of the options.

use super::args::{CliArgs, CompletionsArgs, ManArgs};
use crate::command_failure::{CommandFailure, HOST, USAGE};
use clap::{Command, CommandFactory};
use clap_mangen::Man;
use std::fs;
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

const VERSION: &str = concat!("longhaul ", env!("CARGO_PKG_VERSION"));

/// Writes the completion script of a shell to standard output.
pub fn write_completions(args: &CompletionsArgs) -> Result<ExitCode, CommandFailure> {
    let mut script = Vec::new();
    let mut command = CliArgs::command().disable_help_subcommand(true);
    clap_complete::generate(args.shell, &mut command, "longhaul", &mut script);
    write_stdout(&script)
}

/// Writes one manual page to standard output, or all of them into a folder.
pub fn run(args: &ManArgs) -> Result<ExitCode, CommandFailure> {
    let mut root = CliArgs::command().disable_help_subcommand(true);
    root.build();
    let mut pages = Vec::new();
    collect_pages(&root, "longhaul".to_owned(), &mut pages);
    if let Some(folder) = &args.out {
        write_pages(folder, pages).map_err(|error| {
            let mut fail =
                CommandFailure::new(HOST, format!("cannot write pages to {}", folder.display()));
            fail.causes.push(error.to_string());
            fail.hint(Some("name a writable folder"))
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
    write_stdout(&text)
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

fn write_stdout(bytes: &[u8]) -> Result<ExitCode, CommandFailure> {
    let mut out = io::stdout().lock();
    out.write_all(bytes)?;
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}
