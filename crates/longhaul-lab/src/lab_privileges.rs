//! Checks the privileges of this process, and gets those that a lab needs without root.

use crate::lab_error::{LabError, LabErrorContext, LabErrorKind};
use longhaul_sys::netns::{self, NamespaceKind};
use longhaul_sys::process_control;
use std::io;

/// `CAP_NET_ADMIN`, `CAP_NET_RAW` and `CAP_SYS_ADMIN`, linux/capability.h.
const NEEDED: u64 = 1 << 12 | 1 << 13 | 1 << 21;

const HINT: &str = "run as root, or permit user namespaces: set user.max_user_namespaces above 0 and, \
                    where they exist, kernel.unprivileged_userns_clone=1 and \
                    kernel.apparmor_restrict_unprivileged_userns=0";

/// Ensures that this process may create network namespaces, if necessary in a user namespace of its
/// own. The process must have only one thread.
pub(crate) fn acquire_privileges() -> Result<(), LabError> {
    if has_capabilities() {
        return Ok(());
    }
    let (user, group) = process_control::effective_ids();
    netns::unshare_namespace(NamespaceKind::User)
        .with_context("cannot create a user namespace")
        .map_err(|error| error.hint(HINT))?;
    let map = || {
        std::fs::write("/proc/self/setgroups", "deny")?;
        std::fs::write("/proc/self/uid_map", format!("0 {user} 1"))?;
        std::fs::write("/proc/self/gid_map", format!("0 {group} 1"))
    };
    map()
        .with_context("cannot map the user into a user namespace")
        .map_err(|error| error.hint(HINT))?;
    if !has_capabilities() {
        let tried = "cannot create network namespaces: the user namespace does not grant the right";
        return Err(LabError::new(LabErrorKind::Unavailable, tried).hint(HINT));
    }
    Ok(())
}

fn has_capabilities() -> bool {
    read_effective_capabilities().is_ok_and(|held| held & NEEDED == NEEDED)
}

fn read_effective_capabilities() -> io::Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let held = line.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok());
    held.ok_or_else(|| io::Error::from(io::ErrorKind::InvalidData))
}
