//! A published claim as data, and what its check found.
//!
//! Figures are texts with their unit, as they were printed: `4.92 GB`, `1001 s`, `about 17 min`,
//! `> 830 Mbit/s`. How many digits were printed is part of what was said. docs/claims.md has an
//! example of each field.

use serde::{Deserialize, Serialize};

/// What somebody says was reached. Every field but the name may be absent.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    pub name: String,
    /// Where it was published.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// As printed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub date: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub transfers: Vec<Transfer>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub distance: Option<Distance>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mark: Option<Mark>,
    /// Round trip of the path, idle.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rtt: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub windows: Vec<Window>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub links: Vec<Link>,
}

/// Several claims in one file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claims {
    pub claims: Vec<Claim>,
}

/// One transfer, in the figures that were printed of it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Transfer {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub volume: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration: Option<String>,
    /// The most exact one that was printed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<String>,
    /// Rates of its streams; all of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub streams: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub buffers: Option<Buffers>,
}

/// The same volume, counted in buffers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Buffers {
    pub count: String,
    pub size: String,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Distance {
    /// The whole of it, in every unit that was printed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub totals: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub legs: Vec<Leg>,
    /// Cities of the routers as the trace shows them, first to last.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub routers: Vec<String>,
    /// Which point stands for a city: `airport`, or in other words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub points: Option<String>,
}

/// From city to city.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Leg {
    pub from: String,
    pub to: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub length: Option<String>,
}

/// Rate by distance, as in the Land Speed Record.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mark {
    pub value: String,
    /// The factors that it was said to be made of; absent: those of the transfer and the distance.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub distance: Option<String>,
    /// The mark that it was said to beat, and by how much.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gain: Option<String>,
}

/// A window that was said to fit a rate.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Window {
    pub size: String,
    pub rate: String,
    pub rtt: String,
}

/// A link by its kind, with the rate that was printed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Link {
    pub name: String,
    pub rate: String,
}

/// What the check of one claim found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Checked {
    pub schema: String,
    pub claim: Claim,
    pub checks: Vec<Check>,
}

/// The value of [`Checked::schema`].
pub const SCHEMA: &str = "longhaul.claim-check/1";

/// One comparison of figures.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Check {
    /// A stable word: what was compared.
    pub check: String,
    pub verdict: Verdict,
    /// One sentence with the figures in it.
    pub text: String,
    /// What would make it agree.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The figures agree within their printed digits.
    Agrees,
    /// They agree, but something is not said, or was rounded before it was used.
    Loose,
    /// They do not agree.
    Differs,
    /// No network can do this.
    Impossible,
}

impl Verdict {
    /// The word used in JSON and in text.
    pub const fn word(self) -> &'static str {
        match self {
            Verdict::Agrees => "agrees",
            Verdict::Loose => "loose",
            Verdict::Differs => "differs",
            Verdict::Impossible => "impossible",
        }
    }
}
