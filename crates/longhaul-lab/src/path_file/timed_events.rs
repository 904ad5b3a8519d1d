//! Timed events: a change of route, or of one link.
//!
//! A change of a link lists only what changes. Everything else stays as the file and earlier events
//! set it, so every event is read on top of all earlier ones at the same link.

use super::hop_specs::{LINK_KEYS, list_layers, read_link};
use super::path_file_error::PathFileError;
use super::toml_tree::{TomlNode, TomlValue};
use super::typed_table::{TypedTable, check_keys, mismatch_error};
use crate::path_spec::{ChangeSpec, EventSpec};
use longhaul_model::units::parse_duration;
use std::collections::HashMap;
use std::time::Duration;

const KEYS: &[&str] = &["at", "route", "hop", "direction", "set"];
const EVENTS_MAX: usize = 10_000;
const AT_MAX: Duration = Duration::from_secs(7 * 24 * 3600);

/// The trees of all routes, by name.
pub(super) struct RouteTrees<'a> {
    lists: Vec<(&'a str, &'a [TomlNode])>,
}

impl<'a> RouteTrees<'a> {
    pub(super) fn new(root: &'a TomlNode) -> Self {
        let main = root.get("hops").map(|node| ("main", node));
        let others = root
            .get("routes")
            .and_then(TomlNode::entries)
            .unwrap_or(&[]);
        let others = others.iter().map(|(name, node)| (name.as_str(), node));
        let lists = main.into_iter().chain(others);
        RouteTrees {
            lists: lists
                .filter_map(|(name, node)| match &node.value {
                    TomlValue::List(list) => Some((name, list.as_slice())),
                    _ => None,
                })
                .collect(),
        }
    }

    fn get(&self, name: &str) -> Option<&'a [TomlNode]> {
        let (_, list) = self.lists.iter().find(|(known, _)| *known == name)?;
        Some(list)
    }

    fn names(&self) -> String {
        let names: Vec<&str> = self.lists.iter().map(|(name, _)| *name).collect();
        names.join(", ")
    }
}

/// An event with its time, not yet parsed further.
struct TimedEvent<'a> {
    at: Duration,
    node: &'a TomlNode,
    key: String,
}

pub(super) fn read_events(
    node: Option<&TomlNode>,
    routes: RouteTrees<'_>,
) -> Result<Vec<EventSpec>, PathFileError> {
    let Some(node) = node else {
        return Ok(Vec::new());
    };
    let list = match &node.value {
        TomlValue::List(list) if list.len() <= EVENTS_MAX => list,
        _ => {
            return Err(mismatch_error(
                node,
                "events",
                "a list of at most 10000 events",
            ));
        }
    };
    let mut timed = Vec::with_capacity(list.len());
    for (index, node) in list.iter().enumerate() {
        let key = format!("events.{}", index + 1);
        let table = TypedTable::new(node, &key, KEYS)?;
        let at = table
            .quantity("at", parse_duration)?
            .ok_or_else(|| table.missing("at"))?;
        if at > AT_MAX {
            return Err(table.refuse("at", "later than the allowed week"));
        }
        timed.push(TimedEvent { at, node, key });
    }
    timed.sort_by_key(|event| event.at);
    let mut reader = TimedEventReader {
        routes,
        changed: HashMap::new(),
    };
    let mut events = Vec::with_capacity(timed.len());
    for event in &timed {
        reader.read(event, &mut events)?;
    }
    Ok(events)
}

/// Reads the time at which the path begins, on the time line of its events.
pub(super) fn read_begin_time(path: &TypedTable<'_>) -> Result<Duration, PathFileError> {
    let at = path.quantity("begin_at", parse_duration)?;
    if at.is_some_and(|at| at > AT_MAX) {
        return Err(path.refuse("begin_at", "later than the allowed week"));
    }
    Ok(at.unwrap_or_default())
}

struct TimedEventReader<'a> {
    routes: RouteTrees<'a>,
    /// The settings of earlier events at a link (route, hop, forward), latest first.
    changed: HashMap<(String, usize, bool), Vec<&'a TomlNode>>,
}

impl<'a> TimedEventReader<'a> {
    fn read(
        &mut self,
        event: &TimedEvent<'a>,
        into: &mut Vec<EventSpec>,
    ) -> Result<(), PathFileError> {
        let table = TypedTable::new(event.node, &event.key, KEYS)?;
        let route = table.text("route")?;
        let hops = self.routes.get(route.as_deref().unwrap_or("main"));
        let hops = hops.ok_or_else(|| {
            table
                .refuse("route", "not a route")
                .allowing(self.routes.names())
        })?;
        match (table.get("hop"), table.get("set"), route) {
            (None, None, Some(route)) => {
                into.push(EventSpec {
                    at: event.at,
                    change: ChangeSpec::Route(route),
                });
                Ok(())
            }
            (Some(hop), Some(set), route) => {
                let hop = find_hop(hop, hops, &table)?;
                check_keys(set, &table.key("set"), LINK_KEYS)?;
                let route = route.unwrap_or_else(|| "main".to_owned());
                for forward in read_directions(&table)? {
                    let change =
                        self.read_link_change(&route, (hop, &hops[hop], *forward), set, &table)?;
                    into.push(EventSpec {
                        at: event.at,
                        change,
                    });
                }
                Ok(())
            }
            _ => Err(event.node.error(&event.key, "not an event").allowing(
                "`route` alone (changes to it), or `hop` with `set` (and `direction`; \
                 `route` then selects the route of the hop)",
            )),
        }
    }

    fn read_link_change(
        &mut self,
        route: &str,
        (hop, node, forward): (usize, &'a TomlNode, bool),
        set: &'a TomlNode,
        table: &TypedTable<'_>,
    ) -> Result<ChangeSpec, PathFileError> {
        let earlier = self
            .changed
            .entry((route.to_owned(), hop, forward))
            .or_default();
        earlier.insert(0, set);
        let layers = earlier
            .iter()
            .copied()
            .chain(list_layers(node, forward))
            .collect();
        let to = read_link(&TypedTable::layered(layers, &table.key("set")))?;
        Ok(ChangeSpec::Link {
            route: route.to_owned(),
            hop,
            forward,
            to: Box::new(to),
        })
    }
}

/// Returns the index of the hop that the event names by number (from 1) or by name.
fn find_hop(
    node: &TomlNode,
    hops: &[TomlNode],
    table: &TypedTable<'_>,
) -> Result<usize, PathFileError> {
    let text = node.scalar().unwrap_or_default();
    let by_number = match text.parse::<usize>() {
        Ok(number) => number.checked_sub(1).filter(|index| *index < hops.len()),
        Err(_) if text == "last" => hops.len().checked_sub(1),
        Err(_) => None,
    };
    let named = |hop: &TomlNode| hop.get("name").and_then(TomlNode::scalar) == Some(text);
    by_number
        .or_else(|| hops.iter().position(named))
        .ok_or_else(|| {
            let allowed = format!("1 to {}, `last`, or the name of a hop", hops.len());
            table
                .refuse("hop", "not a hop of this route")
                .allowing(allowed)
        })
}

/// Returns the directions of the event: `true` is forward.
fn read_directions(table: &TypedTable<'_>) -> Result<&'static [bool], PathFileError> {
    match table.text("direction")?.as_deref() {
        None | Some("both") => Ok(&[true, false]),
        Some("forward") => Ok(&[true]),
        Some("reverse") => Ok(&[false]),
        Some(_) => Err(table
            .refuse("direction", "not a direction")
            .allowing("forward, reverse, both")),
    }
}
