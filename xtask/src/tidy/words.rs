//! Names of modules, and units where no type can carry them.

use super::Breach;
use super::source::Source;
use crate::checkout::SourceFile;

/// Folders and files that hide what they hold.
const SUBJECTLESS: &[&str] = &[
    "utils", "util", "common", "helpers", "helper", "misc", "types",
];
/// What an integer of a report counts or is measured in; one word of its name must say so.
const UNITS: &[&str] = &[
    "bytes",
    "us",
    "ns",
    "mm",
    "bps",
    "permille",
    "millicycles",
    "cycles",
    "1000s",
    "segments",
    "packets",
    "datagrams",
    "duplicates",
    "errors",
    "streams",
    "threads",
    "files",
    "folders",
    "calls",
    "cores",
    "timeouts",
    "shift",
    "index",
    "version",
    "state",
    "dscp",
    "lost",
    "order",
    "seen",
    "delivered",
    "core",
    "ce",
    "hops",
    "ttl",
    "sent",
    "arrived",
    "overflowed",
    "reordered",
    "discarded",
    "flows",
    "system",
    "number",
    "label",
    "class",
    "samples",
    "port",
    "probes",
    "run",
    "cells",
    "cell",
    "repeats",
    "seed",
    "step",
    "retransmits",
    "minute",
];
/// Structs whose field in the report names the unit for all of their fields.
const UNIT_IN_PARENT: &[&str] = &["LoadedRtt", "PathRtt", "ChangedHops"];

/// A module is named by its subject.
pub fn modules_have_a_subject(file: &SourceFile, _: &Source) -> Vec<Breach> {
    let parts = file.path.trim_end_matches(".rs").split('/');
    parts
        .filter(|part| SUBJECTLESS.contains(part))
        .map(|part| {
            let why = format!("`{part}` says nothing about what is in it");
            Breach::error(&file.path, 1, "module-name", why)
        })
        .collect()
}

/// A number that a stranger reads says what it counts.
pub fn report_integers_name_their_unit(file: &SourceFile, source: &Source) -> Vec<Breach> {
    if !file.path.starts_with("crates/longhaul-model/src/report/v1") || file.is_test() {
        return vec![];
    }
    let mut item = String::new();
    let mut found = Vec::new();
    for (line, code) in source.numbered() {
        if let Some(name) = code.trim().strip_prefix("pub struct ") {
            item = name.chars().take_while(|c| c.is_alphanumeric()).collect();
        }
        let Some((name, kind)) = field(code) else {
            continue;
        };
        let is_integer = ["u64", "u32", "u16", "u8", "i64", "i32"]
            .iter()
            .any(|int| kind.contains(int))
            && !kind.contains("Map<");
        let has_unit = name.split('_').any(|part| UNITS.contains(&part));
        if is_integer && !has_unit && !UNIT_IN_PARENT.contains(&item.as_str()) {
            let why = format!("`{name}` is an integer without a unit in its name");
            found.push(Breach::error(&file.path, line, "unit", why));
        }
    }
    found
}

fn field(code: &str) -> Option<(&str, &str)> {
    let (name, kind) = code.trim().strip_prefix("pub ")?.split_once(':')?;
    name.chars()
        .all(|c| c.is_alphanumeric() || c == '_')
        .then_some((name, kind))
}
