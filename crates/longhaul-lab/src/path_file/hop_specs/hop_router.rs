//! Reads the properties of the router at the end of a hop's link.

use super::super::path_file_error::PathFileError;
use super::super::toml_tree::{TomlNode, TomlValue};
use super::super::typed_table::{TypedTable, mismatch_error};
use crate::path_spec::{HopSpec, IcmpValidity, OptionRewrite};

pub(super) const KEYS: &[&str] = &[
    "silent",
    "icmp_limit",
    "icmp_delay",
    "icmp",
    "mpls",
    "balance",
    "strip",
    "clamp_mss",
];
/// The keys that only routers have; a host with one of them is a mistake.
const OF_ROUTERS: &[&str] = &["icmp", "mpls", "balance", "strip", "clamp_mss"];

/// The largest label, RFC 3032.
const LABEL_MAX: u32 = (1 << 20) - 1;
const LABELS_MAX: usize = 8;
/// The maximum number of parallel paths that large routers support.
const BALANCE_MAX: u64 = 64;
const STRIPPED: &[&str] = &["sack", "window_scale", "timestamps"];
/// The minimum segment size that IPv4 and TCP need, and the maximum.
const MSS: std::ops::RangeInclusive<u64> = 48..=65_495;

/// Reads the router of a hop; the caller fills in the other fields.
pub(super) fn read_router(table: &TypedTable<'_>) -> Result<HopSpec, PathFileError> {
    Ok(HopSpec {
        silent: table.boolean("silent")?.unwrap_or(false),
        icmp_limit: table
            .integer("icmp_limit", 1..=1_000_000)?
            .map(|limit| limit as u32),
        icmp_delay: table.duration("icmp_delay")?.unwrap_or_default(),
        icmp: read_icmp_validity(table)?,
        mpls: read_labels(table)?,
        balance: table
            .integer("balance", 1..=BALANCE_MAX)?
            .map_or(0, |ways| ways as u8),
        rewrite: read_rewrite(table)?,
        ..HopSpec::default()
    })
}

/// # Errors
/// The last hop of a route is host far, and it has a key that only routers have.
pub(super) fn refuse_router_keys(hop: &TomlNode, at: &str) -> Result<(), PathFileError> {
    for key in OF_ROUTERS {
        if let Some(node) = hop.get(key) {
            let problem = "the last hop is host far, and only routers have this key";
            return Err(node.error(&format!("{at}.{key}"), problem));
        }
    }
    Ok(())
}

fn read_icmp_validity(table: &TypedTable<'_>) -> Result<IcmpValidity, PathFileError> {
    match table.text("icmp")?.as_deref() {
        None | Some("honest") => Ok(IcmpValidity::Honest),
        Some("garbage") => Ok(IcmpValidity::Garbage),
        Some("forged") => Ok(IcmpValidity::Forged),
        Some(_) => Err(table
            .refuse("icmp", "not a kind of answer")
            .allowing("honest, garbage, forged")),
    }
}

fn read_labels(table: &TypedTable<'_>) -> Result<Vec<u32>, PathFileError> {
    let Some(node) = table.get("mpls") else {
        return Ok(Vec::new());
    };
    let allowed = "a list of at most 8 labels from 0 to 1048575";
    let refused = || mismatch_error(node, &table.key("mpls"), allowed);
    let list = as_list(node).filter(|list| list.len() <= LABELS_MAX);
    let label = |node: &TomlNode| {
        let label = node.scalar()?.parse::<u32>().ok()?;
        (label <= LABEL_MAX).then_some(label)
    };
    let labels = list.ok_or_else(refused)?.iter().map(label);
    labels.collect::<Option<Vec<u32>>>().ok_or_else(refused)
}

fn read_rewrite(table: &TypedTable<'_>) -> Result<OptionRewrite, PathFileError> {
    let mut rewrite = OptionRewrite {
        clamp_mss: table.integer("clamp_mss", MSS)?.map(|bytes| bytes as u16),
        ..OptionRewrite::default()
    };
    let Some(node) = table.get("strip") else {
        return Ok(rewrite);
    };
    let refused = || {
        let allowed = format!("a list of {}", STRIPPED.join(", "));
        mismatch_error(node, &table.key("strip"), &allowed)
    };
    for option in as_list(node).ok_or_else(refused)? {
        match option.scalar() {
            Some("sack") => rewrite.sack = true,
            Some("window_scale") => rewrite.window_scale = true,
            Some("timestamps") => rewrite.timestamps = true,
            _ => return Err(refused()),
        }
    }
    Ok(rewrite)
}

fn as_list(node: &TomlNode) -> Option<&[TomlNode]> {
    match &node.value {
        TomlValue::List(list) => Some(list),
        _ => None,
    }
}
