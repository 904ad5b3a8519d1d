//! Reads files of claims; `longhaul_import` parses their content.

use crate::command_failure::{CommandFailure, USAGE};
use longhaul_import::claims_text::{self, MAX_CLAIMS_BYTES};
use longhaul_model::report::v1::claim::PublishedClaim;
use std::fs::File;
use std::io::Read;
use std::path::Path;

pub fn read_claims(file: &Path) -> Result<Vec<PublishedClaim>, CommandFailure> {
    let text = read_claim_text(file)?;
    let is_json = file
        .extension()
        .is_some_and(|it| it.eq_ignore_ascii_case("json"));
    claims_text::parse_claims(&text, is_json).map_err(|why| claim_file_failure(file, &why))
}

fn read_claim_text(file: &Path) -> Result<String, CommandFailure> {
    let unreadable = |e: std::io::Error| {
        let mut fail = CommandFailure::new(USAGE, format!("cannot read {}", file.display()));
        fail.causes.push(e.to_string());
        fail
    };
    let opened = File::open(file).map_err(unreadable)?;
    let mut text = String::new();
    let read = opened.take(MAX_CLAIMS_BYTES + 1).read_to_string(&mut text);
    if read.map_err(unreadable)? as u64 > MAX_CLAIMS_BYTES {
        return Err(claim_file_failure(file, "larger than 1 MiB"));
    }
    Ok(text)
}

fn claim_file_failure(file: &Path, why: &str) -> CommandFailure {
    let mut fail = CommandFailure::new(
        USAGE,
        format!("cannot read the claims in {}", file.display()),
    );
    let lines = why
        .lines()
        .map(str::trim_end)
        .filter(|line| !line.is_empty());
    fail.causes.extend(lines.map(str::to_owned));
    fail.hint(Some("see docs/claims.md for the fields of a claim"))
}
