//! A published claim as data, and the result of checking it.
//!
//! Figures are texts with units, as printed: `4.92 GB`, `1001 s`, `about 17 min`, `> 830 Mbit/s`.
//! The number of printed digits is part of the claim. docs/claims.md has an example of each field.

use longhaul_model::serde_name;
use serde::{Deserialize, Serialize};
use serde_with_macros::skip_serializing_none;

/// A published result of a transfer. Every field except the name may be absent.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PublishedClaim {
    pub name: String,
    /// The publication.
    pub source: Option<String>,
    /// As printed.
    pub date: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub transfers: Vec<ClaimedTransfer>,
    pub distance: Option<ClaimedDistance>,
    pub mark: Option<ClaimedMark>,
    /// RTT of the idle path.
    pub rtt: Option<String>,
}

/// Several claims in one file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClaimsFile {
    pub claims: Vec<PublishedClaim>,
}

/// One transfer, in the printed figures.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClaimedTransfer {
    pub name: Option<String>,
    pub volume: Option<String>,
    pub duration: Option<String>,
    /// The rate with the most printed digits.
    pub rate: Option<String>,
    /// The rates of all of its streams.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub streams: Vec<String>,
    pub buffers: Option<ClaimedBuffers>,
}

/// The same volume as a number of buffers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClaimedBuffers {
    pub count: String,
    pub size: String,
}

#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClaimedDistance {
    /// The total distance, in every printed unit.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub totals: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub legs: Vec<ClaimedLeg>,
    /// Cities of the routers in the order of the trace.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub routers: Vec<String>,
    /// The point that represents a city: `airport`, or other words.
    pub points: Option<String>,
}

/// The leg from one city to the next.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClaimedLeg {
    pub from: String,
    pub to: String,
    pub length: Option<String>,
}

/// Rate times distance, as in the Land Speed Record.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClaimedMark {
    pub value: String,
    /// The factors that the mark was computed from; absent: those of the transfer and the distance.
    pub rate: Option<String>,
    pub distance: Option<String>,
    /// The mark that it claims to beat, and the gain.
    pub previous: Option<String>,
    pub gain: Option<String>,
}

/// The result of checking one claim.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CheckedClaim {
    pub schema: String,
    pub claim: PublishedClaim,
    pub checks: Vec<ClaimCheck>,
}

impl CheckedClaim {
    /// Reports whether a figure differs or is impossible.
    pub fn has_wrong_figure(&self) -> bool {
        let mut checks = self.checks.iter();
        checks.any(|check| check.verdict >= ClaimVerdict::Differs)
    }
}

/// The value of [`CheckedClaim::schema`].
pub const SCHEMA: &str = "longhaul.claim-check/1";

/// One comparison of figures.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClaimCheck {
    /// A stable word for what was compared.
    pub check: String,
    pub verdict: ClaimVerdict,
    /// One sentence that includes the figures.
    pub text: String,
    /// A change that would make the figures agree.
    pub remedy: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClaimVerdict {
    /// The figures agree within their printed digits.
    Agrees,
    /// They agree, but a detail is missing, or a figure was rounded before it was used.
    Loose,
    /// They disagree.
    Differs,
    /// No network can do this.
    Impossible,
}

impl ClaimVerdict {
    /// The word used in JSON and in text.
    pub fn word(self) -> &'static str {
        serde_name::name_variant(&self)
    }
}
