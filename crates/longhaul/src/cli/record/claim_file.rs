//! Claims as people write them down: TOML, or JSON, of one claim or of a list.

use crate::fail::{Fail, USAGE};
use longhaul_model::report::v1::claim::{Claim, Claims};
use serde_json::Value;
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// The history of all records is a hundredth of it.
const FILE_MOST: u64 = 1 << 20;
/// In one file.
const CLAIMS_MOST: usize = 1000;

pub fn read(file: &Path) -> Result<Vec<Claim>, Fail> {
    let text = text_of(file)?;
    let is_json = file
        .extension()
        .is_some_and(|it| it.eq_ignore_ascii_case("json"));
    let claims = if is_json {
        let value: Value = serde_json::from_str(&text).map_err(|e| refused(file, &e))?;
        if value.get("claims").is_some() {
            let listed: Claims = serde_json::from_str(&text).map_err(|e| refused(file, &e))?;
            listed.claims
        } else {
            vec![serde_json::from_str(&text).map_err(|e| refused(file, &e))?]
        }
    } else {
        let table: toml::Table = toml::from_str(&text).map_err(|e| refused(file, &e))?;
        if table.contains_key("claims") {
            let listed: Claims = toml::from_str(&text).map_err(|e| refused(file, &e))?;
            listed.claims
        } else {
            vec![toml::from_str(&text).map_err(|e| refused(file, &e))?]
        }
    };
    if claims.len() > CLAIMS_MOST {
        return Err(refused(file, &format!("more than {CLAIMS_MOST} claims")));
    }
    match claims.iter().find(|claim| is_hostile(claim)) {
        Some(_) => Err(refused(file, &"a text in it has control characters")),
        None => Ok(claims),
    }
}

fn text_of(file: &Path) -> Result<String, Fail> {
    let unreadable = |e: std::io::Error| {
        let mut fail = Fail::new(USAGE, format!("cannot read {}", file.display()));
        fail.causes.push(e.to_string());
        fail
    };
    let opened = File::open(file).map_err(unreadable)?;
    let mut text = String::new();
    let read = opened.take(FILE_MOST + 1).read_to_string(&mut text);
    if read.map_err(unreadable)? as u64 > FILE_MOST {
        return Err(refused(file, &"it is larger than 1 MiB"));
    }
    Ok(text)
}

/// Texts are shown on terminals and pages.
fn is_hostile(claim: &Claim) -> bool {
    fn bad(value: &Value) -> bool {
        match value {
            Value::String(text) => text.contains(char::is_control),
            Value::Array(all) => all.iter().any(bad),
            Value::Object(all) => all.values().any(bad),
            _ => false,
        }
    }
    serde_json::to_value(claim).is_ok_and(|value| bad(&value))
}

fn refused(file: &Path, why: &dyn std::fmt::Display) -> Fail {
    let mut fail = Fail::new(USAGE, format!("{} is no claim", file.display()));
    let why = why.to_string();
    let lines = why
        .lines()
        .map(str::trim_end)
        .filter(|line| !line.is_empty());
    fail.causes.extend(lines.map(str::to_owned));
    fail.hint(Some("docs/claims.md has the fields of a claim"))
}
