//! The shipped paths, and the lookup of a path by name or file.

use crate::path_file;
use crate::path_spec::PathSpec;
use longhaul_config::ConfigProblems;
use std::fs::File;
use std::io::Read;
use std::path::Path;

const SHIPPED: &[(&str, &str)] = &[
    ("la-geneva", include_str!("../paths/la-geneva.toml")),
    ("sanjose-lulea", include_str!("../paths/sanjose-lulea.toml")),
    ("slac-sdsc", include_str!("../paths/slac-sdsc.toml")),
    ("slac-daresbury", include_str!("../paths/slac-daresbury.toml")),
    ("slac-cesnet", include_str!("../paths/slac-cesnet.toml")),
    ("slac-in2p3", include_str!("../paths/slac-in2p3.toml")),
    ("slac-upgrade", include_str!("../paths/slac-upgrade.toml")),
];

/// Returns the key and name of every shipped path, in the order of `lab list`.
pub fn list_shipped_paths() -> impl Iterator<Item = (&'static str, String)> {
    SHIPPED.iter().map(|(key, text)| {
        // The tests of this crate fail if a shipped file does not load.
        let name = path_file::parse_path_file(key, key, text, &[])
            .map_or_else(|_| String::new(), |p| p.name);
        (*key, name)
    })
}

/// Loads a shipped path by its key, or a file; `sets` are `key=value` edits, applied in order.
///
/// # Errors
/// The path does not exist, the file cannot be read, or a value is wrong; the error says where, and
/// what is allowed.
pub fn load_path(name_or_file: &str, sets: &[String]) -> Result<PathSpec, ConfigProblems> {
    if let Some((key, text)) = SHIPPED.iter().find(|(key, _)| *key == name_or_file) {
        return path_file::parse_path_file(key, key, text, sets);
    }
    let path = Path::new(name_or_file);
    let is_toml = path.extension().is_some_and(|end| end.eq_ignore_ascii_case("toml"));
    if !is_toml && !name_or_file.contains('/') && !path.is_file() {
        return Err(unknown_path_error(name_or_file));
    }
    let text = read_limited_file(path).map_err(|problem| {
        ConfigProblems::of_file(name_or_file, format!("cannot read the file: {problem}"), "")
    })?;
    let key = path.file_stem().map(|stem| stem.to_string_lossy().into_owned());
    path_file::parse_path_file(name_or_file, &key.unwrap_or_default(), &text, sets)
}

fn read_limited_file(path: &Path) -> Result<String, String> {
    let file = File::open(path).map_err(|error| error.to_string())?;
    let mut text = String::new();
    file.take(path_file::FILE_BYTES_MAX + 1)
        .read_to_string(&mut text)
        .map_err(|error| error.to_string())?;
    if text.len() as u64 > path_file::FILE_BYTES_MAX {
        return Err("larger than 1 MiB, the limit of a path file".to_owned());
    }
    Ok(text)
}

fn unknown_path_error(name: &str) -> ConfigProblems {
    let keys: Vec<&str> = SHIPPED.iter().map(|(key, _)| *key).collect();
    let advice = longhaul_config::suggest_known(name, keys.iter().copied());
    ConfigProblems::of_file(name, "no such path", format!("{advice}, or a TOML file"))
}
