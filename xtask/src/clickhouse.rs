//! ClickHouse for tests: the current engine, embedded in a Python package, and two servers of 2018
//! with ZooKeeper from Debian's packages.

use crate::{TaskResult, program_runner};
use std::path::PathBuf;

/// Pinned, so that a new engine does not change CI results.
const ENGINE: &str = "chdb>=4.4,<5";

/// Installs the servers, and the engine in the target folder, where the tests look for it; fails with
/// what is missing.
pub fn ensure_clickhouse() -> TaskResult {
    program_runner::run_script("requirements.sh", &["database"])?;
    ensure_engine().map(drop)
}

/// Installs the engine if it is missing, and returns the Python that has it.
pub fn ensure_engine() -> Result<PathBuf, String> {
    match std::env::var_os("LONGHAUL_CHDB_PYTHON") {
        Some(named) => Ok(PathBuf::from(named)),
        None => program_runner::install_python_package("tools/chdb", ENGINE)
            .map(|folder| folder.join("bin/python")),
    }
}
