//! Embeds the web page in the program: writes a table of the files below `web/dist/page`, which are
//! committed as built. Tells the compiler what `longhaul --version` prints: commit, target and a
//! digest of the page.

use std::fmt::Write;
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
    let page = root.join(PAGE);
    println!("cargo::rerun-if-changed={}", page.display());
    if !page.join("index.html").is_file() {
        let missing = "web/dist/page is missing; restore it with `git checkout web/dist/page`";
        return Err(io::Error::new(io::ErrorKind::NotFound, missing));
    }
    let mut files = Vec::new();
    collect(&page, &page, &mut files)?;
    files.sort();
    let out = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default());
    fs::write(out.join("page.rs"), table(&files))?;
    println!("cargo::rustc-env=LONGHAUL_PAGE={:016x}", digest(&files)?);
    println!("cargo::rustc-env=LONGHAUL_TARGET={}", env::var("TARGET").unwrap_or_default());
    println!("cargo::rustc-env=LONGHAUL_COMMIT={}", commit(&root)?);
    Ok(())
}

fn table(files: &[(String, PathBuf)]) -> String {
    let mut table = String::from("pub static FILES: &[EmbeddedFile] = &[\n");
    for (name, path) in files {
        let path = path.to_string_lossy();
        let _ = writeln!(
            table,
            "    EmbeddedFile {{ path: {name:?}, bytes: include_bytes!({path:?}) }},"
        );
    }
    table.push_str("];\n");
    table
}

fn collect(root: &Path, folder: &Path, into: &mut Vec<(String, PathBuf)>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            collect(root, &path, into)?;
        } else if let Ok(name) = path.strip_prefix(root) {
            into.push((name.to_string_lossy().replace('\\', "/"), path.clone()));
        }
    }
    Ok(())
}

/// Returns the 64-bit FNV-1a hash of all names and contents: it tells two pages apart.
fn digest(files: &[(String, PathBuf)]) -> io::Result<u64> {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for (name, path) in files {
        for byte in name.bytes().chain(fs::read(path)?) {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
    Ok(hash)
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
