//! The web page: built into `web/dist/page`, checked by its own tools, and tested in a browser,
//! both with a fixture agent and in the program itself.
//!
//! - [`fixture_agent`]: an agent with an archive of fixtures
//! - [`api_fuzzing`]: an API fuzzer

pub mod api_fuzzing;
pub mod fixture_agent;

use crate::program_runner::{self, show_and_run};
use crate::{TaskResult, checkout, test_requirements};
use fixture_agent::FixtureAgent;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

/// The built page, which is committed and embedded by the next build of the program.
const BUILT_PAGE: &str = "web/dist/page";

/// Builds the page.
pub fn build_page() -> TaskResult {
    install_npm_packages()?;
    show_and_run(npm_command().args(["run", "build"]))
}

/// Builds the page and fails if the result differs from the committed one.
pub fn compare_page() -> TaskResult {
    build_page()?;
    let mut status = Command::new("git");
    status.current_dir(checkout::find_root());
    status.args(["status", "--porcelain", "--", BUILT_PAGE]);
    let changed = program_runner::capture_stdout(&mut status, Duration::from_secs(60))?;
    if changed.is_empty() {
        return Ok(());
    }
    Err(format!(
        "{BUILT_PAGE} is not what web/src builds; commit the result of `make page`:\n{changed}"
    ))
}

/// Compares the page with the committed one and runs all its checks.
pub fn check_page() -> TaskResult {
    compare_page()?;
    check_built_page()
}

/// Checks types, markup, units, the generated types, and every page of the last build in a browser.
pub fn check_built_page() -> TaskResult {
    for script in ["types:check", "check", "test"] {
        show_and_run(npm_command().args(["run", script]))?;
    }
    show_and_run(npm_command().args(["run", "e2e:built"]).env("CHROMIUM", find_browser()?))
}

/// Tests the page embedded in the program, with the program's API, at two widths.
pub fn test_embedded_page() -> TaskResult {
    let program = program_runner::build_longhaul_for_tests()?;
    let standing = FixtureAgent::new(&program)?;
    let shots = program_runner::target_folder()?.join("page-in-program");
    show_and_run(
        npm_command()
            .args(["run", "e2e:program"])
            .env("CHROMIUM", find_browser()?)
            .env("LONGHAUL_AGENT", standing.address())
            .env("LONGHAUL_SHOTS", &shots),
    )?;
    println!("page: screenshots are in {}", shots.display());
    Ok(())
}

/// Measures the time to draw, move and zoom a path with a million values in the program.
pub fn time_large_path() -> TaskResult {
    let program = program_runner::build_longhaul_for_tests()?;
    let standing = FixtureAgent::with_many(&program)?;
    show_and_run(
        npm_command()
            .args(["run", "e2e:many"])
            .env("CHROMIUM", find_browser()?)
            .env("LONGHAUL_AGENT", standing.address()),
    )
}

/// Installs exactly the versions of the lock file.
fn install_npm_packages() -> TaskResult {
    test_requirements::ensure_node()?;
    show_and_run(npm_command().args(["ci", "--no-audit", "--no-fund"]))
}

fn npm_command() -> Command {
    let mut npm = Command::new("npm");
    npm.current_dir(checkout::find_root().join("web"));
    npm
}

/// Returns `CHROMIUM`, or the path at which packages install it.
fn find_browser() -> Result<PathBuf, String> {
    if let Some(named) = std::env::var_os("CHROMIUM") {
        return Ok(PathBuf::from(named));
    }
    let found = ["chromium", "chromium-browser", "google-chrome"]
        .into_iter()
        .find_map(program_runner::find_program);
    let found = found.ok_or(
        "no browser for the tests of the page: apt-get install chromium, or set CHROMIUM=FILE",
    )?;
    let mut version = Command::new(&found);
    version.arg("--version");
    println!(
        "page: {}",
        program_runner::capture_stdout(&mut version, Duration::from_secs(60))?.trim()
    );
    Ok(found)
}
