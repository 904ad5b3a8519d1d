//! ClickHouse for tests and benches: the current engine, embedded in a Python package, and two
//! servers of 2018 with ZooKeeper from Debian's packages.

use crate::program_runner::{self, find_program, show_and_run};
use crate::{TaskResult, test_requirements};
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

/// Pinned, so that a new engine does not change CI results.
const ENGINE: &str = "chdb>=4.4,<5";

/// Files that the replica test starts, each with the package that contains it.
const PACKAGES: &[(&str, &str)] = &[
    ("/usr/sbin/clickhouse-server", "clickhouse-server"),
    ("/usr/share/java/zookeeper.jar", "zookeeper"),
];

/// Installs both, or returns what is missing.
pub fn ensure_clickhouse() -> TaskResult {
    ensure_engine()?;
    ensure_replica_packages()
}

/// Installs the engine in the target folder, where the tests look for it.
pub fn ensure_engine() -> TaskResult {
    let folder = program_runner::target_folder()?.join("tools/chdb");
    let python = match std::env::var_os("LONGHAUL_CHDB_PYTHON") {
        Some(named) => PathBuf::from(named),
        None => folder.join("bin/python"),
    };
    if has_engine(&python) {
        println!("clickhouse: the embedded engine is here");
        return Ok(());
    }
    test_requirements::ensure_venv()?;
    show_and_run(Command::new("python3").args(["-m", "venv"]).arg(&folder))?;
    show_and_run(Command::new(folder.join("bin/pip")).args([
        "install",
        "--quiet",
        "--disable-pip-version-check",
        ENGINE,
    ]))
}

fn has_engine(python: &PathBuf) -> bool {
    let mut import = Command::new(python);
    import.args(["-c", "from chdb import session"]);
    program_runner::capture_stdout(&mut import, Duration::from_secs(180)).is_ok()
}

fn ensure_replica_packages() -> TaskResult {
    let missing = || {
        PACKAGES
            .iter()
            .filter(|(file, _)| !PathBuf::from(file).exists())
    };
    let packages: Vec<&str> = missing().map(|(_, package)| *package).collect();
    if packages.is_empty() {
        println!("clickhouse: servers for replicas are here");
        return Ok(());
    }
    let packages = packages.join(" ");
    if !test_requirements::is_root() || find_program("apt-get").is_none() {
        return Err(format!(
            "the test of replicas needs Debian's servers; install them: apt-get install {packages}"
        ));
    }
    let mut apt = Command::new("apt-get");
    // No service is started: the tests start their own processes.
    apt.env("RUNLEVEL", "1")
        .env("DEBIAN_FRONTEND", "noninteractive");
    apt.args(["--quiet", "--yes", "--no-install-recommends", "install"]);
    show_and_run(apt.args(packages.split(' ')))?;
    match missing().next() {
        Some((file, _)) => Err(format!("apt-get ran, and still there is no {file}")),
        None => Ok(()),
    }
}
