//! Reads the watch file and what it includes, and looks at the secret files that it names.

use crate::http_client::{self, FetchLimits, is_url};
use crate::psconfig::TEMPLATE_BYTES_MAX;
use crate::watch::watch_file::{
    self, FILE_BYTES_MAX, SecretFileState, WatchFile, WatchFileContext,
};
use crate::{included_files, secret_file};
use longhaul_config::ConfigProblems;
use longhaul_model::units::Bytes;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

/// Internal, for tests and `longhaul demo --watch`: the speed-up factor of time in event detection,
/// to replay days in minutes.
pub const TIME_FACTOR_VARIABLE: &str = "LONGHAUL_TIME_FACTOR";

/// The limits of a template or a list of hosts that is fetched.
const FETCH_LIMITS: FetchLimits =
    FetchLimits { bytes: TEMPLATE_BYTES_MAX, time: Duration::from_secs(30) };

/// A watch file that cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("cannot read the watch file {path}")]
pub struct WatchFileReadError {
    path: String,
    source: io::Error,
}

/// Returns the parsed file or its problems. Fails if the file cannot be read. Fetches what it includes by
/// URL, so that it blocks the thread, which must not run async tasks.
pub fn read_watch_file(
    path: &Path,
    agent: Option<&str>,
) -> Result<Result<WatchFile, ConfigProblems>, WatchFileReadError> {
    let shown = path.display().to_string();
    let cannot = |source| WatchFileReadError { path: shown.clone(), source };
    let mut text = None;
    if !is_url(path) {
        text = Some(read_limited_text(path, TEMPLATE_BYTES_MAX).map_err(cannot)?);
    }
    let (text, agent) = match text.filter(|text| !included_files::is_template(text)) {
        Some(text) => (text, agent),
        None => (wrap_template(path, agent), None),
    };
    if text.len() as u64 > FILE_BYTES_MAX {
        return Err(cannot(io::Error::other(format!("larger than {}", Bytes(FILE_BYTES_MAX)))));
    }
    let folder = watch_folder(path).to_owned();
    let included = match included_files::read_included_files(&shown, &text, &folder, agent) {
        Ok(included) => included,
        Err(problems) => {
            return Ok(Err(match watch_file::list_value_problems(&shown, &text) {
                Some(more) => problems.merge(more),
                None => problems,
            }));
        }
    };
    let look = |secret: &Path| check_secret_file(&folder.join(secret));
    let here = WatchFileContext { agent, check_secret: &look };
    let mut parsed = watch_file::parse_included_files(&shown, &text, &included.files, &here);
    if let Ok(file) = &mut parsed {
        let factor = std::env::var(TIME_FACTOR_VARIABLE).ok();
        let factor = factor.and_then(|it| it.parse().ok());
        file.included = included.versions;
        file.notes.extend(included.notes);
        file.detect.time_factor = factor.filter(|it| (1..=100_000).contains(it));
    }
    Ok(parsed)
}

/// Returns the text of a watch file that includes a template of perfSONAR and answers the runs of
/// others, for a host whose default name is its own.
fn wrap_template(path: &Path, agent: Option<&str>) -> String {
    let quote = |text: &str| serde_json::Value::from(text).to_string();
    let file = if is_url(path) { path.as_os_str() } else { path.file_name().unwrap_or_default() };
    let file = file.to_string_lossy();
    let own = longhaul_probe::throughput::initiator_party(None).host;
    let (file, agent) = (quote(&file), quote(agent.unwrap_or(&own)));
    format!("include = {file}\n[agent]\nname = {agent}\n[serve]\n")
}

/// Returns the folder to which relative paths in a watch file refer; that of a URL is the working
/// directory.
pub fn watch_folder(path: &Path) -> &Path {
    path.parent().filter(|_| !is_url(path)).unwrap_or(Path::new(""))
}

/// Reads a template or a list of hosts from a file or a URL.
pub fn read_template_text(place: &Path) -> io::Result<String> {
    match place.to_str().filter(|_| is_url(place)) {
        Some(url) => http_client::fetch_text(url, FETCH_LIMITS),
        None => read_limited_text(place, TEMPLATE_BYTES_MAX),
    }
}

/// Reads a text file with a limit of its size.
pub fn read_limited_text(path: &Path, bytes_max: u64) -> io::Result<String> {
    let mut bytes = Vec::new();
    File::open(path)?.take(bytes_max + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > bytes_max {
        return Err(io::Error::other(format!("larger than {}", Bytes(bytes_max))));
    }
    String::from_utf8(bytes).map_err(|_| io::Error::other("not UTF-8"))
}

/// Checks that a secret file has a secret, and its permissions.
fn check_secret_file(path: &Path) -> SecretFileState {
    let read_mode = || -> io::Result<u32> {
        let about = fs::metadata(path)?;
        if !about.is_file() {
            return Err(io::Error::other("not a file"));
        }
        secret_file::read_secret(path)?;
        Ok(about.permissions().mode() & 0o777)
    };
    match read_mode() {
        Err(error) => SecretFileState::Unreadable(error.to_string()),
        Ok(mode) if mode & 0o007 != 0 => SecretFileState::Open(mode),
        Ok(_) => SecretFileState::Private,
    }
}
