//! Timed events: a change of route, or of one link.
//!
//! A change of a link lists only what changes. Everything else stays as the file and earlier events
//! set it, so every event is read on top of all earlier ones at the same link.

use super::hop_keys::{HopKeys, LinkKeys, build_link};
use super::{WEEK_S, config_values};
use crate::path_spec::{ChangeSpec, EventSpec, LinkPlace};
use longhaul_config::ConfigDocument;
use serde::Deserialize;
use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

const EVENTS_MAX: usize = 10_000;

/// An event as written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct EventKeys {
    #[serde(deserialize_with = "config_values::duration::<_, _, 0, WEEK_S>")]
    at: Duration,
    #[serde(default, deserialize_with = "config_values::line")]
    route: Option<String>,
    /// Number from 1, `last`, or name.
    #[serde(default, deserialize_with = "config_values::scalar")]
    hop: Option<String>,
    #[serde(default)]
    direction: LinkDirection,
    set: Option<LinkKeys>,
}

#[derive(Clone, Copy, Default, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum LinkDirection {
    #[default]
    Both,
    Forward,
    Reverse,
}

/// Reads events in the order of time.
pub(super) struct EventReader<'a> {
    document: &'a ConfigDocument<'a>,
    routes: BTreeMap<&'a str, &'a [HopKeys]>,
    /// The keys of the links that earlier events changed.
    changed: HashMap<LinkPlace, LinkKeys>,
}

impl<'a> EventReader<'a> {
    pub(super) fn new(
        document: &'a ConfigDocument<'a>,
        routes: BTreeMap<&'a str, &'a [HopKeys]>,
    ) -> Self {
        EventReader { document, routes, changed: HashMap::new() }
    }

    pub(super) fn read_events(&mut self, listed: &[EventKeys]) -> Vec<EventSpec> {
        if listed.len() > EVENTS_MAX {
            let what = format!("{} events", listed.len());
            self.document.add("events", what, format!("allowed: at most {EVENTS_MAX}"));
            return Vec::new();
        }
        let mut timed: Vec<(usize, &EventKeys)> = listed.iter().enumerate().collect();
        timed.sort_by_key(|(_, event)| event.at);
        let mut events = Vec::with_capacity(timed.len());
        for (index, event) in timed {
            let changes = self.read_changes(&format!("events.{index}"), event);
            events.extend(changes.into_iter().map(|change| EventSpec { at: event.at, change }));
        }
        events
    }

    fn read_changes(&mut self, at: &str, event: &EventKeys) -> Vec<ChangeSpec> {
        let route = event.route.clone().unwrap_or_else(|| "main".to_owned());
        let Some(hops) = self.routes.get(route.as_str()) else {
            let names: Vec<&str> = self.routes.keys().copied().collect();
            let advice = format!("allowed: {}", names.join(", "));
            self.document.reject(&format!("{at}.route"), "is not a route", advice);
            return Vec::new();
        };
        match (&event.hop, &event.set) {
            (None, None) if event.route.is_some() => vec![ChangeSpec::Route(route)],
            (Some(hop), Some(set)) => {
                let Some(hop) = find_hop(hop, hops) else {
                    let count = hops.len();
                    let advice = format!("allowed: 1 to {count}, `last`, or the name of a hop");
                    let why = "is not a hop of this route";
                    self.document.reject(&format!("{at}.hop"), why, advice);
                    return Vec::new();
                };
                [(true, LinkDirection::Reverse), (false, LinkDirection::Forward)]
                    .into_iter()
                    .filter(|(_, other)| event.direction != *other)
                    .map(|(forward, _)| {
                        let route = route.clone();
                        self.change_link(LinkPlace { route, hop, forward }, set, at)
                    })
                    .collect()
            }
            _ => {
                let advice = "allowed: `route` alone (changes to it), or `hop` with `set` (and \
                              `direction`; `route` then selects the route of the hop)";
                self.document.add(at, "not an event", advice);
                Vec::new()
            }
        }
    }

    fn change_link(&mut self, place: LinkPlace, set: &LinkKeys, at: &str) -> ChangeSpec {
        let hop = &self.routes[place.route.as_str()][place.hop];
        let link = hop.link(place.forward);
        let before = self.changed.get(&place).unwrap_or(&link);
        let now = set.over(before);
        let to = build_link(at, "set", &now, self.document);
        self.changed.insert(place.clone(), now);
        ChangeSpec::Link { place, to: Box::new(to) }
    }
}

/// Returns the index of the hop with this number (from 1) or name.
fn find_hop(text: &str, hops: &[HopKeys]) -> Option<usize> {
    let by_number = match text.parse::<usize>() {
        Ok(number) => number.checked_sub(1).filter(|index| *index < hops.len()),
        Err(_) if text == "last" => hops.len().checked_sub(1),
        Err(_) => None,
    };
    by_number.or_else(|| hops.iter().position(|hop| hop.name.as_deref() == Some(text)))
}
