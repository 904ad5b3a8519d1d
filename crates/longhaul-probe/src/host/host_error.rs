//! The errors of applying and reverting. A single setting that could not be written is not an
//! error; it is reported in its change.

use std::io;
use std::path::{Path, PathBuf};

/// Settings were not applied or reverted, or not completely.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    /// longhaul does not write a setting of this name.
    #[error("cannot set {name}: longhaul does not write this setting")]
    NotWritable { name: String },
    /// The setting belongs to an interface, but none is given.
    #[error("cannot set {name}: no interface given or found")]
    NoInterface { name: String },
    /// There is no journal.
    #[error("nothing to revert: no journal at {}", path.display())]
    NothingToRevert { path: PathBuf },
    /// The journal cannot be read by this program.
    #[error("cannot read the journal {}: {why}", path.display())]
    Unreadable { path: PathBuf, why: String },
    /// The journal could not be written or removed.
    #[error("cannot {what} {}", path.display())]
    Journal {
        what: &'static str,
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    /// Another apply or revert did not finish in time.
    #[error("cannot lock {}: another apply or revert has held it for {waited_s} s", path.display())]
    Busy { path: PathBuf, waited_s: u64 },
    /// The journal is from another network namespace, to which its settings apply.
    #[error(
        "cannot use the journal {}: it belongs to network namespace {theirs}, this one is {ours}",
        path.display()
    )]
    OtherNamespace { path: PathBuf, theirs: String, ours: String },
}

impl HostError {
    pub(super) fn nothing_to_revert(path: &Path) -> HostError {
        HostError::NothingToRevert { path: path.to_owned() }
    }

    /// Returns advice on what to do next, if there is any.
    pub fn hint(&self) -> Option<&'static str> {
        Some(match self {
            HostError::NotWritable { .. } => "set it manually; longhaul cannot revert it then",
            HostError::NoInterface { .. } => "name the interface: `--interface NAME`",
            HostError::NothingToRevert { .. } => {
                "check that settings were applied on this host and are not reverted yet"
            }
            HostError::Unreadable { .. } => {
                "read it, restore the earlier values in it manually, then remove it"
            }
            HostError::Journal { source, .. } => match source.kind() {
                io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                    "run as root, or choose a writable folder"
                }
                io::ErrorKind::StorageFull => "free space on that disk, then run it again",
                _ => return None,
            },
            HostError::Busy { .. } => "wait for it to end, then run this again",
            HostError::OtherNamespace { .. } => {
                "revert in the namespace where it was applied; if that namespace is gone, its \
                 settings are gone too: remove the journal"
            }
        })
    }

    /// The exit code of the program: 2 for usage, 5 for privilege or kernel.
    pub fn exit_code(&self) -> u8 {
        match self {
            HostError::NotWritable { .. }
            | HostError::NoInterface { .. }
            | HostError::NothingToRevert { .. } => 2,
            _ => 5,
        }
    }
}
