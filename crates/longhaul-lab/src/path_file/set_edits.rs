//! Applies `--set key=value` edits to the document before it is read.
//!
//! A key is a dotted path: `mtu`, `hops.3.rate` (hops count from 1, as in a traceroute),
//! `hops.last.queue`, `hops.all.loss`, `hops.r04chi.delay` (a name or a unique prefix of one),
//! `far.sysctl.net.ipv4.tcp_rmem`. Missing values are created; the reader of the document decides
//! whether they are allowed.

use longhaul_config::ConfigDocument;
use longhaul_config::config_document::EditOrigin;
use toml::Spanned;
use toml::de::{DeArray, DeTable, DeValue};

/// The maximum depth of a key: `routes.NAME.3.forward.policer.rate` has six parts.
const DEPTH_MAX: usize = 16;

/// # Errors
/// The edit has no key, or names a hop or event that does not exist.
pub(super) fn apply_set<'t>(document: &mut ConfigDocument<'t>, set: &'t str) -> Result<(), String> {
    let Some((key, text)) = set.split_once('=') else {
        return Err("no `=` in it; allowed: key=value, such as hops.3.rate=1G".to_owned());
    };
    let (key, text) = (key.trim(), text.trim());
    if key.is_empty() || key.split('.').count() > DEPTH_MAX {
        return Err("not a key; allowed: a dotted path, such as hops.3.rate".to_owned());
    }
    // A TOML value, or else plain text (`1G`, `86 ms`).
    let value = match DeValue::parse(text) {
        Ok(value) if !value.get_ref().is_datetime() => value.into_inner(),
        _ => DeValue::String(text.into()),
    };
    document
        .edit(set, |root, origin| {
            let edit = ValueEdit { value: origin.mark(value), origin };
            edit.put(root, key)
        })
        .map_err(|why| format!("{key}: {why}"))
}

/// The new value of an edit.
struct ValueEdit<'t> {
    value: Spanned<DeValue<'t>>,
    origin: EditOrigin,
}

impl<'t> ValueEdit<'t> {
    fn put(&self, place: &mut Spanned<DeValue<'t>>, rest: &str) -> Result<(), String> {
        if rest.is_empty() {
            *place = self.value.clone();
            return Ok(());
        }
        if !matches!(place.get_ref(), DeValue::Array(_) | DeValue::Table(_)) {
            // `policer = "none"` is replaced by `policer.rate = …`.
            *place = self.origin.mark(DeValue::Table(DeTable::new()));
        }
        match place.get_mut() {
            DeValue::Array(list) => self.put_in_list(list, rest),
            DeValue::Table(table) => self.put_in_table(table, rest),
            _ => Ok(()),
        }
    }

    fn put_in_table(&self, table: &mut DeTable<'t>, key: &str) -> Result<(), String> {
        let (first, rest) = key.split_once('.').unwrap_or((key, ""));
        let empty = match first {
            "hops" | "events" => DeValue::Array(DeArray::new()),
            _ => DeValue::Table(DeTable::new()),
        };
        if !table.contains_key(first) {
            table.insert(self.origin.mark_key(first), self.origin.mark(empty));
        }
        let Some(place) = table.get_mut(first) else {
            return Ok(());
        };
        // Names of sysctls contain dots.
        if first == "sysctl" && !rest.is_empty() {
            let DeValue::Table(sysctls) = place.get_mut() else {
                return Err("not a table of sysctls".to_owned());
            };
            sysctls.insert(self.origin.mark_key(rest), self.value.clone());
            return Ok(());
        }
        self.put(place, rest)
    }

    fn put_in_list(&self, list: &mut DeArray<'t>, key: &str) -> Result<(), String> {
        if let Some(rest) = strip_label(key, "all") {
            return list.iter_mut().try_for_each(|place| self.put(place, rest));
        }
        let (index, rest) = find_element(list, key).ok_or_else(|| refuse_element(list, key))?;
        if index == list.len() {
            list.push(self.origin.mark(DeValue::Table(DeTable::new())));
        }
        let place = list.get_mut(index);
        place.map_or(Ok(()), |place| self.put(place, rest))
    }
}

fn list_names<'a>(list: &'a DeArray<'_>) -> impl Iterator<Item = Option<&'a str>> + Clone {
    list.iter().map(|it| it.get_ref().get("name")?.get_ref().as_str())
}

/// Returns the index of the element that `key` begins with, and the rest of the key.
fn find_element<'a>(list: &DeArray<'_>, key: &'a str) -> Option<(usize, &'a str)> {
    let (first, rest) = key.split_once('.').unwrap_or((key, ""));
    if first == "last" {
        return Some((list.len().checked_sub(1)?, rest));
    }
    if let Ok(number) = first.parse::<usize>() {
        // The index after the last element appends.
        let is_near = (1..=list.len() + 1).contains(&number);
        return is_near.then(|| (number - 1, rest));
    }
    let names = list_names(list);
    let whole = names
        .clone()
        .enumerate()
        .filter_map(|(index, name)| Some((index, strip_label(key, name?)?)));
    if let Some(found) = whole.max_by_key(|(_, rest)| std::cmp::Reverse(rest.len())) {
        return Some(found);
    }
    let mut begun =
        names.enumerate().filter(|(_, name)| name.is_some_and(|n| n.starts_with(first)));
    match (begun.next(), begun.next()) {
        (Some((index, _)), None) if !first.is_empty() => Some((index, rest)),
        _ => None,
    }
}

/// Returns the part of `key` after `label.`; names of hops may contain dots.
fn strip_label<'a>(key: &'a str, label: &str) -> Option<&'a str> {
    let rest = key.strip_prefix(label)?;
    if rest.is_empty() { Some(rest) } else { rest.strip_prefix('.') }
}

fn refuse_element(list: &DeArray<'_>, key: &str) -> String {
    let names: Vec<&str> = list_names(list).flatten().collect();
    let label = key.split('.').next().unwrap_or_default();
    let mut allowed = format!("1 to {}, `last`, `all`", list.len());
    if !names.is_empty() {
        allowed = format!("{allowed}, or a name: {}", names.join(", "));
    }
    format!("there is no `{label}`; allowed: {allowed}")
}
