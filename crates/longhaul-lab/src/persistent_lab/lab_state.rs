//! The state files of persistent labs: one file per lab in the user's runtime folder.

use super::PersistentLab;
use crate::lab_error::{LabError, LabErrorContext, LabErrorKind};
use crate::lab_runtime::write_whole_file;
use longhaul_sys::process_control;
use serde::{Deserialize, Serialize};
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

/// The descriptor numbers with which the lab's process holds a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct HostDescriptors {
    pub net: i32,
    pub mount: Option<i32>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct LabState {
    #[serde(flatten)]
    pub lab: PersistentLab,
    /// The start time in clock ticks since boot, as in `/proc/PID/stat`: detects a reused pid.
    pub started_ticks: u64,
    /// Host near and host far.
    pub hosts: [HostDescriptors; 2],
}

/// The folder for sockets and state, private to this user. Its name uses the uid outside of any
/// lab, so open it before entering a user namespace.
#[derive(Debug, Clone)]
pub(super) struct LabFolder(PathBuf);

impl LabFolder {
    pub(super) fn open() -> Result<LabFolder, LabError> {
        let (user, _) = process_control::effective_ids();
        let path = match std::env::var_os("XDG_RUNTIME_DIR") {
            Some(runtime) if Path::new(&runtime).is_dir() => Path::new(&runtime).join("longhaul"),
            _ => std::env::temp_dir().join(format!("longhaul-{user}")),
        };
        let made = DirBuilder::new().mode(0o700).create(&path);
        match made {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
            _ => fs::symlink_metadata(&path),
        }
        .and_then(|found| {
            let own = found.is_dir() && found.uid() == user && (found.mode() & 0o777) == 0o700;
            own.then_some(()).ok_or_else(|| {
                let why = "not a private folder of this user";
                io::Error::new(io::ErrorKind::PermissionDenied, why)
            })
        })
        .with_context(format!("cannot use {}", path.display()))?;
        Ok(LabFolder(path))
    }

    fn file(&self, key: &str, end: &str) -> io::Result<PathBuf> {
        if key.is_empty() || key.len() > 64 || key.contains(['/', '\0']) {
            return Err(io::Error::from(io::ErrorKind::InvalidInput));
        }
        Ok(self.0.join(format!("{key}.{end}")))
    }

    pub(super) fn socket(&self, key: &str) -> io::Result<PathBuf> {
        self.file(key, "socket")
    }

    /// Returns the lab with this key if it is alive; removes the files of a dead one.
    pub(super) fn find(&self, key: &str) -> Result<Option<LabState>, LabError> {
        let find = || match fs::read_to_string(self.file(key, "state")?) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
            Ok(text) => {
                let alive = serde_json::from_str(&text).ok().filter(LabState::is_alive);
                if alive.is_none() {
                    self.remove(key)?;
                }
                Ok(alive)
            }
        };
        find().with_context(format!("cannot read the state of lab {key}"))
    }

    pub(super) fn all(&self) -> Result<Vec<LabState>, LabError> {
        let entries = fs::read_dir(&self.0).with_context("cannot list the running labs")?;
        let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
        let mut keys: Vec<String> =
            names.filter_map(|name| name.strip_suffix(".state").map(str::to_owned)).collect();
        keys.sort();
        let found = keys.iter().map(|key| self.find(key));
        found.filter_map(Result::transpose).collect()
    }

    pub(super) fn write(&self, state: &LabState) -> io::Result<()> {
        let path = self.file(&state.lab.key, "state")?;
        write_whole_file(&path, &serde_json::to_string(state)?)
    }

    /// Removes the files of a lab that has ended.
    pub(super) fn remove(&self, key: &str) -> io::Result<()> {
        for end in ["state", "socket"] {
            match fs::remove_file(self.file(key, end)?) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }
}

/// Returns the start time of a process, or `None` if it does not exist.
pub(super) fn read_start_ticks(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, rest) = stat.rsplit_once(')')?;
    rest.split_whitespace().nth(19)?.parse().ok()
}

impl LabState {
    fn is_alive(&self) -> bool {
        read_start_ticks(self.lab.pid) == Some(self.started_ticks)
    }
}

/// An error of setting up a lab, for the process that requested it.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct HolderFailure {
    kind: LabErrorKind,
    error: String,
    hint: Option<String>,
}

impl From<LabError> for HolderFailure {
    fn from(error: LabError) -> HolderFailure {
        let text = match std::error::Error::source(&error) {
            Some(source) => format!("{error}: {source}"),
            None => error.to_string(),
        };
        HolderFailure { kind: error.kind, error: text, hint: error.hint }
    }
}

impl From<HolderFailure> for LabError {
    fn from(failure: HolderFailure) -> LabError {
        let mut error = LabError::new(failure.kind, failure.error);
        error.hint = failure.hint;
        error
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_is_read_as_it_was_written_and_an_error_too() {
        let state = LabState {
            lab: PersistentLab {
                key: "la-geneva".to_owned(),
                name: "a path".to_owned(),
                pid: 12,
                backend: "tun".to_owned(),
                caveats: vec!["busy".to_owned()],
            },
            started_ticks: 7,
            hosts: [
                HostDescriptors { net: 3, mount: Some(4) },
                HostDescriptors { net: 5, mount: None },
            ],
        };
        let text = serde_json::to_string(&state).expect("JSON");
        assert_eq!(serde_json::from_str::<LabState>(&text).ok(), Some(state));
        let error = LabError::new(LabErrorKind::Usage, "tried").hint("hint");
        let text = serde_json::to_string(&HolderFailure::from(error)).expect("JSON");
        let read: HolderFailure = serde_json::from_str(&text).expect("an error");
        let read = LabError::from(read);
        assert_eq!((read.kind, read.hint.as_deref()), (LabErrorKind::Usage, Some("hint")));
        assert!(serde_json::from_str::<LabState>("{}").is_err());
    }

    #[test]
    fn a_pid_without_its_start_time_is_not_the_same_process() {
        assert!(read_start_ticks(std::process::id()).is_some());
        assert_eq!(read_start_ticks(u32::MAX), None);
    }
}
