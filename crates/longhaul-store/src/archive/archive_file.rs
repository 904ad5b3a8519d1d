//! The file of an archive and those that SQLite keeps beside it: names and permissions.

use std::fs::{self, DirBuilder, File, Permissions};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

const PRIVATE_FOLDER: u32 = 0o700;
const PRIVATE_FILE: u32 = 0o600;
/// The bits of a mode for users who are neither the owner nor in the group.
const OTHERS: u32 = 0o007;

/// Creates the file and its folder if they do not exist, for their owner only. SQLite gives its
/// other files the mode of this one.
pub(super) fn create_private(path: &Path) -> io::Result<()> {
    // Closing a file releases all locks of the process on it, so no other thread may use the new
    // file before it is closed here.
    static CREATION: Mutex<()> = Mutex::new(());
    let _guard = CREATION.lock();
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        create_private_folder(folder)?;
    }
    if !path.try_exists()? {
        File::options().create(true).append(true).mode(PRIVATE_FILE).open(path)?;
    }
    Ok(())
}

/// Creates a folder and its missing parents for their owner only; they survive a power failure. An
/// existing folder stays as it is.
pub fn create_private_folder(path: &Path) -> io::Result<()> {
    let is_missing = |folder: &&Path| !folder.as_os_str().is_empty() && !folder.exists();
    let missing: Vec<&Path> = path.ancestors().take_while(is_missing).collect();
    DirBuilder::new().recursive(true).mode(PRIVATE_FOLDER).create(path)?;
    missing.into_iter().try_for_each(sync_name)
}

/// Makes the name of a file or folder survive a power failure.
fn sync_name(path: &Path) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
}

/// Takes the files from everybody but their owner if others may use them. Earlier versions created
/// files that everybody could read. A mode that excludes others, such as 0640, is kept.
pub(super) fn tighten(path: &Path) {
    for file in [path.to_owned(), beside(path, "-wal"), beside(path, "-shm")] {
        if fs::metadata(&file).is_ok_and(|about| about.permissions().mode() & OTHERS != 0) {
            // Only the owner and root may do so; for other users the mode stays.
            let _ = fs::set_permissions(file, Permissions::from_mode(PRIVATE_FILE));
        }
    }
}

/// Returns the path of a file that SQLite keeps beside the archive.
pub(super) fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

/// Returns the URI that opens a file for reading, without lock and log.
pub(super) fn immutable_uri(path: &Path) -> String {
    let bytes = path.as_os_str().as_bytes();
    let encoded: Vec<String> = bytes.iter().map(|byte| format!("%{byte:02X}")).collect();
    format!("file:{}?immutable=1", encoded.concat())
}
