//! Access to files with the rights of another user than root, thread by thread.

use crate::syscall::check_status;
use nix::unistd::{Gid, Uid, User, geteuid, getgrouplist, setfsgid, setfsuid};
use std::ffi::CString;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// A user, by whose rights files are opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileUser {
    uid: Uid,
    gid: Gid,
    groups: Vec<Gid>,
}

impl FileUser {
    /// Looks up a user by name or number.
    ///
    /// # Errors
    /// `NotFound` if there is none.
    pub fn from_name(name: &str) -> io::Result<FileUser> {
        let user = match name.parse() {
            Ok(number) => User::from_uid(Uid::from_raw(number))?,
            Err(_) => User::from_name(name)?,
        };
        FileUser::from_user(&user.ok_or(io::ErrorKind::NotFound)?)
    }

    /// Returns the owner of a folder, with the folder's group if the system does not know this user.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn owner_of(folder: &Path) -> io::Result<FileUser> {
        let found = fs::metadata(folder)?;
        let (uid, gid) = (Uid::from_raw(found.uid()), Gid::from_raw(found.gid()));
        match User::from_uid(uid)? {
            Some(user) => FileUser::from_user(&user),
            None => Ok(FileUser { uid, gid, groups: vec![gid] }),
        }
    }

    fn from_user(user: &User) -> io::Result<FileUser> {
        let name = CString::new(user.name.as_str())?;
        let groups = getgrouplist(&name, user.gid)?;
        Ok(FileUser { uid: user.uid, gid: user.gid, groups })
    }

    pub fn is_root(&self) -> bool {
        self.uid.is_root()
    }

    /// Gives the calling thread, and those that it starts, the rights of this user on files
    /// (setfsuid(2)). Root loses its capabilities for files (capabilities(7)); other threads keep
    /// theirs.
    ///
    /// # Errors
    /// The process is not privileged.
    pub fn use_rights(&self) -> io::Result<()> {
        let groups: Vec<libc::gid_t> = self.groups.iter().map(|group| group.as_raw()).collect();
        // The function of the C library would change the groups of all threads.
        // SAFETY: the kernel reads `groups.len()` numbers, which live for the call.
        let status = unsafe { libc::syscall(libc::SYS_setgroups, groups.len(), groups.as_ptr()) };
        check_status(status as i32)?;
        setfsgid(self.gid);
        setfsuid(self.uid);
        // These calls report no errors; an invalid user changes nothing and returns the current one.
        if setfsuid(Uid::from_raw(u32::MAX)) != self.uid {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        Ok(())
    }
}

/// Returns whether this process is root on the machine, not only in a user namespace of its own.
pub fn is_machine_root() -> bool {
    let map = fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    let all = [0, 0, u64::from(u32::MAX)].map(|number| number.to_string());
    geteuid().is_root() && map.split_whitespace().eq(all.iter().map(String::as_str))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_thread_with_the_rights_of_a_user_cannot_open_the_files_of_root() {
        if !is_machine_root() {
            return;
        }
        let file = std::env::temp_dir().join(format!("file_user_{}", std::process::id()));
        fs::write(&file, "root's").expect("written");
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).expect("permissions");
        let path = file.clone();
        let as_user = move || {
            FileUser::from_name("nobody").expect("a user").use_rights().expect("privileged");
            let inherited = path.clone();
            let child = std::thread::spawn(move || fs::read(inherited).map_err(|e| e.kind()));
            (fs::read(path).map_err(|error| error.kind()), child.join().expect("it ends"))
        };
        let denied = Err(io::ErrorKind::PermissionDenied);
        assert_eq!(std::thread::spawn(as_user).join().expect("it ends"), (denied.clone(), denied));
        assert!(fs::read(&file).is_ok(), "other threads keep their rights");
        fs::remove_file(&file).expect("removed");
    }

    #[test]
    fn users_are_found_by_name_and_number() {
        let root = FileUser::from_name("root").expect("a user");
        assert!(root.is_root() && FileUser::from_name("0").expect("a user") == root);
        let unknown = FileUser::from_name("no-such-user").expect_err("unknown");
        assert_eq!(unknown.kind(), io::ErrorKind::NotFound);
    }
}
