//! The cases of the benches, read from `cases.toml`.

use serde::de::DeserializeOwned;

/// Returns the cases under a key.
pub fn read_cases<T: DeserializeOwned>(key: &str) -> Result<Vec<T>, String> {
    let failed = |e: toml::de::Error| format!("`{key}` of bench/src/cases.toml: {e}");
    let mut file: toml::Table = include_str!("cases.toml").parse().map_err(failed)?;
    let cases = file.remove(key);
    let cases = cases.ok_or_else(|| format!("no `{key}` in bench/src/cases.toml"))?;
    cases.try_into().map_err(failed)
}
