//! Applies `--set key=value` edits to the tree before it is read.
//!
//! A key is a dotted path: `mtu`, `hops.3.rate` (hops count from 1, as in a traceroute),
//! `hops.last.queue`, `hops.all.loss`, `hops.r04chi.delay` (a name or a unique prefix of one),
//! `far.sysctl.net.ipv4.tcp_rmem`. Missing values are created; the reader of the tree decides
//! whether they are allowed.

use super::path_file_error::{PathFileError, ValueOrigin};
use super::toml_tree::{self, TomlNode, TomlValue};

/// The maximum depth of a key: `routes.NAME.3.forward.policer.rate` has six parts.
const DEPTH_MAX: usize = 16;

pub(super) fn apply_set(root: &mut TomlNode, set: &str) -> Result<(), PathFileError> {
    let place = ValueOrigin::Set(set.to_owned());
    let Some((key, text)) = set.split_once('=') else {
        return Err(PathFileError::new(place, "", "no `=` in it")
            .allowing("key=value, such as hops.3.rate=1G"));
    };
    let (key, text) = (key.trim(), text.trim());
    let value = toml_tree::parse_set_value(text, set);
    if key.is_empty() || key.split('.').count() > DEPTH_MAX {
        return Err(PathFileError::new(place, key, "not a key")
            .allowing("a dotted path, such as hops.3.rate"));
    }
    put_value(
        root,
        EditKey {
            whole: key,
            rest: key,
        },
        &value,
    )
}

/// The remaining part of a key, and the whole key for errors.
#[derive(Clone, Copy)]
struct EditKey<'a> {
    whole: &'a str,
    rest: &'a str,
}

fn put_value(node: &mut TomlNode, key: EditKey<'_>, value: &TomlNode) -> Result<(), PathFileError> {
    if key.rest.is_empty() {
        *node = value.clone();
        return Ok(());
    }
    match &mut node.value {
        TomlValue::List(list) => put_in_list(list, key, value),
        TomlValue::Table(entries) => put_in_table(entries, key, value),
        _ => {
            // `policer = "none"` is replaced by `policer.rate = …`.
            node.value = TomlValue::Table(Vec::new());
            node.origin = value.origin.clone();
            put_value(node, key, value)
        }
    }
}

fn put_in_table(
    entries: &mut Vec<(String, TomlNode)>,
    key: EditKey<'_>,
    value: &TomlNode,
) -> Result<(), PathFileError> {
    let (first, rest) = key.rest.split_once('.').unwrap_or((key.rest, ""));
    // Names of sysctls contain dots.
    if first == "sysctl" && !rest.is_empty() {
        return put_sysctl(entries, rest, value);
    }
    let found = entries.iter().position(|(name, _)| name == first);
    let index = found.unwrap_or_else(|| {
        let empty = match first {
            "hops" | "events" => TomlValue::List(Vec::new()),
            _ => TomlValue::Table(Vec::new()),
        };
        entries.push((
            first.to_owned(),
            TomlNode {
                origin: value.origin.clone(),
                value: empty,
            },
        ));
        entries.len() - 1
    });
    put_value(&mut entries[index].1, EditKey { rest, ..key }, value)
}

fn put_sysctl(
    entries: &mut Vec<(String, TomlNode)>,
    name: &str,
    value: &TomlNode,
) -> Result<(), PathFileError> {
    let place = value.origin.clone();
    let index = entries.iter().position(|(key, _)| key == "sysctl");
    let index = index.unwrap_or_else(|| {
        let value = TomlValue::Table(Vec::new());
        entries.push((
            "sysctl".to_owned(),
            TomlNode {
                origin: place.clone(),
                value,
            },
        ));
        entries.len() - 1
    });
    match &mut entries[index].1.value {
        TomlValue::Table(sysctls) => {
            sysctls.retain(|(key, _)| key != name);
            sysctls.push((name.to_owned(), value.clone()));
            Ok(())
        }
        _ => Err(PathFileError::new(
            place,
            "sysctl",
            "not a table of sysctls",
        )),
    }
}

fn put_in_list(
    list: &mut Vec<TomlNode>,
    key: EditKey<'_>,
    value: &TomlNode,
) -> Result<(), PathFileError> {
    if let Some(rest) = strip_label(key.rest, "all") {
        for node in list {
            put_value(node, EditKey { rest, ..key }, value)?;
        }
        return Ok(());
    }
    let (index, rest) =
        find_element(list, key.rest).ok_or_else(|| unknown_element_error(list, key, value))?;
    if index == list.len() {
        let place = value.origin.clone();
        list.push(TomlNode {
            origin: place,
            value: TomlValue::Table(Vec::new()),
        });
    }
    put_value(&mut list[index], EditKey { rest, ..key }, value)
}

/// Returns the index of the element that `key` begins with, and the rest of the key.
fn find_element<'a>(list: &[TomlNode], key: &'a str) -> Option<(usize, &'a str)> {
    let (first, rest) = key.split_once('.').unwrap_or((key, ""));
    if first == "last" {
        return Some((list.len().checked_sub(1)?, rest));
    }
    if let Ok(number) = first.parse::<usize>() {
        // The index after the last element appends.
        return (1..=list.len() + 1)
            .contains(&number)
            .then(|| (number - 1, rest));
    }
    let names = list
        .iter()
        .map(|node| node.get("name").and_then(TomlNode::scalar));
    let whole = names
        .clone()
        .enumerate()
        .filter_map(|(index, name)| Some((index, strip_label(key, name?)?)));
    if let Some(found) = whole.max_by_key(|(_, rest)| std::cmp::Reverse(rest.len())) {
        return Some(found);
    }
    let mut begun = names
        .enumerate()
        .filter(|(_, name)| name.is_some_and(|n| n.starts_with(first)));
    match (begun.next(), begun.next()) {
        (Some((index, _)), None) if !first.is_empty() => Some((index, rest)),
        _ => None,
    }
}

/// Returns the part of `key` after `label.`; names of hops may contain dots.
fn strip_label<'a>(key: &'a str, label: &str) -> Option<&'a str> {
    let rest = key.strip_prefix(label)?;
    if rest.is_empty() {
        Some(rest)
    } else {
        rest.strip_prefix('.')
    }
}

fn unknown_element_error(list: &[TomlNode], key: EditKey<'_>, value: &TomlNode) -> PathFileError {
    let names: Vec<&str> = list
        .iter()
        .filter_map(|node| node.get("name").and_then(TomlNode::scalar))
        .collect();
    let label = key.rest.split('.').next().unwrap_or_default();
    let mut allowed = format!("1 to {}, `last`, `all`", list.len());
    if !names.is_empty() {
        allowed = format!("{allowed}, or a name: {}", names.join(", "));
    }
    PathFileError::new(
        value.origin.clone(),
        key.whole,
        format!("there is no `{label}`"),
    )
    .allowing(allowed)
}
