//! Puts the page into the program: a table of the files below `web/dist/page`, or, where the page
//! was not built, a text that says how to build it.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

/// In every checkout, so that cargo can watch it; the page is made in `page` below it.
const WATCHED: &str = "../../web/dist";
const ABSENT: &str = "src/api/no_page.html";

fn main() -> io::Result<()> {
    println!("cargo::rerun-if-changed={WATCHED}");
    println!("cargo::rerun-if-changed={ABSENT}");
    let here = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default());
    let page = here.join(WATCHED).join("page");
    let mut files = Vec::new();
    if page.join("index.html").is_file() {
        collect(&page, &page, &mut files)?;
    } else {
        files.push(("index.html".to_owned(), here.join(ABSENT)));
    }
    files.sort();
    let mut table = String::from("pub static FILES: &[File] = &[\n");
    for (name, path) in files {
        let path = path.to_string_lossy().into_owned();
        let _ = writeln!(
            table,
            "    File {{ path: {name:?}, bytes: include_bytes!({path:?}) }},"
        );
    }
    table.push_str("];\n");
    let out = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default());
    fs::write(out.join("page.rs"), table)
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
