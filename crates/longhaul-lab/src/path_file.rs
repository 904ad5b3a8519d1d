//! Reads a path file: TOML in, a checked [`PathSpec`] out, or an error that names line and key.
//!
//! Source: the text of the file and the `--set key=value` edits of the command line. An edit
//! changes the tree before it is read, so it passes the same checks as the file. Quantities carry
//! their units in the file (`"86 ms"`, `"6.25 Gbit/s"`, `"128 MB"`).

mod hop_specs;
mod path_file_error;
mod set_edits;
#[cfg(test)]
mod tests;
mod timed_events;
mod toml_tree;
mod typed_table;

pub(crate) use path_file_error::find_nearest_word;
pub use path_file_error::{PathFileError, ValueOrigin};

use crate::path_spec::{HostSpec, MachineSpec, PathSpec};
use std::time::Duration;
use toml_tree::TomlNode;
use typed_table::TypedTable;

/// The maximum size of a path file in bytes.
pub const FILE_BYTES_MAX: u64 = 1 << 20;
/// The maximum number of hops: packets with the usual TTL of 64 expire in longer chains.
const HOPS_MAX: usize = 63;
/// The minimum MTU of IPv4, RFC 791.
const MTU_MIN: u64 = 68;
const MTU_MAX: u64 = 65_535;

const KEYS: &[&str] = &[
    "name", "mtu", "seed", "near", "far", "hops", "routes", "events", "begin_at", "machine",
];
const HOST_KEYS: &[&str] = &["city", "sysctl", "batch"];
/// The maximum batching time, longer than any network card waits.
const BATCH_MAX: Duration = Duration::from_millis(100);
const MACHINE_KEYS: &[&str] = &["required", "sysctl"];

/// Parses the text of a path file. `file` is its name in errors, `key` the short name of the path.
///
/// # Errors
/// The error says what is wrong, in which line (or which `--set`), at which key, and what is
/// allowed.
pub fn parse_path_file(
    file: &str,
    key: &str,
    text: &str,
    sets: &[String],
) -> Result<PathSpec, PathFileError> {
    let at_file = |error: PathFileError| error.in_file(file);
    let mut root = toml_tree::parse_toml(text).map_err(at_file)?;
    for set in sets {
        set_edits::apply_set(&mut root, set).map_err(at_file)?;
    }
    read_path_spec(key, &root).map_err(at_file)
}

fn read_path_spec(key: &str, root: &TomlNode) -> Result<PathSpec, PathFileError> {
    let table = TypedTable::new(root, "", KEYS)?;
    let mtu = table.integer("mtu", MTU_MIN..=MTU_MAX)?.unwrap_or(1500) as u32;
    let hops = hop_specs::read_hops(table.required("hops")?, "hops")?;
    let mut routes = std::collections::BTreeMap::new();
    if let Some(listed) = table.table("routes", None)? {
        for (name, node) in listed.entries() {
            let at = format!("routes.{name}");
            if name == "main" {
                return Err(node.error(&at, "`main` is the route of `hops`; choose another name"));
            }
            routes.insert(name.to_owned(), hop_specs::read_hops(node, &at)?);
        }
    }
    let layers = timed_events::RouteTrees::new(root);
    Ok(PathSpec {
        key: key.to_owned(),
        name: table.text("name")?.unwrap_or_else(|| key.to_owned()),
        mtu,
        seed: table.integer("seed", 0..=u64::MAX)?.unwrap_or(1),
        near: read_host(&table, "near")?,
        far: read_host(&table, "far")?,
        hops,
        routes,
        events: timed_events::read_events(table.get("events"), layers)?,
        begin_at: timed_events::read_begin_time(&table)?,
        machine: read_machine(&table)?,
    })
}

fn read_host(path: &TypedTable<'_>, host: &str) -> Result<HostSpec, PathFileError> {
    let Some(table) = path.table(host, Some(HOST_KEYS))? else {
        return Ok(HostSpec::default());
    };
    let batch = table.duration("batch")?.unwrap_or_default();
    if batch > BATCH_MAX {
        return Err(table.refuse("batch", "longer than the 100 ms allowed"));
    }
    Ok(HostSpec {
        city: table.text("city")?,
        sysctl: table.sysctls("sysctl")?,
        batch,
    })
}

fn read_machine(path: &TypedTable<'_>) -> Result<MachineSpec, PathFileError> {
    let Some(table) = path.table("machine", Some(MACHINE_KEYS))? else {
        return Ok(MachineSpec::default());
    };
    Ok(MachineSpec {
        sysctl: table.sysctls("sysctl")?,
        required: table.boolean("required")?.unwrap_or(false),
    })
}
