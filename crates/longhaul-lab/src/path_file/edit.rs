//! Applies `--set key=value` edits to the tree before it is read.
//!
//! A key is a dotted path: `mtu`, `hops.3.rate` (hops count from 1, as in a traceroute),
//! `hops.last.queue`, `hops.all.loss`, `hops.r04chi.delay` (a name or a unique prefix of one),
//! `far.sysctl.net.ipv4.tcp_rmem`. Missing values are created; the reader of the tree decides
//! whether they are allowed.

use super::error::{PathFileError, Place};
use super::tree::{self, Node, Value};

/// The maximum depth of a key: `routes.NAME.3.forward.policer.rate` has six parts.
const DEPTH_MAX: usize = 16;

pub(super) fn apply(root: &mut Node, set: &str) -> Result<(), PathFileError> {
    let place = Place::Set(set.to_owned());
    let Some((key, text)) = set.split_once('=') else {
        return Err(PathFileError::new(place, "", "no `=` in it")
            .allowing("key=value, such as hops.3.rate=1G"));
    };
    let (key, text) = (key.trim(), text.trim());
    let value = tree::parse_set_value(text, set);
    if key.is_empty() || key.split('.').count() > DEPTH_MAX {
        return Err(PathFileError::new(place, key, "not a key")
            .allowing("a dotted path, such as hops.3.rate"));
    }
    put(
        root,
        Key {
            whole: key,
            rest: key,
        },
        &value,
    )
}

/// The remaining part of a key, and the whole key for errors.
#[derive(Clone, Copy)]
struct Key<'a> {
    whole: &'a str,
    rest: &'a str,
}

fn put(node: &mut Node, key: Key<'_>, value: &Node) -> Result<(), PathFileError> {
    if key.rest.is_empty() {
        *node = value.clone();
        return Ok(());
    }
    match &mut node.value {
        Value::List(list) => put_in_list(list, key, value),
        Value::Table(entries) => put_in_table(entries, key, value),
        _ => {
            // `policer = "none"` is replaced by `policer.rate = …`.
            node.value = Value::Table(Vec::new());
            node.place = value.place.clone();
            put(node, key, value)
        }
    }
}

fn put_in_table(
    entries: &mut Vec<(String, Node)>,
    key: Key<'_>,
    value: &Node,
) -> Result<(), PathFileError> {
    let (first, rest) = key.rest.split_once('.').unwrap_or((key.rest, ""));
    // Names of sysctls contain dots.
    if first == "sysctl" && !rest.is_empty() {
        return put_sysctl(entries, rest, value);
    }
    let found = entries.iter().position(|(name, _)| name == first);
    let index = found.unwrap_or_else(|| {
        let empty = match first {
            "hops" | "events" => Value::List(Vec::new()),
            _ => Value::Table(Vec::new()),
        };
        entries.push((
            first.to_owned(),
            Node {
                place: value.place.clone(),
                value: empty,
            },
        ));
        entries.len() - 1
    });
    put(&mut entries[index].1, Key { rest, ..key }, value)
}

fn put_sysctl(
    entries: &mut Vec<(String, Node)>,
    name: &str,
    value: &Node,
) -> Result<(), PathFileError> {
    let place = value.place.clone();
    let index = entries.iter().position(|(key, _)| key == "sysctl");
    let index = index.unwrap_or_else(|| {
        let value = Value::Table(Vec::new());
        entries.push((
            "sysctl".to_owned(),
            Node {
                place: place.clone(),
                value,
            },
        ));
        entries.len() - 1
    });
    match &mut entries[index].1.value {
        Value::Table(sysctls) => {
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

fn put_in_list(list: &mut Vec<Node>, key: Key<'_>, value: &Node) -> Result<(), PathFileError> {
    if let Some(rest) = after_label(key.rest, "all") {
        for node in list {
            put(node, Key { rest, ..key }, value)?;
        }
        return Ok(());
    }
    let (index, rest) = find(list, key.rest).ok_or_else(|| unknown_element(list, key, value))?;
    if index == list.len() {
        let place = value.place.clone();
        list.push(Node {
            place,
            value: Value::Table(Vec::new()),
        });
    }
    put(&mut list[index], Key { rest, ..key }, value)
}

/// Returns the index of the element that `key` begins with, and the rest of the key.
fn find<'a>(list: &[Node], key: &'a str) -> Option<(usize, &'a str)> {
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
        .map(|node| node.get("name").and_then(Node::scalar));
    let whole = names
        .clone()
        .enumerate()
        .filter_map(|(index, name)| Some((index, after_label(key, name?)?)));
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
fn after_label<'a>(key: &'a str, label: &str) -> Option<&'a str> {
    let rest = key.strip_prefix(label)?;
    if rest.is_empty() {
        Some(rest)
    } else {
        rest.strip_prefix('.')
    }
}

fn unknown_element(list: &[Node], key: Key<'_>, value: &Node) -> PathFileError {
    let names: Vec<&str> = list
        .iter()
        .filter_map(|node| node.get("name").and_then(Node::scalar))
        .collect();
    let label = key.rest.split('.').next().unwrap_or_default();
    let mut allowed = format!("1 to {}, `last`, `all`", list.len());
    if !names.is_empty() {
        allowed = format!("{allowed}, or a name: {}", names.join(", "));
    }
    PathFileError::new(
        value.place.clone(),
        key.whole,
        format!("there is no `{label}`"),
    )
    .allowing(allowed)
}
