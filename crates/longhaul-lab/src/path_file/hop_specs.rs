//! Reads hops and the two directions of their links.

mod hop_router;

use super::path_file_error::PathFileError;
use super::toml_tree::{TomlNode, TomlValue};
use super::typed_table::{TypedTable, check_keys, mismatch_error};
use crate::path_spec::{
    CrossPattern, CrossSpec, HopSpec, LinkSpec, PolicerSpec, ReorderSpec, ShaperSpec,
};
use longhaul_model::units::{Bytes, parse_duration};
use std::time::Duration;

/// The keys of one direction of a link. A hop's keys apply to both directions, `forward` and
/// `reverse` to one.
pub(super) const LINK_KEYS: &[&str] = &[
    "delay",
    "jitter",
    "rate",
    "queue",
    "loss",
    "reorder",
    "policer",
    "shaper",
    "cross",
    "overhead",
    "mtu",
    "mtu_black_hole",
];
const NODE_KEYS: &[&str] = &["name", "city", "forward", "reverse"];
const PATTERNS: &[(&str, CrossPattern)] = &[
    ("cbr", CrossPattern::Cbr),
    ("poisson", CrossPattern::Poisson),
    ("onoff", CrossPattern::OnOff),
    ("tcp", CrossPattern::Tcp),
];
/// The maximum overhead per packet in bytes, more than any link layer takes.
const OVERHEAD_MAX: u64 = 1024;

pub(super) fn read_hops(node: &TomlNode, at: &str) -> Result<Vec<HopSpec>, PathFileError> {
    let TomlValue::List(list) = &node.value else {
        return Err(mismatch_error(node, at, "a list of hops"));
    };
    if list.is_empty() || list.len() > super::HOPS_MAX {
        let problem = format!("{} hops", list.len());
        return Err(node
            .error(at, problem)
            .allowing(format!("1 to {}", super::HOPS_MAX)));
    }
    let mut hops: Vec<HopSpec> = Vec::with_capacity(list.len());
    for (index, node) in list.iter().enumerate() {
        let at = format!("{at}.{}", index + 1);
        let hop = read_hop(node, &at, index)?;
        if hops.iter().any(|other| other.name == hop.name) {
            let problem = format!("two hops have the name `{}`", hop.name);
            return Err(node.error(&format!("{at}.name"), problem));
        }
        if index + 1 == list.len() {
            hop_router::refuse_router_keys(node, &at)?;
        }
        hops.push(hop);
    }
    Ok(hops)
}

fn read_hop(node: &TomlNode, at: &str, index: usize) -> Result<HopSpec, PathFileError> {
    let known = NODE_KEYS.iter().chain(hop_router::KEYS).chain(LINK_KEYS);
    let table = TypedTable::new(node, at, &known.copied().collect::<Vec<&str>>())?;
    let name = table.text("name")?;
    if name
        .as_ref()
        .is_some_and(|name| name.contains(char::is_whitespace))
    {
        return Err(table.refuse("name", "not a name: it has spaces"));
    }
    for direction in ["forward", "reverse"] {
        if let Some(node) = node.get(direction) {
            check_keys(node, &table.key(direction), LINK_KEYS)?;
        }
    }
    Ok(HopSpec {
        name: name.unwrap_or_else(|| format!("hop{}", index + 1)),
        city: table.text("city")?,
        forward: read_link(&TypedTable::layered(list_layers(node, true), at))?,
        reverse: read_link(&TypedTable::layered(list_layers(node, false), at))?,
        ..hop_router::read_router(&table)?
    })
}

/// Returns the tables that describe one direction of a hop's link, most specific first.
pub(super) fn list_layers(hop: &TomlNode, forward: bool) -> Vec<&TomlNode> {
    let own = hop.get(if forward { "forward" } else { "reverse" });
    own.into_iter().chain([hop]).collect()
}

pub(super) fn read_link(table: &TypedTable<'_>) -> Result<LinkSpec, PathFileError> {
    let usual = LinkSpec::default();
    let link = LinkSpec {
        delay: table.duration("delay")?.unwrap_or_default(),
        jitter: table.duration("jitter")?.unwrap_or_default(),
        rate: table.rate("rate")?,
        queue: read_queue(table)?,
        loss: table.share("loss")?.unwrap_or_default(),
        reorder: read_reorder(table)?,
        policer: read_policer(table)?,
        shaper: read_shaper(table)?,
        cross: read_cross(table)?,
        overhead: table
            .integer("overhead", 0..=OVERHEAD_MAX)?
            .map_or(usual.overhead, |bytes| bytes as u32),
        mtu: table
            .integer("mtu", super::MTU_MIN..=super::MTU_MAX)?
            .map(|bytes| bytes as u32),
        mtu_black_hole: table.boolean("mtu_black_hole")?.unwrap_or(false),
    };
    if link.jitter > link.delay {
        return Err(table.refuse("jitter", "more than the delay it varies"));
    }
    if link.cross.is_some() && link.rate.is_none() {
        return Err(table.refuse("cross", "cross traffic needs a `rate` of the link"));
    }
    Ok(link)
}

/// Reads a queue limit in bytes, or as a time that is converted to bytes at the link's rate.
fn read_queue(table: &TypedTable<'_>) -> Result<Option<Bytes>, PathFileError> {
    let Some(text) = table.get("queue").and_then(TomlNode::scalar) else {
        return table.bytes("queue");
    };
    if text == "none" {
        return Ok(None);
    }
    if let Ok(bytes) = text.parse::<Bytes>() {
        return Ok(Some(bytes));
    }
    let Ok(time) = parse_duration(text) else {
        let allowed = "a size (\"8 MiB\"), a time at the link's rate (\"50 ms\"), or \"none\"";
        return Err(table.refuse("queue", "not a queue").allowing(allowed));
    };
    match table.rate("rate")? {
        Some(rate) => Ok(Some(Bytes(rate.bytes_in(time)))),
        None => Err(table.refuse("queue", "a time, which needs a `rate` to become bytes")),
    }
}

fn read_reorder(table: &TypedTable<'_>) -> Result<Option<ReorderSpec>, PathFileError> {
    let Some(reorder) = table.table_or_none("reorder", &["share", "late_by"])? else {
        return Ok(None);
    };
    Ok(Some(ReorderSpec {
        share: reorder
            .share("share")?
            .ok_or_else(|| reorder.missing("share"))?,
        late_by: reorder
            .duration("late_by")?
            .filter(|late| *late > Duration::ZERO)
            .ok_or_else(|| reorder.missing("late_by"))?,
    }))
}

fn read_policer(table: &TypedTable<'_>) -> Result<Option<PolicerSpec>, PathFileError> {
    let Some(policer) = table.table_or_none("policer", &["rate", "burst"])? else {
        return Ok(None);
    };
    Ok(Some(PolicerSpec {
        rate: policer
            .rate("rate")?
            .ok_or_else(|| policer.missing("rate"))?,
        burst: read_burst(&policer)?,
    }))
}

fn read_shaper(table: &TypedTable<'_>) -> Result<Option<ShaperSpec>, PathFileError> {
    let Some(shaper) = table.table_or_none("shaper", &["peak", "sustained", "burst"])? else {
        return Ok(None);
    };
    let rate = |key| shaper.rate(key)?.ok_or_else(|| shaper.missing(key));
    let (peak, sustained) = (rate("peak")?, rate("sustained")?);
    if peak < sustained {
        return Err(shaper.refuse("peak", "less than `sustained`"));
    }
    Ok(Some(ShaperSpec {
        peak,
        sustained,
        burst: read_burst(&shaper)?,
    }))
}

/// Reads a burst size; an empty bucket would never pass a packet.
fn read_burst(bucket: &TypedTable<'_>) -> Result<Bytes, PathFileError> {
    let burst = bucket
        .bytes("burst")?
        .ok_or_else(|| bucket.missing("burst"))?;
    if burst.0 == 0 {
        return Err(bucket.refuse("burst", "an empty bucket, which passes no packets"));
    }
    Ok(burst)
}

fn read_cross(table: &TypedTable<'_>) -> Result<Option<CrossSpec>, PathFileError> {
    let Some(cross) = table.table_or_none("cross", &["rate", "pattern"])? else {
        return Ok(None);
    };
    let rate = cross.rate("rate")?.ok_or_else(|| cross.missing("rate"))?;
    let text = cross.text("pattern")?;
    let text = text.as_deref().unwrap_or("poisson");
    let Some((_, pattern)) = PATTERNS.iter().find(|(name, _)| *name == text) else {
        let names: Vec<&str> = PATTERNS.iter().map(|(name, _)| *name).collect();
        let error = cross.refuse("pattern", "not a pattern");
        return Err(error.allowing(names.join(", ")));
    };
    let pattern = *pattern;
    Ok(Some(CrossSpec { rate, pattern }))
}
