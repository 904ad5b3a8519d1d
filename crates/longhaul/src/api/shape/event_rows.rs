//! Lasting changes and their causes, as report v1 has them.

use super::series_rows::{Pair, Quantity};
use longhaul_model::report::v1::{self, event};
use serde::Serialize;
use utoipa::ToSchema;

/// The state of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum State {
    Suspected,
    Confirmed,
    Withdrawn,
    Recovered,
}

impl From<event::EventState> for State {
    fn from(state: event::EventState) -> Self {
        match state {
            event::EventState::Suspected => State::Suspected,
            event::EventState::Confirmed => State::Confirmed,
            event::EventState::Withdrawn => State::Withdrawn,
            event::EventState::Recovered => State::Recovered,
        }
    }
}

/// Values between two changes, in the unit of the quantity.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, ToSchema)]
pub struct Level {
    pub median: f64,
    /// Median absolute deviation.
    pub deviation: f64,
    pub samples: u32,
}

impl From<event::QuantityLevel> for Level {
    fn from(level: event::QuantityLevel) -> Self {
        Level {
            median: level.median,
            deviation: level.deviation,
            samples: level.samples,
        }
    }
}

/// A lasting change of one quantity of one pair. The id stays the same if the change point moves a
/// little.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct Event {
    pub id: String,
    pub pair: Pair,
    pub quantity: Quantity,
    pub state: State,
    /// The change lies between the last value before it and the first one after it.
    #[schema(min_items = 2, max_items = 2)]
    pub between_us: [i64; 2],
    pub before: Level,
    pub after: Level,
    /// `after` divided by `before`; absent if `before` is zero.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub change_ratio: Option<f64>,
    /// Strength of the evidence; the threshold is 1.
    pub score: f64,
    pub autocorrelation: f64,
    pub announced_at_us: i64,
    /// The event that restored the level.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recovered_by: Option<String>,
    /// The most likely cause first; empty if none was found.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
    pub causes: Vec<Finding>,
    /// Things that did not change, as sentences.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
    pub unchanged: Vec<String>,
    /// Other paths that changed at the same time, and what they share.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scope: Option<String>,
    /// Run ids of measurements that this event requested.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
    pub follow_ups: Vec<String>,
}

impl From<event::ChangeEvent> for Event {
    fn from(event: event::ChangeEvent) -> Self {
        Event {
            id: event.id,
            pair: event.pair.into(),
            quantity: event.quantity.into(),
            state: event.state.into(),
            between_us: event.between_us,
            before: event.before.into(),
            after: event.after.into(),
            change_ratio: event.change_ratio,
            score: event.score,
            autocorrelation: event.autocorrelation,
            announced_at_us: event.announced_at_us,
            recovered_by: event.recovered_by,
            causes: event.causes.into_iter().map(Finding::from).collect(),
            unchanged: event.unchanged,
            scope: event.scope,
            follow_ups: event.follow_ups,
        }
    }
}

/// A cause, with the evidence for and against, and advice.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct Finding {
    /// A stable code.
    pub cause: String,
    pub summary: String,
    pub confidence_ratio: f64,
    pub supports: Vec<String>,
    pub contradicts: Vec<String>,
    pub advice: Vec<Advice>,
}

impl From<v1::ReportFinding> for Finding {
    fn from(finding: v1::ReportFinding) -> Self {
        let advice = |advice: v1::FindingAdvice| Advice {
            place: advice.place,
            text: advice.text,
            command: advice.command,
            expected_bps: advice.expected_bps,
        };
        Finding {
            cause: finding.cause,
            summary: finding.summary,
            confidence_ratio: finding.confidence_ratio,
            supports: finding.supports,
            contradicts: finding.contradicts,
            advice: finding.advice.into_iter().map(advice).collect(),
        }
    }
}

/// An advised action, its place, and the expected result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct Advice {
    pub place: String,
    pub text: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expected_bps: Option<u64>,
}
