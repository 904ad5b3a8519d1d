//! Embeds the web page: writes a table of the files below `web/dist/page`, which are committed as
//! built, and passes a digest of them.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

/// The built page, relative to the checkout.
const PAGE: &str = "web/dist/page";

fn main() -> io::Result<()> {
    let here = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default());
    let page = here.join("../..").join(PAGE);
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
