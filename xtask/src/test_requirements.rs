//! Requirements of the tests, and their installation.
//!
//! The lab's ground truth is checked with independent tools (iperf3, nuttcp, ping), and its paths
//! need network namespaces. A test that cannot run fails; this check reports all reasons
//! beforehand, in one list, with the command that helps.

use crate::TaskResult;
use crate::program_runner::{self, find_program, show_and_run};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// A timeout for small tools.
pub const MINUTE: Duration = Duration::from_secs(60);

/// Programs, each with the Debian package that contains it.
const PROGRAMS: &[(&str, &str)] = &[
    ("iperf3", "iperf3"),
    ("nuttcp", "nuttcp"),
    ("ping", "iputils-ping"),
    ("ip", "iproute2"),
    ("unshare", "util-linux"),
    ("python3", "python3"),
    // Parses captures independently.
    ("tshark", "tshark"),
    // Creates keys for iperf3's users.
    ("openssl", "openssl"),
];

/// The minimum version of Node.js for the tools of the web page.
const NODE: (u32, u32) = (20, 19);

/// The browser for the tests of the web page.
const BROWSER: &[(&str, &str)] = &[("chromium", "chromium")];

/// Finds every program that the tests use, and installs missing ones if possible.
pub fn ensure_test_programs() -> TaskResult {
    ensure_packages(PROGRAMS, is_program)
}

/// Finds or installs the browser for the tests of the web page.
pub fn ensure_browser() -> TaskResult {
    ensure_node()?;
    ensure_packages(BROWSER, is_program)
}

fn is_program(name: &str) -> bool {
    find_program(name).is_some()
}

/// Installs the packages of missing items if possible; an item comes with the package that contains
/// it.
pub fn ensure_packages(wanted: &[(&str, &str)], is_present: fn(&str) -> bool) -> TaskResult {
    let missing: Vec<_> = wanted.iter().filter(|(name, _)| !is_present(name)).collect();
    let packages: Vec<&str> = missing.iter().map(|(_, package)| *package).collect();
    if packages.is_empty() {
        return Ok(());
    }
    if !can_install() {
        return Err(format!(
            "the tests need programs that are not here; install them: apt-get install {}",
            packages.join(" ")
        ));
    }
    install_packages(&packages)?;
    match missing.iter().find(|(name, _)| !is_present(name)) {
        Some((name, package)) => {
            Err(format!("apt-get installed {package}, and still there is no {name}"))
        }
        None => Ok(()),
    }
}

/// Reports whether this user can install Debian packages.
pub fn can_install() -> bool {
    is_root() && is_program("apt-get")
}

/// Ensures a recent Node.js and npm, and installs them if there are none.
pub fn ensure_node() -> TaskResult {
    let missing = ["node", "npm"].map(find_program).iter().any(Option::is_none);
    if missing && can_install() {
        // Packages other than Debian's include npm.
        install_packages(&["nodejs"])?;
        if find_program("npm").is_none() {
            install_packages(&["npm"])?;
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
    let said = program_runner::capture_stdout(&mut node, Duration::from_secs(30));
    let said = said.map_err(|e| format!("{e}; {hint}"))?;
    if parse_node_version(&said).is_some_and(|found| found >= NODE) && find_program("npm").is_some()
    {
        return Ok(());
    }
    Err(format!("here is node {}; {hint}", said.trim()))
}

/// Parses `v20.19.2` as 20 and 19.
fn parse_node_version(said: &str) -> Option<(u32, u32)> {
    let mut parts = said.trim().strip_prefix('v')?.split('.');
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

/// Installs a Python package into a virtual environment in `folder`; Debian packages the tool for
/// these separately.
pub fn install_python_package(folder: &Path, package: &str) -> TaskResult {
    let mut probe = Command::new("python3");
    probe.args(["-c", "import ensurepip, venv"]);
    if program_runner::capture_stdout(&mut probe, MINUTE).is_err() {
        if !can_install() {
            let why = "python3 has no venv here; install it: apt-get install python3-venv";
            return Err(why.to_owned());
        }
        install_packages(&["python3-venv"])?;
    }
    show_and_run(Command::new("python3").args(["-m", "venv"]).arg(folder))?;
    let options = ["install", "--quiet", "--disable-pip-version-check", package];
    show_and_run(Command::new(folder.join("bin/pip")).args(options))
}

/// Installs Debian packages; needs root.
pub fn install_packages(packages: &[&str]) -> TaskResult {
    let apt = || {
        let mut apt = Command::new("apt-get");
        // No service is started: the tests start their own processes.
        apt.env("RUNLEVEL", "1");
        apt.env("DEBIAN_FRONTEND", "noninteractive");
        apt
    };
    show_and_run(apt().args(["--quiet", "update"]))?;
    let options = ["--quiet", "--yes", "--no-install-recommends", "install"];
    show_and_run(apt().args(options).args(packages))
}

/// Reports whether this is the superuser: the owner of this process's folder in /proc.
pub fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata("/proc/self").is_ok_and(|folder| folder.uid() == 0)
}

/// Fails with the reason if this user cannot create network namespaces.
pub fn check_namespaces() -> TaskResult {
    let flags: &[&str] =
        if is_root() { &["--net"] } else { &["--user", "--map-root-user", "--net"] };
    let mut unshare = Command::new("unshare");
    unshare.args(flags).arg("true");
    program_runner::capture_stdout(&mut unshare, Duration::from_secs(10)).map_err(|e| {
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
    use super::{NODE, parse_node_version};

    #[test]
    fn versions_of_node_are_compared_as_numbers() {
        assert_eq!(parse_node_version("v20.19.2\n"), Some((20, 19)));
        assert!(parse_node_version("v18.20.4").is_some_and(|old| old < NODE));
        assert!(parse_node_version("v22.2.0").is_some_and(|new| new >= NODE));
        assert_eq!(parse_node_version("20"), None);
    }
}
