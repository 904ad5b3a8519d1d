//! Checks the dependencies between crates, as read from `cargo metadata`.
//!
//! A crate exists because of what it must not know (ARCHITECTURE.md, code map). This check compares
//! the manifests with the table below. The compiler does the rest: a crate cannot use what is not
//! in its manifest.

use crate::{TaskResult, program_runner};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// The allowed `[dependencies]` of a crate: workspace crates, and others.
struct AllowedDependencies {
    name: &'static str,
    workspace: &'static [&'static str],
    /// `None` allows any that no rule below restricts.
    others: Option<&'static [&'static str]>,
}

/// The shipped crates.
const ALLOWED_DEPENDENCIES: &[AllowedDependencies] = &[
    allow("longhaul-model", &[], Some(&["serde", "utoipa"])),
    allow("longhaul-analysis", &["longhaul-model"], Some(&["jiff"])),
    allow("longhaul-history", &["longhaul-model", "longhaul-analysis"], Some(&["jiff"])),
    allow("longhaul-import", &["longhaul-model"], Some(&["serde_json", "jiff", "quick-xml"])),
    allow(
        "longhaul-record",
        &["longhaul-model", "longhaul-analysis"],
        Some(&["serde", "serde_json", "toml", "geographiclib-rs", "ring", "pem", "data-encoding"]),
    ),
    allow(
        "longhaul-report",
        &[
            "longhaul-model",
            "longhaul-analysis",
            "longhaul-history",
            "longhaul-import",
            "longhaul-record",
        ],
        Some(&[
            "serde_json",
            "thiserror",
            "anstyle",
            "jiff",
            "plotters",
            "epaint_default_fonts",
            "png",
        ]),
    ),
    allow(
        "longhaul-config",
        &["longhaul-model"],
        Some(&["serde", "serde_path_to_error", "toml", "strsim"]),
    ),
    allow("longhaul-sys", &["longhaul-model"], None),
    allow("longhaul-store", &["longhaul-model"], None),
    allow(
        "longhaul-clickhouse",
        &["longhaul-model", "longhaul-store"],
        Some(&["serde", "serde_json", "thiserror", "clickhouse", "tokio"]),
    ),
    allow("longhaul-capture", &["longhaul-model", "longhaul-sys"], None),
    allow(
        "longhaul-probe",
        &["longhaul-model", "longhaul-analysis", "longhaul-capture", "longhaul-sys"],
        None,
    ),
    allow("longhaul-copy", &["longhaul-model", "longhaul-sys", "longhaul-probe"], None),
    allow(
        "longhaul-iperf3",
        &[
            "longhaul-model",
            "longhaul-analysis",
            "longhaul-capture",
            "longhaul-sys",
            "longhaul-probe",
        ],
        None,
    ),
    allow(
        "longhaul-agent",
        &[
            "longhaul-model",
            "longhaul-analysis",
            "longhaul-history",
            "longhaul-report",
            "longhaul-config",
            "longhaul-probe",
            "longhaul-store",
            "longhaul-clickhouse",
        ],
        None,
    ),
    allow("longhaul-lab", &["longhaul-model", "longhaul-config", "longhaul-sys"], None),
    allow(
        "longhaul",
        &[
            "longhaul-model",
            "longhaul-analysis",
            "longhaul-history",
            "longhaul-import",
            "longhaul-capture",
            "longhaul-record",
            "longhaul-report",
            "longhaul-agent",
            "longhaul-config",
            "longhaul-probe",
            "longhaul-copy",
            "longhaul-iperf3",
            "longhaul-lab",
            "longhaul-store",
            "longhaul-clickhouse",
        ],
        None,
    ),
];

const fn allow(
    name: &'static str,
    workspace: &'static [&'static str],
    others: Option<&'static [&'static str]>,
) -> AllowedDependencies {
    AllowedDependencies { name, workspace, others }
}

/// Members that are not shipped; they may know everything, and no shipped crate may know them.
const NOT_SHIPPED: &[&str] = &["xtask", "longhaul-bench", "longhaul-accuracy"];

/// Packages that only these crates may have in their manifests.
const RESTRICTED_PACKAGES: &[(&str, &[&str])] = &[
    ("libc", &["longhaul-sys"]),
    ("socket2", &["longhaul-sys"]),
    ("nix", &["longhaul-sys"]),
    ("rustix", &["longhaul-sys"]),
    ("rusqlite", &["longhaul-store"]),
    ("libsqlite3-sys", &["longhaul-store"]),
    ("clap", &["longhaul"]),
    ("clickhouse", &["longhaul-clickhouse"]),
    ("tokio", &["longhaul-agent", "longhaul-clickhouse"]),
    ("async-std", &["longhaul-agent"]),
    ("smol", &["longhaul-agent"]),
    ("futures", &["longhaul-agent"]),
];

const LIMIT: Duration = Duration::from_secs(60);

/// Async runtimes, which no crate below the agent may link at any depth.
const ASYNC_RUNTIMES: &[&str] = &["tokio", "async-std", "smol"];

/// The crates that may link one: the agent, the program with it, and a driver that exists only with
/// async (docs/decisions/0019).
const ASYNC_CRATES: &[&str] = &["longhaul", "longhaul-agent", "longhaul-clickhouse"];

/// Returns a sentence for every manifest entry that the table forbids.
pub fn find_breaches() -> Result<Vec<String>, String> {
    let metadata = program_runner::read_cargo_metadata(&["--no-deps", "--locked"])?;
    let mut found = Vec::new();
    for (name, direct) in &parse_direct_dependencies(&metadata) {
        if NOT_SHIPPED.contains(&name.as_str()) {
            continue;
        }
        found.extend(find_disallowed_dependencies(name, direct));
        found.extend(find_restricted_packages(name, direct));
        if !ASYNC_CRATES.contains(&name.as_str()) {
            found.extend(find_async_runtimes(name)?);
        }
    }
    Ok(found)
}

fn find_disallowed_dependencies(name: &str, direct: &BTreeSet<String>) -> Vec<String> {
    let Some(allowed) = ALLOWED_DEPENDENCIES.iter().find(|allowed| allowed.name == name) else {
        return vec![format!(
            "{name}: a new crate; say in xtask/src/boundaries.rs and ARCHITECTURE.md what it may know"
        )];
    };
    let forbidden = direct.iter().filter(|dependency| {
        if dependency.starts_with("longhaul") {
            return !allowed.workspace.contains(&dependency.as_str());
        }
        allowed.others.is_some_and(|others| !others.contains(&dependency.as_str()))
    });
    forbidden.map(|dependency| format!("{name}: must not know {dependency}")).collect()
}

fn find_restricted_packages(name: &str, direct: &BTreeSet<String>) -> Vec<String> {
    RESTRICTED_PACKAGES
        .iter()
        .filter(|(package, keepers)| direct.contains(*package) && !keepers.contains(&name))
        .map(|(package, keepers)| {
            format!("{name}: {package} is known to {} only", keepers.join(", "))
        })
        .collect()
}

fn find_async_runtimes(name: &str) -> Result<Vec<String>, String> {
    let mut tree = program_runner::cargo_command();
    let words = "tree --locked --edges normal --prefix none --format {p} --package";
    tree.args(words.split(' ')).arg(name);
    let linked = program_runner::capture_stdout(&mut tree, LIMIT)?;
    let is_linked = |runtime: &&&str| {
        let package = linked.lines().filter_map(|line| line.split(' ').next());
        package.into_iter().any(|package| package == **runtime)
    };
    let runtimes = ASYNC_RUNTIMES.iter().filter(is_linked);
    let text = "threads below the agent, async only in it";
    Ok(runtimes.map(|runtime| format!("{name}: links {runtime}; {text}")).collect())
}

/// Returns the workspace crates: name to the names in `[dependencies]`.
fn parse_direct_dependencies(metadata: &Value) -> BTreeMap<String, BTreeSet<String>> {
    let packages = metadata["packages"].as_array().into_iter().flatten();
    packages
        .filter_map(|package| {
            let entries = package["dependencies"].as_array().into_iter().flatten();
            let linked = entries.filter(|entry| entry["kind"].is_null());
            let names = linked.filter_map(|entry| json_text(&entry["name"]));
            Some((json_text(&package["name"])?, names.collect()))
        })
        .collect()
}

fn json_text(value: &Value) -> Option<String> {
    value.as_str().map(str::to_owned)
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
    build_hostless_crates()
}

/// A target without clock, disk and network: code that runs there uses none of them.
const HOSTLESS_TARGET: &str = "wasm32-unknown-unknown";

fn build_hostless_crates() -> TaskResult {
    if !is_target_installed(HOSTLESS_TARGET) {
        println!(
            "boundaries: {HOSTLESS_TARGET} is not installed, so the manifests alone were checked (docs/decisions/0007)"
        );
        return Ok(());
    }
    let packages = [
        "--package",
        "longhaul-model",
        "--package",
        "longhaul-analysis",
        "--package",
        "longhaul-history",
    ];
    program_runner::show_and_run(
        program_runner::cargo_command().args(["check", "--target", HOSTLESS_TARGET]).args(packages),
    )
}

fn is_target_installed(target: &str) -> bool {
    let mut rustc = std::process::Command::new("rustc");
    rustc.args(["--print", "target-libdir", "--target", target]);
    let folder = program_runner::capture_stdout(&mut rustc, Duration::from_secs(30));
    folder.is_ok_and(|folder| std::path::Path::new(folder.trim()).is_dir())
}
