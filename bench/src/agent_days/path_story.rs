//! The changes of a path, and the events and causes that an agent must report.

/// One kind of change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PathStory {
    pub name: &'static str,
    /// The quantities that it certainly changes; one of them must have an event.
    pub moves: &'static [&'static str],
    /// The causes that are right as the first cause.
    pub causes: &'static [&'static str],
    /// The event as lines of a path file; `AT`, `LOW` and `HIGH` stand for a time and two rates.
    pub event: &'static str,
}

const RATES: &[&str] = &["goodput", "available", "capacity"];

pub const STORIES: &[PathStory] = &[
    PathStory {
        name: "a route with more delay",
        moves: &["rtt_floor"],
        causes: &["route_change"],
        event: "at = \"AT s\"\nroute = \"longer\"",
    },
    PathStory {
        name: "a route with a slower link",
        moves: RATES,
        causes: &["route_change"],
        event: "at = \"AT s\"\nroute = \"slower\"",
    },
    PathStory {
        name: "a slower link on the same route",
        moves: RATES,
        causes: &["capacity_change"],
        event: "at = \"AT s\"\nhop = 4\nset = { rate = \"LOW Mbit/s\", queue = \"40 ms\" }",
    },
    PathStory {
        name: "more traffic of others",
        moves: &["available", "goodput"],
        causes: &["cross_traffic"],
        event: "at = \"AT s\"\nhop = 4\n\
                set = { cross = { rate = \"HIGH Mbit/s\", pattern = \"poisson\" } }",
    },
    PathStory {
        name: "a shaper",
        moves: RATES,
        causes: &["shaper_appeared"],
        event: "at = \"AT s\"\nhop = 3\ndirection = \"forward\"\n\
                set = { shaper = { peak = \"90 Mbit/s\", sustained = \"LOW Mbit/s\", burst = \"60 kB\" }, queue = \"400 kB\" }",
    },
];
