//! Reads the watch file and looks at the secret files that it names.

use crate::watch::watch_file::{
    self, FILE_BYTES_MAX, SecretFileState, WatchFile, WatchFileContext,
};
use longhaul_config::ConfigProblems;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Internal, for tests and `longhaul demo --watch`: the speed-up factor of time in event detection,
/// to replay days in minutes.
pub const TIME_FACTOR_VARIABLE: &str = "LONGHAUL_TIME_FACTOR";
/// The maximum number of bytes read of a secret file; a token is one line.
const MAX_SECRET_BYTES: u64 = 4096;

/// A watch file that cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("cannot read the watch file {path}")]
pub struct WatchFileReadError {
    path: String,
    source: io::Error,
}

/// Returns the parsed file or its problems. Fails if the file cannot be read.
pub fn read_watch_file(
    path: &Path,
    agent: Option<&str>,
) -> Result<Result<WatchFile, ConfigProblems>, WatchFileReadError> {
    let shown = path.display().to_string();
    let cannot = |source| WatchFileReadError { path: shown.clone(), source };
    let text = read_limited_text(path).map_err(cannot)?;
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

fn read_limited_text(path: &Path) -> io::Result<String> {
    let mut bytes = Vec::new();
    File::open(path)?.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(io::Error::other("larger than 4 MiB"));
    }
    String::from_utf8(bytes).map_err(|_| io::Error::other("not UTF-8"))
}

/// Checks the permissions of a secret file, and whether it is empty.
fn check_secret_file(path: &Path) -> SecretFileState {
    let open = || -> io::Result<(u32, bool)> {
        let mut file = File::open(path)?;
        let about = file.metadata()?;
        if !about.is_file() {
            return Err(io::Error::other("not a file"));
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
