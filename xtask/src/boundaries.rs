//! Checks the dependencies between crates, as read from `cargo metadata`.
//!
//! A crate exists because of what it must not know (ARCHITECTURE.md, code map). This check compares
//! the manifests with the table below. The compiler does the rest: a crate cannot use what is not
//! in its manifest.

use crate::{Outcome, process};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// The allowed `[dependencies]` of a crate: workspace crates, and others.
struct Allowed {
    name: &'static str,
    house: &'static [&'static str],
    /// `None` allows any that no rule below restricts.
    others: Option<&'static [&'static str]>,
}

const ALLOWED: &[Allowed] = &[
    Allowed {
        name: "longhaul-model",
        house: &[],
        others: Some(&["serde"]),
    },
    Allowed {
        name: "longhaul-analysis",
        house: &["longhaul-model"],
        others: Some(&[]),
    },
    Allowed {
        name: "longhaul-import",
        house: &["longhaul-model"],
        others: Some(&["serde_json", "toml", "jiff", "quick-xml"]),
    },
    Allowed {
        name: "longhaul-sys",
        house: &["longhaul-model"],
        others: None,
    },
    Allowed {
        name: "longhaul-store",
        house: &["longhaul-model"],
        others: None,
    },
    Allowed {
        name: "longhaul-clickhouse",
        house: &["longhaul-model", "longhaul-store"],
        others: Some(&["serde", "serde_json", "thiserror", "clickhouse", "tokio"]),
    },
    Allowed {
        name: "longhaul-probe",
        house: &["longhaul-model", "longhaul-analysis", "longhaul-sys"],
        others: None,
    },
    Allowed {
        name: "longhaul-lab",
        house: &["longhaul-model", "longhaul-sys"],
        others: None,
    },
    Allowed {
        name: "longhaul",
        house: &[
            "longhaul-model",
            "longhaul-analysis",
            "longhaul-import",
            "longhaul-probe",
            "longhaul-lab",
            "longhaul-store",
            "longhaul-clickhouse",
        ],
        others: None,
    },
];

/// Packages that only these crates may have in their manifests.
const KEPT: &[(&str, &[&str])] = &[
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
const RUNTIMES: &[&str] = &["tokio", "async-std", "smol"];

/// The crates that may link one: the program, and a driver that exists only with async
/// (docs/decisions/0019).
const ASYNC: &[&str] = &["longhaul", "longhaul-clickhouse"];

/// The workspace's manifests and their resolved dependencies.
struct Metadata {
    /// Workspace crates: name to the names in `[dependencies]`.
    direct: BTreeMap<String, BTreeSet<String>>,
    /// Package id to package name.
    names: BTreeMap<String, String>,
    /// Package id to the ids that it links, without build and test dependencies.
    links: BTreeMap<String, Vec<String>>,
}

/// Returns a sentence for every manifest entry that the table forbids.
pub fn breaches() -> Result<Vec<String>, String> {
    let metadata = read()?;
    let mut found = Vec::new();
    for (name, direct) in &metadata.direct {
        found.extend(beyond_allowed(name, direct));
        found.extend(not_kept(name, direct));
        if !ASYNC.contains(&name.as_str()) {
            found.extend(runtimes_below(name, &metadata));
        }
    }
    Ok(found)
}

fn beyond_allowed(name: &str, direct: &BTreeSet<String>) -> Vec<String> {
    let Some(allowed) = ALLOWED.iter().find(|allowed| allowed.name == name) else {
        if name == "xtask" {
            return vec![];
        }
        return vec![format!(
            "{name}: a new crate; say in xtask/src/boundaries.rs and ARCHITECTURE.md what it may know"
        )];
    };
    let forbidden = direct.iter().filter(|dependency| {
        if dependency.starts_with("longhaul") {
            return !allowed.house.contains(&dependency.as_str());
        }
        allowed
            .others
            .is_some_and(|others| !others.contains(&dependency.as_str()))
    });
    forbidden
        .map(|dependency| format!("{name}: must not know {dependency}"))
        .collect()
}

fn not_kept(name: &str, direct: &BTreeSet<String>) -> Vec<String> {
    KEPT.iter()
        .filter(|(package, keepers)| direct.contains(*package) && !keepers.contains(&name))
        .filter(|_| name != "xtask")
        .map(|(package, keepers)| {
            format!("{name}: {package} is known to {} only", keepers.join(", "))
        })
        .collect()
}

fn runtimes_below(name: &str, metadata: &Metadata) -> Vec<String> {
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
    RUNTIMES
        .iter()
        .filter(|runtime| linked.contains(*runtime))
        .map(|runtime| {
            format!("{name}: links {runtime}; threads below the program, async only in it")
        })
        .collect()
}

fn read() -> Result<Metadata, String> {
    let json = process::metadata(&["--locked"])?;
    Ok(Metadata {
        direct: direct(&json),
        names: names(&json),
        links: links(&json),
    })
}

fn names(json: &Value) -> BTreeMap<String, String> {
    let packages = json["packages"].as_array().into_iter().flatten();
    packages
        .filter_map(|package| Some((text(&package["id"])?, text(&package["name"])?)))
        .collect()
}

fn direct(json: &Value) -> BTreeMap<String, BTreeSet<String>> {
    let members: BTreeSet<String> = json["workspace_members"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(text)
        .collect();
    let packages = json["packages"].as_array().into_iter().flatten();
    packages
        .filter(|package| text(&package["id"]).is_some_and(|id| members.contains(&id)))
        .filter_map(|package| {
            let entries = package["dependencies"].as_array().into_iter().flatten();
            let linked = entries.filter(|entry| entry["kind"].is_null());
            Some((
                text(&package["name"])?,
                linked.filter_map(|entry| text(&entry["name"])).collect(),
            ))
        })
        .collect()
}

fn links(json: &Value) -> BTreeMap<String, Vec<String>> {
    let nodes = json["resolve"]["nodes"].as_array().into_iter().flatten();
    nodes
        .filter_map(|node| {
            let all = node["deps"].as_array().into_iter().flatten();
            let linked = all.filter(|dep| {
                let kinds = dep["dep_kinds"].as_array();
                kinds.is_none_or(|kinds| kinds.iter().any(|kind| kind["kind"].is_null()))
            });
            Some((
                text(&node["id"])?,
                linked.filter_map(|dep| text(&dep["pkg"])).collect(),
            ))
        })
        .collect()
}

fn text(value: &Value) -> Option<String> {
    value.as_str().map(str::to_owned)
}

/// Checks the manifests, and builds the pure crates for a target without a host if that target is
/// installed.
pub fn run() -> Outcome {
    let found = breaches()?;
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
    without_a_host()
}

/// A target without clock, disk and network: code that runs there uses none of them.
const HOSTLESS: &str = "wasm32-unknown-unknown";

fn without_a_host() -> Outcome {
    if !is_installed(HOSTLESS) {
        println!(
            "boundaries: {HOSTLESS} is not installed, so the manifests alone were checked (docs/decisions/0007)"
        );
        return Ok(());
    }
    let packages = [
        "--package",
        "longhaul-model",
        "--package",
        "longhaul-analysis",
    ];
    process::show_and_run(
        process::cargo()
            .args(["check", "--target", HOSTLESS])
            .args(packages),
    )
}

fn is_installed(target: &str) -> bool {
    let mut rustc = std::process::Command::new("rustc");
    rustc.args(["--print", "target-libdir", "--target", target]);
    let folder = process::stdout_of(&mut rustc, Duration::from_secs(30));
    folder.is_ok_and(|folder| std::path::Path::new(folder.trim()).is_dir())
}
