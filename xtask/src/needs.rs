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

/// Enough for a small tool to end.
pub const MINUTE: Duration = Duration::from_secs(60);

/// A program and the Debian package that has it.
const PROGRAMS: &[(&str, &str)] = &[
    ("iperf3", "iperf3"),
    ("nuttcp", "nuttcp"),
    ("ping", "iputils-ping"),
    ("ip", "iproute2"),
    ("unshare", "util-linux"),
    ("python3", "python3"),
    // Reads captures with other eyes.
    ("tshark", "tshark"),
    // Makes keys for iperf3's users.
    ("openssl", "openssl"),
];

/// The least Node.js that the page's tools run on.
const NODE: (u32, u32) = (20, 19);

/// The browser for the tests of the page.
const BROWSER: &[(&str, &str)] = &[("chromium", "chromium")];

/// Finds every program that the tests use; installs what is missing where that can be done.
pub fn ensure() -> Outcome {
    ensure_programs(PROGRAMS)
}

/// The same for the tests of the page.
pub fn browser() -> Outcome {
    node()?;
    ensure_programs(BROWSER)
}

fn ensure_programs(wanted: &[(&str, &str)]) -> Outcome {
    let missing: Vec<_> = (wanted.iter())
        .filter(|(name, _)| find_program(name).is_none())
        .collect();
    let packages: Vec<&str> = missing.iter().map(|(_, package)| *package).collect();
    if packages.is_empty() {
        return Ok(());
    }
    if !is_root() || find_program("apt-get").is_none() {
        return Err(format!(
            "the tests need programs that are not here; install them: apt-get install {}",
            packages.join(" ")
        ));
    }
    install(&packages)?;
    match missing
        .iter()
        .find(|(name, _)| find_program(name).is_none())
    {
        Some((name, package)) => Err(format!(
            "apt-get installed {package}, and still there is no {name}"
        )),
        None => Ok(()),
    }
}

/// Node.js and npm, new enough; installs them where there are none.
pub fn node() -> Outcome {
    let missing = ["node", "npm"]
        .map(find_program)
        .iter()
        .any(Option::is_none);
    if missing && is_root() && find_program("apt-get").is_some() {
        // Where a packager other than Debian has it, npm comes with it.
        install(&["nodejs"])?;
        if find_program("npm").is_none() {
            install(&["npm"])?;
        }
    }
    let hint = format!(
        "the page's tools need Node.js {}.{} or newer with npm; get it from https://nodejs.org or \
         your distribution (Debian 12 has an older one), or leave the page out: the program builds \
         without it, with a text in its place",
        NODE.0, NODE.1
    );
    let mut node = Command::new("node");
    node.arg("--version");
    let said = process::stdout_of(&mut node, Duration::from_secs(30));
    let said = said.map_err(|e| format!("{e}; {hint}"))?;
    if version(&said).is_some_and(|found| found >= NODE) && find_program("npm").is_some() {
        return Ok(());
    }
    Err(format!("here is node {}; {hint}", said.trim()))
}

/// `v20.19.2` as 20 and 19.
fn version(said: &str) -> Option<(u32, u32)> {
    let mut parts = said.trim().strip_prefix('v')?.split('.');
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

/// Virtual environments of Python, which Debian packs apart.
pub fn venv() -> Outcome {
    let mut probe = Command::new("python3");
    probe.args(["-c", "import ensurepip, venv"]);
    if process::stdout_of(&mut probe, Duration::from_secs(60)).is_ok() {
        return Ok(());
    }
    if !is_root() || find_program("apt-get").is_none() {
        return Err(
            "python3 has no venv here; install it: apt-get install python3-venv".to_owned(),
        );
    }
    install(&["python3-venv"])
}

/// Installs packages of Debian; needs root.
pub fn install(packages: &[&str]) -> Outcome {
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

#[cfg(test)]
mod tests {
    use super::{NODE, version};

    #[test]
    fn versions_of_node_are_compared_as_numbers() {
        assert_eq!(version("v20.19.2\n"), Some((20, 19)));
        assert!(version("v18.20.4").is_some_and(|old| old < NODE));
        assert!(version("v22.2.0").is_some_and(|new| new >= NODE));
        assert_eq!(version("20"), None);
    }
}
