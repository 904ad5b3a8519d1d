//! Report v1: the published format, used for files, JSON, archive and API alike.
//!
//! A report holds the plan, the observation and the conclusions of a measurement as plain data.
//! Integers carry their unit in their name (`_bytes`, `_us`, `_bps` in bit/s); `_ratio` runs from 0
//! to 1; an absent field was not measured. The observation ([`observation`]) is separate from the
//! conclusions ([`analysis`]), so that an old report can be analysed again.
//!
//! The format only grows: new fields are optional, and no field changes its meaning or is removed.

pub mod analysis;
pub mod asymmetry;
pub mod available;
pub mod capture;
pub mod case;
pub mod comparison;
pub mod copy;
pub mod event;
pub mod host;
pub mod imported;
pub mod load;
pub mod observation;
pub mod path;
pub mod plan;
pub mod predict;
pub mod quantity;
pub mod report_kind;
pub mod scan;
pub mod series;
pub mod site;

pub use report_kind::{
    AnyReport, AvailableReport, CopyReport, HostReport, ImportedReport, ListColumns, LoadReport,
    PathReport, PredictionReport, ReportContent, ReportKind, ScanReport, ThroughputReport,
};

use serde::{Deserialize, Serialize};
use serde_with_macros::skip_serializing_none;

/// The value of [`Report::schema`] that this version writes and reads.
pub const SCHEMA: &str = "longhaul.report/1";

/// The envelope that all kinds of reports share.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Report<
    P = plan::ThroughputPlan,
    O = observation::ThroughputObservation,
    A = analysis::ThroughputAnalysis,
> {
    pub schema: String,
    pub kind: ReportKind,
    pub run: RunInfo,
    pub plan: P,
    pub observation: O,
    pub analysis: A,
    pub findings: Vec<ReportFinding>,
    pub caveats: Vec<ReportCaveat>,
}

impl<P, O, A> Report<P, O, A>
where
    Self: ReportContent,
{
    /// Returns a report of this schema and kind, still without findings and caveats.
    pub fn new(run: RunInfo, plan: P, observation: O, analysis: A) -> Self {
        Report {
            schema: SCHEMA.to_owned(),
            kind: Self::KIND,
            run,
            plan,
            observation,
            analysis,
            findings: Vec::new(),
            caveats: Vec::new(),
        }
    }

    /// Adds findings, and the caveats that are not in the report yet.
    #[must_use]
    pub fn with_notes(mut self, findings: Vec<ReportFinding>, caveats: Vec<ReportCaveat>) -> Self {
        self.findings.extend(findings);
        for caveat in caveats {
            if !self.caveats.contains(&caveat) {
                self.caveats.push(caveat);
            }
        }
        self
    }
}

/// One execution of a plan.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunInfo {
    /// Unique; sorts by start time.
    pub id: String,
    /// UTC, RFC 3339.
    pub started_at: String,
    /// Wall time of the whole run, setup and teardown included.
    pub duration_us: u64,
    /// Version of the program that made the report.
    pub longhaul: String,
    pub initiator: RunParty,
    pub responder: RunParty,
    /// The larger run that this one is a probe of.
    pub part_of: Option<ParentRun>,
}

/// The place of a run in a scan or a proof.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ParentRun {
    /// Id of the larger run.
    pub id: String,
    /// Index of the cell or trial, from 0.
    pub index: u32,
}

/// One of the two peers of a run.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct RunParty {
    /// The name that the user gave, or the host's own name.
    pub host: String,
    pub address: Option<String>,
    pub longhaul: Option<String>,
    pub kernel: Option<String>,
    pub cores: Option<u32>,
}

/// A problem of the path or of a host, with the evidence for and against it and advice.
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = Finding))]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ReportFinding {
    /// A stable word: `receive_window`, `policer`, `deep_queue`, `short_run`, …
    pub cause: String,
    /// One sentence that includes the numbers.
    pub summary: String,
    pub confidence_ratio: f64,
    pub supports: Vec<String>,
    pub contradicts: Vec<String>,
    pub advice: Vec<FindingAdvice>,
}

impl ReportFinding {
    /// Creates a finding without evidence and advice yet.
    pub fn new(cause: &str, confidence_ratio: f64, summary: impl Into<String>) -> ReportFinding {
        ReportFinding {
            cause: cause.to_owned(),
            summary: summary.into(),
            confidence_ratio,
            supports: Vec::new(),
            contradicts: Vec::new(),
            advice: Vec::new(),
        }
    }

    /// Adds evidence for the cause.
    pub fn support(&mut self, text: impl Into<String>) {
        self.supports.push(text.into());
    }

    /// Adds evidence against the cause.
    pub fn contradict(&mut self, text: impl Into<String>) {
        self.contradicts.push(text.into());
    }

    /// Adds evidence that supports the cause, or else contradicts it.
    pub fn add_evidence(&mut self, supports: bool, text: impl Into<String>) {
        let texts = if supports { &mut self.supports } else { &mut self.contradicts };
        texts.push(text.into());
    }

    /// Adds advice and returns it, so that a command or an expected rate can be set.
    pub fn advise(&mut self, place: &str, text: impl Into<String>) -> &mut FindingAdvice {
        self.advice.push_mut(FindingAdvice::new(place, text))
    }
}

/// A remedy, with its place and its expected effect.
#[skip_serializing_none]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = Advice))]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FindingAdvice {
    /// `sender`, `receiver`, `initiator`, `path`.
    pub place: String,
    pub text: String,
    /// A command to paste, if there is one.
    pub command: Option<String>,
    /// Expected goodput after the change, if it can be predicted.
    pub expected_bps: Option<u64>,
}

impl FindingAdvice {
    /// Creates advice without a command.
    pub fn new(place: &str, text: impl Into<String>) -> FindingAdvice {
        FindingAdvice {
            place: place.to_owned(),
            text: text.into(),
            command: None,
            expected_bps: None,
        }
    }
}

/// A limitation of this measurement; the result is valid within it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReportCaveat {
    /// A stable word: `buffer_clipped`, `busy_machine`, `not_archived`, …
    pub code: String,
    pub text: String,
}

impl ReportCaveat {
    pub fn new(code: &str, text: impl Into<String>) -> Self {
        ReportCaveat { code: code.to_owned(), text: text.into() }
    }
}
