//! Commands that the lab starts at its hosts.

use crate::lab_error::LabError;
use crate::lab_runtime::host_namespace::HostNamespace;
use longhaul_sys::process_control::{self, SpawnOptions};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};

/// A command that has not started yet.
pub(super) struct NamespaceCommand {
    command: Command,
    name: OsString,
    /// Detaches the command from the terminal's signals.
    pub own_session: bool,
}

impl NamespaceCommand {
    /// Creates a command from program and arguments; without any it runs the shell.
    pub(super) fn new(words: &[OsString], path_key: &str) -> NamespaceCommand {
        let shell = OsString::from("sh");
        let (program, arguments) = words.split_first().unwrap_or((&shell, &[]));
        let mut command = Command::new(program);
        command.args(arguments).env("LONGHAUL_LAB", path_key);
        if let Some(path) = prepend_own_folder() {
            command.env("PATH", path);
        }
        NamespaceCommand { command, name: program.clone(), own_session: false }
    }

    pub(super) fn token(&mut self, token: &str) {
        self.command.env("LONGHAUL_TOKEN", token);
    }

    /// Tells the command the process of host far, to enter that host with `nsenter`.
    pub(super) fn far_pid(&mut self, pid: u32) {
        self.command.env("LONGHAUL_LAB_FAR_PID", pid.to_string());
    }

    /// Redirects standard output and error to a file, and standard input from /dev/null.
    pub(super) fn output(&mut self, file: &File) -> Result<(), LabError> {
        let copy = || file.try_clone();
        let (out, err) = copy()
            .and_then(|out| Ok((out, copy()?)))
            .map_err(|error| LabError::from_io("cannot duplicate a temporary file", error))?;
        self.command.stdin(Stdio::null()).stdout(out).stderr(err);
        Ok(())
    }

    pub(super) fn start(mut self, host: &HostNamespace) -> Result<Child, LabError> {
        // The command runs even if the current folder has been removed.
        let folder = std::env::current_dir().unwrap_or_else(|_| PathBuf::from("/"));
        let start = SpawnOptions {
            host_name: host.name,
            net: host.net.as_fd(),
            mount: host.mount.as_ref().map(AsFd::as_fd),
            folder: &folder,
            own_session: self.own_session,
        };
        process_control::spawn_in_namespaces(&mut self.command, &start).map_err(|error| {
            let found = error.kind() != io::ErrorKind::NotFound;
            let tried = format!("cannot start `{}`", self.name.display());
            let failed = LabError::from_io(tried, error);
            if found { failed } else { failed.into_usage() }
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
