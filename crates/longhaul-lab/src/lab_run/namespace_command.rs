//! Commands that the lab starts at its hosts.

use crate::lab_error::{LabError, LabErrorContext, LabErrorKind};
use crate::lab_runtime::host_namespace::HostNamespace;
use longhaul_sys::process_control::{self, SpawnOptions};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};

/// A command for a host of the lab.
pub(super) struct NamespaceCommand<'a> {
    /// Program and arguments.
    pub words: &'a [OsString],
    /// Variables besides those of the lab.
    pub environment: &'a [(&'a str, &'a str)],
    /// The file for standard output and error of a command without input, in a session of its own.
    pub output: Option<&'a File>,
}

impl NamespaceCommand<'_> {
    pub(super) fn start(&self, host: &HostNamespace) -> Result<Child, LabError> {
        let [program, arguments @ ..] = self.words else {
            return Err(LabError::new(LabErrorKind::Usage, "no command to run"));
        };
        let tried = format!("cannot start `{}`", program.display());
        let mut command = Command::new(program);
        command.args(arguments).envs(self.environment.iter().copied());
        if let Some(path) = prepend_own_folder() {
            command.env("PATH", path);
        }
        if let Some(file) = self.output {
            let copy = || file.try_clone().with_context(&tried);
            command.stdin(Stdio::null()).stdout(copy()?).stderr(copy()?);
        }
        // The command runs even if the current folder has been removed.
        let folder = std::env::current_dir().unwrap_or_else(|_| PathBuf::from("/"));
        let start = SpawnOptions {
            host_name: host.name,
            net: host.net.as_fd(),
            mount: host.mount.as_ref().map(AsFd::as_fd),
            folder: &folder,
            own_session: self.output.is_some(),
        };
        process_control::spawn_in_namespaces(&mut command, &start).map_err(|error| {
            let is_found = error.kind() != io::ErrorKind::NotFound;
            let failed = LabError::from_io(tried, error);
            if is_found { failed } else { failed.into_usage() }
        })
    }
}

/// Returns PATH with this executable's folder first, so that `longhaul` in a command is the one
/// that runs the lab.
fn prepend_own_folder() -> Option<OsString> {
    let own = std::env::current_exe().ok()?;
    let mut folders = vec![own.parent()?.to_owned()];
    let rest = std::env::var_os("PATH");
    folders.extend(std::env::split_paths(rest.as_deref().unwrap_or(OsStr::new(""))));
    std::env::join_paths(folders).ok()
}

/// Creates a file without a name, which disappears when it is closed.
pub(super) fn create_unnamed_file() -> io::Result<File> {
    let path = crate::lab_runtime::unique_temp_path("far")?;
    let file = File::options().read(true).append(true).create_new(true).open(&path)?;
    std::fs::remove_file(&path)?;
    Ok(file)
}

/// Returns the exit code as a shell does: 128 + n if signal n ended the command.
pub(super) fn shell_exit_code(status: ExitStatus) -> i32 {
    status.code().or(status.signal().map(|signal| 128 + signal)).unwrap_or(70)
}
