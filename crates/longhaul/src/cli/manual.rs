//! `longhaul completions` and `longhaul man`, generated from the definitions of the options.

use super::args::{Cli, CompletionsArgs, Iperf3Args, ManArgs};
use crate::fail::{Fail, HOST, USAGE};
use clap::{Command, CommandFactory};
use clap_mangen::Man;
use std::fs;
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

const VERSION: &str = concat!("longhaul ", env!("CARGO_PKG_VERSION"));

/// Writes the completion script of a shell to standard output.
pub fn complete(args: &CompletionsArgs) -> Result<ExitCode, Fail> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut definition(), "longhaul", &mut script);
    print(&script)
}

/// Writes one manual page to standard output, or all of them into a folder.
pub fn run(args: &ManArgs) -> Result<ExitCode, Fail> {
    let mut root = definition();
    root.build();
    let mut pages = Vec::new();
    collect(&root, "longhaul".to_owned(), &mut pages);
    if let Some(folder) = &args.out {
        write_all(folder, pages).map_err(|error| {
            let mut fail = Fail::new(HOST, format!("cannot write pages to {}", folder.display()));
            fail.causes.push(error.to_string());
            fail.hint(Some("name a folder that you may write to"))
        })?;
        return Ok(ExitCode::SUCCESS);
    }
    let words = [&["longhaul".to_owned()], args.command.as_slice()].concat();
    let wanted = words.join("-");
    let Some((_, page)) = pages.into_iter().find(|(name, _)| *name == wanted) else {
        let text = format!("there is no command `{}`", words.join(" "));
        return Err(Fail::new(USAGE, text).hint(Some("`longhaul --help` lists the commands")));
    };
    let mut text = Vec::new();
    page.render(&mut text)?;
    print(&text)
}

/// Returns the command line with the options of `iperf3`, which it otherwise passes on unread.
fn definition() -> Command {
    let iperf3 = Iperf3Args::command();
    Cli::command()
        .disable_help_subcommand(true)
        .mut_subcommand("iperf3", |passed| match passed.get_about().cloned() {
            Some(about) => iperf3.about(about),
            None => iperf3,
        })
}

/// Adds the page of `command` and those of its subcommands, by name.
fn collect(command: &Command, name: String, pages: &mut Vec<(String, Man)>) {
    for inner in command
        .get_subcommands()
        .filter(|inner| inner.get_name() != "help")
    {
        collect(inner, format!("{name}-{}", inner.get_name()), pages);
    }
    let page = Man::new(command.clone().version(None).display_name(&name));
    let page = page.source(VERSION).manual("User Commands");
    pages.push((name, page));
}

fn write_all(folder: &Path, pages: Vec<(String, Man)>) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    for (_, page) in pages {
        page.generate_to(folder)?;
    }
    Ok(())
}

fn print(bytes: &[u8]) -> Result<ExitCode, Fail> {
    let mut out = io::stdout().lock();
    out.write_all(bytes)?;
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}
