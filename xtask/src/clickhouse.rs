//! ClickHouse for tests and benches: the current engine, embedded in a Python package, and two
//! servers of 2018 with ZooKeeper from Debian's packages.

use crate::{TaskResult, program_runner, test_requirements};
use std::path::{Path, PathBuf};
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
    test_requirements::ensure_packages(PACKAGES, |file| Path::new(file).exists())?;
    println!("clickhouse: servers for replicas are here");
    Ok(())
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
    test_requirements::install_python_package(&folder, ENGINE)
}

fn has_engine(python: &PathBuf) -> bool {
    let mut import = Command::new(python);
    import.args(["-c", "from chdb import session"]);
    program_runner::capture_stdout(&mut import, Duration::from_secs(180)).is_ok()
}
