//! Tells the compiler the commit and the target that `longhaul --version` prints.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs, io};

/// The built page, relative to the checkout.
const PAGE: &str = "web/dist/page";
/// Folders of a crate that do not reach the program.
const NOT_BUILT: [&str; 3] = ["tests", "benches", "examples"];

fn main() -> io::Result<()> {
    let here = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default());
    let root = here.join("../..");
    println!("cargo::rustc-env=LONGHAUL_TARGET={}", env::var("TARGET").unwrap_or_default());
    println!("cargo::rustc-env=LONGHAUL_COMMIT={}", commit(&root)?);
    Ok(())
}

/// Returns hash and date of the commit, from `LONGHAUL_COMMIT` or else from git. The hash ends in
/// `-dirty` if a file that reaches the program differs from that commit.
fn commit(root: &Path) -> io::Result<String> {
    println!("cargo::rerun-if-env-changed=LONGHAUL_COMMIT");
    if let Ok(given) = env::var("LONGHAUL_COMMIT") {
        return Ok(given);
    }
    // Without this check, git would answer for a repository around an unpacked archive.
    let format = ["log", "-1", "--abbrev=10", "--date=short-local", "--format=%h %cd"];
    let git_exists = root.join(".git").exists();
    let Some(named) = git_exists.then(|| git(root, &format)).flatten() else {
        return Ok("unknown".to_owned());
    };
    // The log of HEAD is written with each commit and checkout.
    let log = git(root, &["rev-parse", "--git-path", "logs/HEAD"]).map(|path| root.join(path));
    if let Some(log) = log.filter(|path| path.is_file()) {
        println!("cargo::rerun-if-changed={}", log.display());
    }
    let sources = sources(root)?;
    for source in &sources {
        println!("cargo::rerun-if-changed={}", root.join(source).display());
    }
    let mut status = vec!["--no-optional-locks", "status", "--porcelain", "--"];
    status.extend(sources.iter().map(String::as_str));
    let dirty = git(root, &status).is_some_and(|changes| !changes.is_empty());
    let (hash, date) = named.split_once(' ').unwrap_or((&named, ""));
    Ok(format!("{hash}{} {date}", if dirty { "-dirty" } else { "" }))
}

/// Returns everything that reaches the program, relative to the checkout.
fn sources(root: &Path) -> io::Result<Vec<String>> {
    let mut found = ["Cargo.toml", "Cargo.lock", PAGE].map(str::to_owned).to_vec();
    for member in fs::read_dir(root.join("crates"))? {
        for part in fs::read_dir(member?.path())? {
            let path = part?.path();
            let skipped = NOT_BUILT.iter().any(|name| path.ends_with(name));
            if let (false, Ok(path)) = (skipped, path.strip_prefix(root)) {
                found.push(path.to_string_lossy().into_owned());
            }
        }
    }
    found.sort();
    Ok(found)
}

/// Returns what git prints, without the last line break, if it succeeds.
fn git(root: &Path, arguments: &[&str]) -> Option<String> {
    let mut git = Command::new("git");
    let output = git.arg("-C").arg(root).args(arguments).env("TZ", "UTC0").output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim_end().to_owned())
}
