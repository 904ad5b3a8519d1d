//! Reads files of claims; `longhaul_import` parses their content.

use crate::fail::{Fail, USAGE};
use longhaul_import::claims::{self, MOST_BYTES};
use longhaul_model::report::v1::claim::Claim;
use std::fs::File;
use std::io::Read;
use std::path::Path;

pub fn read(file: &Path) -> Result<Vec<Claim>, Fail> {
    let text = text_of(file)?;
    let is_json = file
        .extension()
        .is_some_and(|it| it.eq_ignore_ascii_case("json"));
    claims::parse(&text, is_json).map_err(|why| refused(file, &why))
}

fn text_of(file: &Path) -> Result<String, Fail> {
    let unreadable = |e: std::io::Error| {
        let mut fail = Fail::new(USAGE, format!("cannot read {}", file.display()));
        fail.causes.push(e.to_string());
        fail
    };
    let opened = File::open(file).map_err(unreadable)?;
    let mut text = String::new();
    let read = opened.take(MOST_BYTES + 1).read_to_string(&mut text);
    if read.map_err(unreadable)? as u64 > MOST_BYTES {
        return Err(refused(file, "it is larger than 1 MiB"));
    }
    Ok(text)
}

fn refused(file: &Path, why: &str) -> Fail {
    let mut fail = Fail::new(USAGE, format!("{} is no claim", file.display()));
    let lines = why
        .lines()
        .map(str::trim_end)
        .filter(|line| !line.is_empty());
    fail.causes.extend(lines.map(str::to_owned));
    fail.hint(Some("docs/claims.md has the fields of a claim"))
}
