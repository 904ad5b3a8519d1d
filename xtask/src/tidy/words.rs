//! Names: the field's terms (docs/vocabulary.md), and units where no type can carry them.

use super::Breach;
use super::source::{Source, identifiers};
use crate::tree::File;

/// Folders and files that hide what they hold.
const SUBJECTLESS: &[&str] = &[
    "utils", "util", "common", "helpers", "helper", "misc", "types",
];
/// Roles are initiator and responder (of a session), sender and receiver (of a stream).
const ROLES: &[&str] = &["client", "server", "clients", "servers"];
/// Methods of foreign traits keep their foreign names.
const FOREIGN: &[&str] = &[
    "verify_server_cert",
    "server_name",
    "client_auth_root_subjects",
];
/// Files of these names speak another program's wire, in its words: client, server, bandwidth.
const FOREIGN_WIRE: [&str; 2] = ["iperf3", "interop"];
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
const UNIT_IN_PARENT: &[&str] = &["Rtt", "ChangedRange"];

/// A module is named by its subject.
pub fn modules_have_a_subject(file: &File, _: &Source) -> Vec<Breach> {
    let parts = file.path.trim_end_matches(".rs").split('/');
    parts
        .filter(|part| SUBJECTLESS.contains(part))
        .map(|part| {
            let why = format!("`{part}` says nothing about what is in it");
            Breach::error(&file.path, 1, "module-name", why)
        })
        .collect()
}

/// One word, one meaning: see docs/vocabulary.md.
pub fn identifiers_use_the_vocabulary(file: &File, source: &Source) -> Vec<Breach> {
    if file.path.split(['/', '.']).any(speaks_foreign) {
        return vec![];
    }
    source
        .numbered()
        .flat_map(|(line, code)| declared(code).map(move |name| (line, name)))
        .filter_map(|(line, name)| {
            let why = against_vocabulary(name)?;
            Some(Breach::error(
                &file.path,
                line,
                "vocabulary",
                format!("`{name}`: {why}"),
            ))
        })
        .collect()
}

/// A folder or file of the foreign wire.
fn speaks_foreign(name: &str) -> bool {
    let mut rests = FOREIGN_WIRE
        .iter()
        .filter_map(|wire| name.strip_prefix(wire));
    rests.any(|rest| rest.is_empty() || rest.starts_with('_'))
}

fn against_vocabulary(name: &str) -> Option<&'static str> {
    if FOREIGN.contains(&name.trim_start_matches('_')) {
        return None;
    }
    let parts = parts(name);
    let at = parts.iter().position(|part| part == "bandwidth");
    if at.is_some_and(|at| at == 0 || parts[at - 1] != "available") {
        return Some("say goodput, capacity or available_bandwidth");
    }
    parts
        .iter()
        .any(|part| ROLES.contains(&part.as_str()))
        .then_some("say initiator or responder, sender or receiver")
}

/// Names that a line declares: items, bindings, and `name:` of fields and arguments.
fn declared(code: &str) -> impl Iterator<Item = &str> {
    const KEYWORDS: &[&str] = &[
        "fn", "struct", "enum", "mod", "const", "static", "trait", "type", "let", "mut",
    ];
    let mut previous = "";
    identifiers(code).filter_map(move |(at, word)| {
        let after = code[at + word.len()..].trim_start();
        let is_named = after.starts_with(':') && !after.starts_with("::");
        let declares = KEYWORDS.contains(&previous) || is_named;
        previous = word;
        declares.then_some(word)
    })
}

/// `ReceiveWindow` and `receive_window` alike: the words in lower case.
fn parts(name: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut before_was_lower = false;
    for c in name.chars() {
        if c == '_' || (c.is_uppercase() && before_was_lower) {
            parts.push(String::new());
        }
        if c != '_'
            && let Some(last) = parts.last_mut()
        {
            last.extend(c.to_lowercase());
        }
        before_was_lower = c.is_lowercase() || c.is_ascii_digit();
    }
    parts
}

/// A number that a stranger reads says what it counts.
pub fn report_integers_name_their_unit(file: &File, source: &Source) -> Vec<Breach> {
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
