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

const ALLOWED_DEPENDENCIES: &[AllowedDependencies] = &[
    AllowedDependencies {
        name: "longhaul-model",
        workspace: &[],
        others: Some(&["serde"]),
    },
    AllowedDependencies {
        name: "longhaul-analysis",
        workspace: &["longhaul-model"],
        others: Some(&[]),
    },
    AllowedDependencies {
        name: "longhaul-history",
        workspace: &["longhaul-model", "longhaul-analysis"],
        others: Some(&[]),
    },
    AllowedDependencies {
        name: "longhaul-import",
        workspace: &["longhaul-model"],
        others: Some(&["serde_json", "jiff", "quick-xml"]),
    },
    AllowedDependencies {
        name: "longhaul-record",
        workspace: &["longhaul-model", "longhaul-analysis"],
        others: Some(&[
            "serde",
            "serde_json",
            "toml",
            "geographiclib-rs",
            "ring",
            "pem",
            "data-encoding",
        ]),
    },
    AllowedDependencies {
        name: "longhaul-config",
        workspace: &["longhaul-model"],
        others: Some(&["serde", "serde_path_to_error", "toml", "strsim"]),
    },
    AllowedDependencies {
        name: "longhaul-sys",
        workspace: &["longhaul-model"],
        others: None,
    },
    AllowedDependencies {
        name: "longhaul-store",
        workspace: &["longhaul-model"],
        others: None,
    },
    AllowedDependencies {
        name: "longhaul-clickhouse",
        workspace: &["longhaul-model", "longhaul-store"],
        others: Some(&["serde", "serde_json", "thiserror", "clickhouse", "tokio"]),
    },
    AllowedDependencies {
        name: "longhaul-capture",
        workspace: &["longhaul-model", "longhaul-sys"],
        others: None,
    },
    AllowedDependencies {
        name: "longhaul-probe",
        workspace: &[
            "longhaul-model",
            "longhaul-analysis",
            "longhaul-capture",
            "longhaul-sys",
        ],
        others: None,
    },
    AllowedDependencies {
        name: "longhaul-copy",
        workspace: &["longhaul-model", "longhaul-sys", "longhaul-probe"],
        others: None,
    },
    AllowedDependencies {
        name: "longhaul-iperf3",
        workspace: &[
            "longhaul-model",
            "longhaul-analysis",
            "longhaul-capture",
            "longhaul-sys",
            "longhaul-probe",
        ],
        others: None,
    },
    AllowedDependencies {
        name: "longhaul-lab",
        workspace: &["longhaul-model", "longhaul-sys"],
        others: None,
    },
    AllowedDependencies {
        name: "longhaul",
        workspace: &[
            "longhaul-model",
            "longhaul-analysis",
            "longhaul-history",
            "longhaul-import",
            "longhaul-capture",
            "longhaul-record",
            "longhaul-config",
            "longhaul-probe",
            "longhaul-copy",
            "longhaul-iperf3",
            "longhaul-lab",
            "longhaul-store",
            "longhaul-clickhouse",
        ],
        others: None,
    },
];

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
    ("tokio", &["longhaul", "longhaul-clickhouse"]),
    ("async-std", &["longhaul"]),
    ("smol", &["longhaul"]),
    ("futures", &["longhaul"]),
];

/// Async runtimes, which no crate below the program may link at any depth.
const ASYNC_RUNTIMES: &[&str] = &["tokio", "async-std", "smol"];

/// The crates that may link one: the program, and a driver that exists only with async
/// (docs/decisions/0019).
const ASYNC_CRATES: &[&str] = &["longhaul", "longhaul-clickhouse"];

/// The workspace's manifests and their resolved dependencies.
struct WorkspaceMetadata {
    /// Workspace crates: name to the names in `[dependencies]`.
    direct: BTreeMap<String, BTreeSet<String>>,
    /// Package id to package name.
    names: BTreeMap<String, String>,
    /// Package id to the ids that it links, without build and test dependencies.
    links: BTreeMap<String, Vec<String>>,
}

/// Returns a sentence for every manifest entry that the table forbids.
pub fn find_breaches() -> Result<Vec<String>, String> {
    let metadata = read_metadata()?;
    let mut found = Vec::new();
    for (name, direct) in &metadata.direct {
        found.extend(find_disallowed_dependencies(name, direct));
        found.extend(find_restricted_packages(name, direct));
        if !ASYNC_CRATES.contains(&name.as_str()) {
            found.extend(find_async_runtimes(name, &metadata));
        }
    }
    Ok(found)
}

fn find_disallowed_dependencies(name: &str, direct: &BTreeSet<String>) -> Vec<String> {
    let Some(allowed) = ALLOWED_DEPENDENCIES
        .iter()
        .find(|allowed| allowed.name == name)
    else {
        if NOT_SHIPPED.contains(&name) {
            return vec![];
        }
        return vec![format!(
            "{name}: a new crate; say in xtask/src/boundaries.rs and ARCHITECTURE.md what it may know"
        )];
    };
    let forbidden = direct.iter().filter(|dependency| {
        if dependency.starts_with("longhaul") {
            return !allowed.workspace.contains(&dependency.as_str());
        }
        allowed
            .others
            .is_some_and(|others| !others.contains(&dependency.as_str()))
    });
    forbidden
        .map(|dependency| format!("{name}: must not know {dependency}"))
        .collect()
}

fn find_restricted_packages(name: &str, direct: &BTreeSet<String>) -> Vec<String> {
    RESTRICTED_PACKAGES
        .iter()
        .filter(|(package, keepers)| direct.contains(*package) && !keepers.contains(&name))
        .filter(|_| !NOT_SHIPPED.contains(&name))
        .map(|(package, keepers)| {
            format!("{name}: {package} is known to {} only", keepers.join(", "))
        })
        .collect()
}

fn find_async_runtimes(name: &str, metadata: &WorkspaceMetadata) -> Vec<String> {
    let start = metadata
        .names
        .iter()
        .find(|(_, package)| *package == name)
        .map(|(id, _)| id);
    let mut seen: BTreeSet<&String> = BTreeSet::new();
    let mut ahead: Vec<&String> = start.into_iter().collect();
    while let Some(id) = ahead.pop() {
        if seen.insert(id) {
            ahead.extend(metadata.links.get(id).into_iter().flatten());
        }
    }
    let linked: BTreeSet<&str> = seen
        .iter()
        .filter_map(|id| metadata.names.get(*id))
        .map(String::as_str)
        .collect();
    ASYNC_RUNTIMES
        .iter()
        .filter(|runtime| linked.contains(*runtime))
        .map(|runtime| {
            format!("{name}: links {runtime}; threads below the program, async only in it")
        })
        .collect()
}

fn read_metadata() -> Result<WorkspaceMetadata, String> {
    let json = program_runner::read_cargo_metadata(&["--locked"])?;
    Ok(WorkspaceMetadata {
        direct: parse_direct_dependencies(&json),
        names: parse_package_names(&json),
        links: parse_links(&json),
    })
}

fn parse_package_names(json: &Value) -> BTreeMap<String, String> {
    let packages = json["packages"].as_array().into_iter().flatten();
    packages
        .filter_map(|package| Some((json_text(&package["id"])?, json_text(&package["name"])?)))
        .collect()
}

fn parse_direct_dependencies(json: &Value) -> BTreeMap<String, BTreeSet<String>> {
    let members: BTreeSet<String> = json["workspace_members"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(json_text)
        .collect();
    let packages = json["packages"].as_array().into_iter().flatten();
    packages
        .filter(|package| json_text(&package["id"]).is_some_and(|id| members.contains(&id)))
        .filter_map(|package| {
            let entries = package["dependencies"].as_array().into_iter().flatten();
            let linked = entries.filter(|entry| entry["kind"].is_null());
            Some((
                json_text(&package["name"])?,
                linked
                    .filter_map(|entry| json_text(&entry["name"]))
                    .collect(),
            ))
        })
        .collect()
}

fn parse_links(json: &Value) -> BTreeMap<String, Vec<String>> {
    let nodes = json["resolve"]["nodes"].as_array().into_iter().flatten();
    nodes
        .filter_map(|node| {
            let all = node["deps"].as_array().into_iter().flatten();
            let linked = all.filter(|dep| {
                let kinds = dep["dep_kinds"].as_array();
                kinds.is_none_or(|kinds| kinds.iter().any(|kind| kind["kind"].is_null()))
            });
            Some((
                json_text(&node["id"])?,
                linked.filter_map(|dep| json_text(&dep["pkg"])).collect(),
            ))
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
        return Err(format!(
            "{} boundaries between crates are crossed (see above)",
            found.len()
        ));
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
        program_runner::cargo_command()
            .args(["check", "--target", HOSTLESS_TARGET])
            .args(packages),
    )
}

fn is_target_installed(target: &str) -> bool {
    let mut rustc = std::process::Command::new("rustc");
    rustc.args(["--print", "target-libdir", "--target", target]);
    let folder = program_runner::capture_stdout(&mut rustc, Duration::from_secs(30));
    folder.is_ok_and(|folder| std::path::Path::new(folder.trim()).is_dir())
}
