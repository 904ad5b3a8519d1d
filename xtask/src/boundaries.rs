//! Checks the dependencies between crates, as read from `cargo metadata`.
//!
//! A crate exists because of what it must not know (ARCHITECTURE.md, code map). This check compares
//! the manifests with boundaries.toml. The compiler does the rest: a crate cannot use what is not in
//! its manifest.

use crate::{TaskResult, program_runner};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// The contents of boundaries.toml.
#[derive(Deserialize)]
struct BoundaryFile {
    crates: BTreeMap<String, AllowedDependencies>,
    restricted: BTreeMap<String, Vec<String>>,
}

#[derive(Deserialize)]
struct AllowedDependencies {
    workspace: BTreeSet<String>,
    others: Option<BTreeSet<String>>,
}

/// Members that are not shipped; they may know everything, and no shipped crate may know them.
const NOT_SHIPPED: &[&str] = &["xtask", "longhaul-bench", "longhaul-accuracy"];
/// Async runtimes, which no crate below the agent may link at any depth.
const ASYNC_RUNTIMES: &[&str] = &["tokio", "async-std", "smol"];
/// The crates that may link one: the agent, the program with it, and two that stand on libraries which
/// exist only with async: a driver (docs/decisions/0019) and HTTP/2 (docs/decisions/0109).
const ASYNC_CRATES: &[&str] =
    &["longhaul", "longhaul-agent", "longhaul-clickhouse", "longhaul-rpm"];
/// A target without clock, disk and network: code that runs there uses none of them.
const HOSTLESS_TARGET: &str = "wasm32-unknown-unknown";
const HOSTLESS_CHECK: &str = "check --target wasm32-unknown-unknown --package longhaul-model \
                              --package longhaul-analysis --package longhaul-history";
const LIMIT: Duration = Duration::from_secs(60);

#[derive(Deserialize)]
struct CargoMetadata {
    packages: Vec<CargoPackage>,
}

#[derive(Deserialize)]
struct CargoPackage {
    name: String,
    dependencies: Vec<CargoDependency>,
}

#[derive(Deserialize)]
struct CargoDependency {
    name: String,
    /// Absent for `[dependencies]`.
    kind: Option<String>,
}

/// Returns a sentence for every manifest entry that the table forbids.
pub fn find_breaches() -> Result<Vec<String>, String> {
    let metadata = program_runner::read_cargo_metadata(&["--no-deps", "--locked"])?;
    let metadata = CargoMetadata::deserialize(metadata).map_err(|e| e.to_string())?;
    let rules: BoundaryFile = toml::from_str(include_str!("boundaries.toml"))
        .map_err(|e| format!("xtask/src/boundaries.toml: {e}"))?;
    let mut found = Vec::new();
    for package in metadata.packages {
        let name = package.name.as_str();
        if NOT_SHIPPED.contains(&name) {
            continue;
        }
        let Some(allowed) = rules.crates.get(name) else {
            found.push(format!(
                "{name}: a new crate; say in xtask/src/boundaries.toml and ARCHITECTURE.md what it \
                 may know"
            ));
            continue;
        };
        for dependency in package.dependencies.iter().filter(|it| it.kind.is_none()) {
            found.extend(check_dependency(&rules, name, allowed, &dependency.name));
        }
        if !ASYNC_CRATES.contains(&name) {
            found.extend(find_async_runtimes(name)?);
        }
    }
    Ok(found)
}

fn check_dependency(
    rules: &BoundaryFile,
    name: &str,
    allowed: &AllowedDependencies,
    dependency: &str,
) -> Option<String> {
    let is_allowed = if dependency.starts_with("longhaul") {
        allowed.workspace.contains(dependency)
    } else {
        allowed.others.as_ref().is_none_or(|others| others.contains(dependency))
    };
    if !is_allowed {
        return Some(format!("{name}: must not know {dependency}"));
    }
    let keepers = rules.restricted.get(dependency)?;
    (!keepers.iter().any(|keeper| keeper == name))
        .then(|| format!("{name}: {dependency} is known to {} only", keepers.join(", ")))
}

fn find_async_runtimes(name: &str) -> Result<Vec<String>, String> {
    let mut tree = program_runner::cargo_command();
    let words = "tree --locked --edges normal --prefix none --format {p} --package";
    let linked = program_runner::capture_stdout(tree.args(words.split(' ')).arg(name), LIMIT)?;
    let packages: Vec<&str> = linked.lines().filter_map(|line| line.split(' ').next()).collect();
    let runtimes = ASYNC_RUNTIMES.iter().filter(|runtime| packages.contains(runtime));
    let text = "threads below the agent, async only in it";
    Ok(runtimes.map(|runtime| format!("{name}: links {runtime}; {text}")).collect())
}

/// Checks the manifests, and builds the pure crates for a target without a host if that target is
/// installed.
pub fn run() -> TaskResult {
    let found = find_breaches()?;
    for breach in &found {
        println!("{breach}");
    }
    if !found.is_empty() {
        return Err(format!("{} boundaries between crates are crossed (see above)", found.len()));
    }
    println!("boundaries: every crate depends only on what it may know");
    if !is_target_installed(HOSTLESS_TARGET) {
        println!(
            "boundaries: {HOSTLESS_TARGET} is not installed, so the manifests alone were checked \
             (docs/decisions/0007)"
        );
        return Ok(());
    }
    program_runner::show_and_run(program_runner::cargo_command().args(HOSTLESS_CHECK.split(' ')))
}

fn is_target_installed(target: &str) -> bool {
    let mut rustc = std::process::Command::new("rustc");
    rustc.args(["--print", "target-libdir", "--target", target]);
    let folder = program_runner::capture_stdout(&mut rustc, LIMIT);
    folder.is_ok_and(|folder| std::path::Path::new(folder.trim()).is_dir())
}
