//! Reads hops and the two directions of their links.

mod router;

use super::error::PathFileError;
use super::read::{Table, check_keys, not_a};
use super::tree::{Node, Value};
use crate::spec::{Cross, CrossPattern, HopSpec, LinkSpec, Policer, Reorder, Shaper};
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

pub(super) fn read_list(node: &Node, at: &str) -> Result<Vec<HopSpec>, PathFileError> {
    let Value::List(list) = &node.value else {
        return Err(not_a(node, at, "a list of hops"));
    };
    if list.is_empty() || list.len() > super::HOPS_MAX {
        let problem = format!("{} hops", list.len());
        return Err(node
            .wrong(at, problem)
            .allowing(format!("1 to {}", super::HOPS_MAX)));
    }
    let mut hops: Vec<HopSpec> = Vec::with_capacity(list.len());
    for (index, node) in list.iter().enumerate() {
        let at = format!("{at}.{}", index + 1);
        let hop = read_hop(node, &at, index)?;
        if hops.iter().any(|other| other.name == hop.name) {
            let problem = format!("two hops are called `{}`", hop.name);
            return Err(node.wrong(&format!("{at}.name"), problem));
        }
        if index + 1 == list.len() {
            router::refuse_at_host(node, &at)?;
        }
        hops.push(hop);
    }
    Ok(hops)
}

fn read_hop(node: &Node, at: &str, index: usize) -> Result<HopSpec, PathFileError> {
    let known = NODE_KEYS.iter().chain(router::KEYS).chain(LINK_KEYS);
    let table = Table::new(node, at, &known.copied().collect::<Vec<&str>>())?;
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
        forward: read_link(&Table::layered(layers(node, true), at))?,
        reverse: read_link(&Table::layered(layers(node, false), at))?,
        ..router::read(&table)?
    })
}

/// Returns the tables that describe one direction of a hop's link, most specific first.
pub(super) fn layers(hop: &Node, forward: bool) -> Vec<&Node> {
    let own = hop.get(if forward { "forward" } else { "reverse" });
    own.into_iter().chain([hop]).collect()
}

pub(super) fn read_link(table: &Table<'_>) -> Result<LinkSpec, PathFileError> {
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
        return Err(table.refuse(
            "cross",
            "cross traffic needs a `rate` that it can take from",
        ));
    }
    Ok(link)
}

/// Reads a queue limit in bytes, or as a time that is converted to bytes at the link's rate.
fn read_queue(table: &Table<'_>) -> Result<Option<Bytes>, PathFileError> {
    let Some(text) = table.get("queue").and_then(Node::scalar) else {
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

fn read_reorder(table: &Table<'_>) -> Result<Option<Reorder>, PathFileError> {
    let Some(reorder) = table.table_or_none("reorder", &["share", "late_by"])? else {
        return Ok(None);
    };
    Ok(Some(Reorder {
        share: reorder
            .share("share")?
            .ok_or_else(|| reorder.missing("share"))?,
        late_by: reorder
            .duration("late_by")?
            .filter(|late| *late > Duration::ZERO)
            .ok_or_else(|| reorder.missing("late_by"))?,
    }))
}

fn read_policer(table: &Table<'_>) -> Result<Option<Policer>, PathFileError> {
    let Some(policer) = table.table_or_none("policer", &["rate", "burst"])? else {
        return Ok(None);
    };
    Ok(Some(Policer {
        rate: policer
            .rate("rate")?
            .ok_or_else(|| policer.missing("rate"))?,
        burst: read_burst(&policer)?,
    }))
}

fn read_shaper(table: &Table<'_>) -> Result<Option<Shaper>, PathFileError> {
    let Some(shaper) = table.table_or_none("shaper", &["peak", "sustained", "burst"])? else {
        return Ok(None);
    };
    let rate = |key| shaper.rate(key)?.ok_or_else(|| shaper.missing(key));
    let (peak, sustained) = (rate("peak")?, rate("sustained")?);
    if peak < sustained {
        return Err(shaper.refuse("peak", "less than `sustained`"));
    }
    Ok(Some(Shaper {
        peak,
        sustained,
        burst: read_burst(&shaper)?,
    }))
}

/// Reads a burst size; an empty bucket would never pass a packet.
fn read_burst(bucket: &Table<'_>) -> Result<Bytes, PathFileError> {
    let burst = bucket
        .bytes("burst")?
        .ok_or_else(|| bucket.missing("burst"))?;
    if burst.0 == 0 {
        return Err(bucket.refuse("burst", "an empty bucket, through which nothing passes"));
    }
    Ok(burst)
}

fn read_cross(table: &Table<'_>) -> Result<Option<Cross>, PathFileError> {
    let Some(cross) = table.table_or_none("cross", &["rate", "pattern"])? else {
        return Ok(None);
    };
    let rate = cross.rate("rate")?.ok_or_else(|| cross.missing("rate"))?;
    let text = cross.text("pattern")?;
    let text = text.as_deref().unwrap_or("poisson");
    let Some((_, pattern)) = PATTERNS.iter().find(|(name, _)| *name == text) else {
        let names: Vec<&str> = PATTERNS.iter().map(|(name, _)| *name).collect();
        let error = cross.refuse("pattern", "no pattern");
        return Err(error.allowing(names.join(", ")));
    };
    let pattern = *pattern;
    Ok(Some(Cross { rate, pattern }))
}
