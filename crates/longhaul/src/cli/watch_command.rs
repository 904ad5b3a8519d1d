//! `longhaul watch [FILE]`: runs the agent. With `--check`, prints the forecast of a watch file, or
//! all its errors.

use super::args::WatchArgs;
use super::command_output;
use crate::agent;
use crate::command_failure::{CommandFailure, USAGE};
use crate::watch::watch_file::{
    self, FILE_BYTES_MAX, SecretFileState, WatchFile, WatchFileContext,
};
use crate::watch::watch_forecast::build_forecast;
use etcetera::BaseStrategy;
use longhaul_config::ConfigProblems;
use serde_json::json;
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// The system-wide file, used if the user has none.
const MACHINE_FILE: &str = "/etc/longhaul/watch.toml";
/// Internal, for tests and `longhaul demo --watch`: the speed-up factor of time in event detection,
/// to replay days in minutes.
pub const TIME_FACTOR_VARIABLE: &str = "LONGHAUL_TIME_FACTOR";
/// The maximum number of bytes read of a secret file; a token is one line.
const MAX_SECRET_BYTES: u64 = 4096;

pub fn run(args: &WatchArgs) -> Result<ExitCode, CommandFailure> {
    let path = args.file.clone().map_or_else(find_default_file, Ok)?;
    match read_watch_file(&path, args.agent.as_deref())? {
        Ok(file) if !args.check => agent::run(args, path, file),
        Ok(file) => {
            let costs = build_forecast(&file);
            if args.json {
                command_output::print_json(&crate::watch_cost::watch_cost_to_json(
                    &path.display().to_string(),
                    &file,
                    &costs,
                ))?;
            } else {
                command_output::print_document(&crate::watch_cost::build_watch_cost_document(
                    &file, &costs,
                ))?;
            }
            Ok(ExitCode::SUCCESS)
        }
        Err(problems) if args.json => {
            command_output::print_json(&problems_json(&problems))?;
            Ok(ExitCode::from(USAGE))
        }
        Err(problems) => Err(watch_file_failure(&problems)),
    }
}

/// Returns the path of the user's file, or else the system-wide one.
fn find_default_file() -> Result<PathBuf, CommandFailure> {
    let folders = etcetera::base_strategy::Xdg::new();
    let own = folders.map(|it| it.config_dir().join("longhaul").join("watch.toml"));
    let own = own.ok().filter(|path| path.is_file());
    let path = own.unwrap_or_else(|| PathBuf::from(MACHINE_FILE));
    if path.is_file() {
        return Ok(path);
    }
    let fail = CommandFailure::new(USAGE, "cannot find the default watch file");
    Err(fail
        .hint(Some("name one with `longhaul watch FILE`; see docs/watch-file.md for the format")))
}

/// Returns the parsed file or its problems. Fails if the file cannot be read.
pub fn read_watch_file(
    path: &Path,
    agent: Option<&str>,
) -> Result<Result<WatchFile, ConfigProblems>, CommandFailure> {
    let shown = path.display().to_string();
    let cannot = |why: String| {
        let mut fail = CommandFailure::new(USAGE, format!("cannot read the watch file {shown}"));
        fail.causes.push(why);
        fail.hint(Some("see docs/watch-file.md for the format"))
    };
    let opened = File::open(path).map_err(|e| cannot(e.to_string()))?;
    let mut bytes = Vec::new();
    opened.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(|e| cannot(e.to_string()))?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(cannot("larger than 4 MiB".to_owned()));
    }
    let text = String::from_utf8(bytes).map_err(|_| cannot("not UTF-8".to_owned()))?;
    let folder = path.parent().unwrap_or(Path::new("")).to_owned();
    let look = |secret: &Path| check_secret_file(&folder.join(secret));
    let here = WatchFileContext { agent, check_secret: &look };
    let mut parsed = watch_file::parse_watch_file(&shown, &text, &here);
    if let Ok(file) = &mut parsed {
        let factor = std::env::var(TIME_FACTOR_VARIABLE).ok();
        let factor = factor.and_then(|it| it.parse().ok());
        file.detect.time_factor = factor.filter(|it| (1..=100_000).contains(it));
    }
    Ok(parsed)
}

/// Checks the permissions of a secret file, and whether it is empty.
fn check_secret_file(path: &Path) -> SecretFileState {
    let open = || -> std::io::Result<(u32, bool)> {
        let mut file = File::open(path)?;
        let about = file.metadata()?;
        if !about.is_file() {
            return Err(std::io::Error::other("not a file"));
        }
        let mut begin = Vec::new();
        file.by_ref().take(MAX_SECRET_BYTES).read_to_end(&mut begin)?;
        let line = begin.split(|byte| *byte == b'\n').next();
        let holds = line.is_some_and(|line| !line.trim_ascii().is_empty());
        Ok((about.permissions().mode() & 0o777, holds))
    };
    match open() {
        Err(error) => SecretFileState::Unreadable(error.to_string()),
        Ok((mode, _)) if mode & 0o007 != 0 => SecretFileState::Open(mode),
        Ok((_, false)) => SecretFileState::Empty,
        Ok((_, true)) => SecretFileState::Private,
    }
}

fn watch_file_failure(problems: &ConfigProblems) -> CommandFailure {
    let number = problems.list.len() + problems.left_out;
    let what = longhaul_report::number_format::count_of(number as u64, "problem");
    let mut fail = CommandFailure::new(USAGE, format!("{what} in {}\n{problems}", problems.file));
    fail.hint = Some("see docs/watch-file.md for all keys".to_owned());
    fail
}

fn problems_json(problems: &ConfigProblems) -> serde_json::Value {
    let list: Vec<_> = problems
        .list
        .iter()
        .map(|it| {
            json!({
                "line": it.line, "key": it.key, "problem": it.what, "advice": it.advice,
            })
        })
        .collect();
    json!({ "file": problems.file, "problems": list, "left_out": problems.left_out })
}
