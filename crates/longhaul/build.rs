//! Embeds the web page in the program: writes a table of the files below `web/dist/page`, which are
//! committed as built.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

/// The built page, relative to this crate.
const PAGE: &str = "../../web/dist/page";

fn main() -> io::Result<()> {
    println!("cargo::rerun-if-changed={PAGE}");
    let here = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default());
    let page = here.join(PAGE);
    if !page.join("index.html").is_file() {
        let missing = "web/dist/page is missing; restore it with `git checkout web/dist/page`";
        return Err(io::Error::new(io::ErrorKind::NotFound, missing));
    }
    let mut files = Vec::new();
    collect(&page, &page, &mut files)?;
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
