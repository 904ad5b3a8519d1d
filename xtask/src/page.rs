//! The web page: built into `web/dist/page`, checked by its own tools, and tested in a browser,
//! both with a fixture agent and in the program itself.
//!
//! - [`standing`]: an agent with an archive of fixtures
//! - [`hostile`]: an API fuzzer

pub mod hostile;
pub mod standing;

use crate::process::{self, show_and_run};
use crate::{Outcome, needs, tree};
use standing::Standing;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

/// The built page, which is committed and embedded by the next build of the program.
const BUILT: &str = "web/dist/page";

/// Builds the page.
pub fn build() -> Outcome {
    install()?;
    show_and_run(npm().args(["run", "build"]))
}

/// Builds the page and fails if the result differs from the committed one.
pub fn compare() -> Outcome {
    build()?;
    let mut status = Command::new("git");
    status.current_dir(tree::root());
    status.args(["status", "--porcelain", "--", BUILT]);
    let changed = process::stdout_of(&mut status, Duration::from_secs(60))?;
    if changed.is_empty() {
        return Ok(());
    }
    Err(format!(
        "{BUILT} is not what web/src builds; commit the result of `make page`:\n{changed}"
    ))
}

/// Compares the page with the committed one and runs all its checks.
pub fn check() -> Outcome {
    compare()?;
    check_built()
}

/// Checks types, markup, units, the generated types, and every page of the last build in a browser.
pub fn check_built() -> Outcome {
    for script in ["types:check", "check", "test"] {
        show_and_run(npm().args(["run", script]))?;
    }
    show_and_run(npm().args(["run", "e2e:built"]).env("CHROMIUM", browser()?))
}

/// Tests the page embedded in the program, with the program's API, at two widths.
pub fn in_program() -> Outcome {
    let program = process::longhaul_for_tests()?;
    let standing = Standing::new(&program)?;
    let shots = process::target_folder()?.join("page-in-program");
    show_and_run(
        npm()
            .args(["run", "e2e:program"])
            .env("CHROMIUM", browser()?)
            .env("LONGHAUL_AGENT", standing.address())
            .env("LONGHAUL_SHOTS", &shots),
    )?;
    println!("page: screenshots are in {}", shots.display());
    Ok(())
}

/// Measures the time to draw, move and zoom a path with a million values in the program.
pub fn many() -> Outcome {
    let program = process::longhaul_for_tests()?;
    let standing = Standing::with_many(&program)?;
    show_and_run(
        npm()
            .args(["run", "e2e:many"])
            .env("CHROMIUM", browser()?)
            .env("LONGHAUL_AGENT", standing.address()),
    )
}

/// Installs exactly the versions of the lock file.
fn install() -> Outcome {
    needs::node()?;
    show_and_run(npm().args(["ci", "--no-audit", "--no-fund"]))
}

fn npm() -> Command {
    let mut npm = Command::new("npm");
    npm.current_dir(tree::root().join("web"));
    npm
}

/// Returns `CHROMIUM`, or the path at which packages install it.
fn browser() -> Result<PathBuf, String> {
    if let Some(named) = std::env::var_os("CHROMIUM") {
        return Ok(PathBuf::from(named));
    }
    let found = ["chromium", "chromium-browser", "google-chrome"]
        .into_iter()
        .find_map(process::find_program);
    let found = found.ok_or(
        "no browser for the tests of the page: apt-get install chromium, or set CHROMIUM=FILE",
    )?;
    let mut version = Command::new(&found);
    version.arg("--version");
    println!(
        "page: {}",
        process::stdout_of(&mut version, Duration::from_secs(60))?.trim()
    );
    Ok(found)
}
