//! The web page: built into `web/dist/page`, checked by its own tools, and tested in a browser,
//! both with a fixture agent and in the program itself.
//!
//! - [`fixture_agent`]: an agent with an archive of fixtures

pub mod fixture_agent;

use crate::TaskResult;
use crate::checkout::{self, BUILT_PAGE};
use crate::program_runner::{self, run_script, show_and_run};
use fixture_agent::FixtureAgent;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

/// Builds the page.
pub fn build_page() -> TaskResult {
    run_script("requirements.sh", &["node"])?;
    // Exactly the versions of the lock file.
    show_and_run(npm_command().args(["ci", "--no-audit", "--no-fund"]))?;
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
    let agent = FixtureAgent::new(&program)?;
    show_and_run(
        npm_command()
            .args(["run", "e2e:program"])
            .env("CHROMIUM", find_browser()?)
            .env("LONGHAUL_AGENT", agent.address()),
    )
}

fn npm_command() -> Command {
    let mut npm = Command::new("npm");
    npm.current_dir(checkout::find_root().join("web"));
    npm
}

/// Returns `CHROMIUM`, or the browser that is installed.
fn find_browser() -> Result<PathBuf, String> {
    let named = std::env::var_os("CHROMIUM").map(PathBuf::from);
    let found = named.or_else(|| program_runner::find_program("chromium"));
    found.ok_or_else(|| {
        "no browser for the tests of the page: apt-get install chromium, or set CHROMIUM=FILE"
            .into()
    })
}

/// Pinned, so that a new version of the tool does not change CI results.
const TOOL: &str = "schemathesis>=4,<5";
/// The number of examples for each address and generation method; more belong elsewhere.
const EXAMPLES: &str = "25";
/// A fixed seed, so that the examples are always the same.
const SEED: &str = "280";

/// Fuzzes the agent's API.
pub fn run() -> TaskResult {
    let program = program_runner::build_longhaul_for_tests()?;
    let mut agent = FixtureAgent::new(&program)?;
    let outcome = show_and_run(
        Command::new(ensure_schemathesis()?)
            // The tool creates a folder in its working directory.
            .current_dir(program_runner::target_folder()?)
            .arg("run")
            .arg(format!("{}/api/v1/openapi.json", agent.address()))
            // The news stream never ends, so it has its own tests.
            .args(["--exclude-path", "/api/v1/live"])
            // A range that ends before it begins is refused; a schema cannot express that.
            .args(["--exclude-checks", "positive_data_acceptance"])
            .args(["--phases", "examples,coverage,fuzzing"])
            .args(["--max-examples", EXAMPLES])
            .args(["--seed", SEED, "--generation-deterministic"])
            .args(["--request-timeout", "30", "--no-color"]),
    );
    if !agent.is_well() {
        return Err(format!("the agent did not outlive it: {}", agent.log()));
    }
    outcome
}

/// Returns `SCHEMATHESIS`, or a copy in the target folder, installed if necessary.
fn ensure_schemathesis() -> Result<PathBuf, String> {
    if let Some(named) = std::env::var_os("SCHEMATHESIS") {
        return Ok(PathBuf::from(named));
    }
    let folder = program_runner::install_python_package("schemathesis", TOOL)?;
    Ok(folder.join("bin/schemathesis"))
}
