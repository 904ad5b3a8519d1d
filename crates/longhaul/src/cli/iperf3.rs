//! `longhaul iperf3 …`, and longhaul called by the name `iperf3`: the same options, text and JSON as
//! iperf3 3.12, by our engine.
//!
//! Errors are told as iperf3 tells them, and the exit code of each is 1, since scripts look for both.

pub mod client;
pub mod password;
pub mod rows;
pub mod serve;
pub mod system;
pub mod value;
pub mod writer;

use super::args::Iperf3Args;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory, Parser};
use std::error::Error;
use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

const FAILED: u8 = 1;
const USAGE: &str =
    "Usage: iperf3 [-s|-c host] [options]\n       iperf3 [-h|--help] [-v|--version]\n";

/// Why there is no result, in iperf3's form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// The command line asks for what cannot be.
    Parameter(String),
    Error(String),
    /// Without the word "error".
    Bare(String),
    /// It has been told already.
    Told,
}

impl Refusal {
    pub fn parameter(text: impl Into<String>) -> Refusal {
        Refusal::Parameter(text.into())
    }

    pub fn error(text: impl Into<String>) -> Refusal {
        Refusal::Error(text.into())
    }
}

/// Was this process called by the name `iperf3`?
pub fn is_called(program: Option<&OsStr>) -> bool {
    program.and_then(|name| Path::new(name).file_name()) == Some(OsStr::new("iperf3"))
}

/// All of it, from the words behind the name on.
pub fn run(words: &[OsString]) -> ExitCode {
    let named = std::iter::once(OsStr::new("iperf3")).chain(words.iter().map(OsString::as_os_str));
    let done = match Iperf3Args::try_parse_from(named) {
        Ok(args) => act(&args),
        Err(error) => Err(misread(&error)),
    };
    let text = match done {
        Ok(()) => return ExitCode::SUCCESS,
        Err(Refusal::Told) => String::new(),
        Err(Refusal::Parameter(text)) => format!("iperf3: parameter error - {text}\n\n{USAGE}"),
        Err(Refusal::Bare(text)) => format!("iperf3: {text}\n"),
        Err(Refusal::Error(text)) => format!("iperf3: error - {text}\n"),
    };
    // Nobody is left to be told when stderr is closed as well.
    let _ = std::io::stderr().write_all(text.as_bytes());
    ExitCode::from(FAILED)
}

fn act(args: &Iperf3Args) -> Result<(), Refusal> {
    if args.version {
        return said(&system::version());
    }
    if args.help {
        let help = Iperf3Args::command().render_long_help().to_string();
        return said(&help);
    }
    match (&args.client.host, args.server.server) {
        (Some(_), true) => Err(Refusal::parameter("cannot be both server and client")),
        (None, false) => Err(Refusal::parameter(
            "must either be a client (-c) or server (-s)",
        )),
        (None, true) => {
            if args.client.any_option_set() {
                let text = "some option you are trying to set is client only";
                return Err(Refusal::parameter(text));
            }
            serve::run(args)
        }
        (Some(place), false) => {
            if args.server.any_option_set() {
                let text = "some option you are trying to set is server only";
                return Err(Refusal::parameter(text));
            }
            client::run(args, place)
        }
    }
}

fn said(text: &str) -> Result<(), Refusal> {
    let written = std::io::stdout().write_all(text.as_bytes());
    written.map_err(|error| Refusal::error(error.to_string()))
}

/// What clap found wrong, in iperf3's words.
fn misread(error: &clap::Error) -> Refusal {
    let named = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.clone()),
        _ => None,
    };
    let option = named(ContextKind::InvalidArg).unwrap_or_default();
    match (error.kind(), error.source()) {
        (ErrorKind::ValueValidation, Some(source)) => Refusal::Parameter(source.to_string()),
        (ErrorKind::UnknownArgument, _) => unrecognized(&option),
        (ErrorKind::InvalidValue, _)
            if named(ContextKind::InvalidValue).is_none_or(|v| v.is_empty()) =>
        {
            told(&format!(
                "iperf3: option '{option}' requires an argument\n{USAGE}"
            ))
        }
        _ => {
            let text = error.to_string();
            let first = text.lines().next().unwrap_or_default();
            Refusal::Parameter(first.trim_start_matches("error: ").to_owned())
        }
    }
}

fn unrecognized(option: &str) -> Refusal {
    if option.starts_with('-') {
        told(&format!("iperf3: unrecognized option '{option}'\n{USAGE}"))
    } else {
        Refusal::Parameter(format!("'{option}' belongs to no option"))
    }
}

fn told(text: &str) -> Refusal {
    // Nobody is left to be told when stderr is closed.
    let _ = std::io::stderr().write_all(text.as_bytes());
    Refusal::Told
}
