//! What the tests need from the machine, and how to get it.
//!
//! The lab's truth is proved by other people's tools (iperf3, nuttcp, ping), and its paths lie
//! between network namespaces. A test that cannot run fails; here the reason is said beforehand,
//! in one list, with the command that helps.

use crate::Outcome;
use crate::process::{self, find_program, show_and_run};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// A program and the Debian package that has it.
const PROGRAMS: &[(&str, &str)] = &[
    ("iperf3", "iperf3"),
    ("nuttcp", "nuttcp"),
    ("ping", "iputils-ping"),
    ("ip", "iproute2"),
    ("unshare", "util-linux"),
];

/// Finds every program of `PROGRAMS`; installs what is missing when that can be done.
pub fn ensure() -> Outcome {
    let absent = absent();
    if absent.is_empty() {
        let names: Vec<&str> = PROGRAMS.iter().map(|(name, _)| *name).collect();
        println!("needs: {} are here", names.join(", "));
        return Ok(());
    }
    let packages: Vec<&str> = absent.iter().map(|(_, package)| *package).collect();
    if !is_root() || find_program("apt-get").is_none() {
        return Err(format!(
            "the tests need programs that are not here; install them: apt-get install {}",
            packages.join(" ")
        ));
    }
    install(&packages)?;
    let absent = self::absent();
    if absent.is_empty() {
        return Ok(());
    }
    let names: Vec<&str> = absent.iter().map(|(name, _)| *name).collect();
    Err(format!(
        "apt-get ran, and still there is no {}",
        names.join(", ")
    ))
}

fn absent() -> Vec<(&'static str, &'static str)> {
    PROGRAMS
        .iter()
        .copied()
        .filter(|(name, _)| find_program(name).is_none())
        .collect()
}

fn install(packages: &[&str]) -> Outcome {
    let apt = || {
        let mut apt = Command::new("apt-get");
        apt.env("DEBIAN_FRONTEND", "noninteractive");
        apt
    };
    show_and_run(apt().args(["--quiet", "update"]))?;
    let options = ["--quiet", "--yes", "--no-install-recommends", "install"];
    show_and_run(apt().args(options).args(packages))
}

/// True for the superuser: the owner of this process's own folder in /proc.
pub fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata("/proc/self").is_ok_and(|folder| folder.uid() == 0)
}

/// Fails with the reason unless this user can make network namespaces.
pub fn namespaces() -> Outcome {
    let flags: &[&str] = if is_root() {
        &["--net"]
    } else {
        &["--user", "--map-root-user", "--net"]
    };
    let mut unshare = Command::new("unshare");
    unshare.args(flags).arg("true");
    process::stdout_of(&mut unshare, Duration::from_secs(10)).map_err(|e| {
        format!(
            "no network namespace can be made here ({e}); run as root with CAP_SYS_ADMIN and \
             CAP_NET_ADMIN, or allow user namespaces (sysctl kernel.unprivileged_userns_clone=1, \
             user.max_user_namespaces above 0)"
        )
    })?;
    if !Path::new("/dev/net/tun").exists() {
        println!("needs: no /dev/net/tun here, so the lab will use its AF_PACKET backend");
    }
    Ok(())
}
