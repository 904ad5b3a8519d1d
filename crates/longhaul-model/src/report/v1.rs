//! Report v1: the published format, used for files, JSON, archive and API alike.
//!
//! A report holds the plan, the observation and the conclusions of a measurement as plain data.
//! Integers carry their unit in their name (`_bytes`, `_us`, `_bps` in bit/s); `_ratio` runs from 0
//! to 1; an absent field was not measured. The observation ([`observation`]) is separate from the
//! conclusions ([`analysis`]), so that an old report can be analysed again.
//!
//! The format only grows: new fields are optional, and no field changes its meaning or is removed.

pub mod analysis;
pub mod available;
pub mod capture;
pub mod case;
pub mod copy;
pub mod flows;
pub mod host;
pub mod imported;
pub mod latency;
pub mod load;
pub mod observation;
pub mod path;
pub mod plan;
pub mod predict;
pub mod quantity;
pub mod report_kind;
pub mod run_environment;
pub mod scan;

pub use report_kind::{
    AnyReport, AvailableReport, CopyReport, FlowsReport, HostReport, ImportedReport, LatencyReport,
    ListColumns, LoadReport, PathReport, PredictionReport, ReportContent, ReportKind, RunValues,
    ScanReport, ThroughputReport,
};
pub use run_environment::RunEnvironment;

use crate::serde_name;
use analysis::Limiter;
use path::NarrowLink;
use quantity::PathQuantity;
use scan::{HistogramBin, TopTenth, TransferSetting};
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

    /// Adds findings, with the server in their commands, and the caveats that are not in the
    /// report yet.
    #[must_use]
    pub fn with_notes(
        mut self,
        mut findings: Vec<ReportFinding>,
        caveats: Vec<ReportCaveat>,
    ) -> Self {
        let server = self.run.responder.command_words();
        for finding in &mut findings {
            finding.fill_server(&server);
        }
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
    /// Absent for imported results and for runs of earlier versions.
    pub environment: Option<RunEnvironment>,
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
    /// The server's port, if it is not [`DEFAULT_PORT`].
    pub port: Option<u16>,
    pub longhaul: Option<String>,
    pub kernel: Option<String>,
    pub cores: Option<u32>,
    /// Addresses of the server's name that failed before `address` was used.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failed_addresses: Vec<FailedAddress>,
}

/// An address to which no connection could be made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailedAddress {
    pub address: String,
    /// The error of the kernel or of a router, or the time without an answer.
    pub reason: String,
}

/// The port of a server unless another one is given; the same as iperf3's.
pub const DEFAULT_PORT: u16 = 5201;

impl RunParty {
    /// Returns the arguments that name this server in a command: `far`, `far -p 5300`.
    pub fn command_words(&self) -> String {
        match self.port {
            Some(port) => format!("{} -p {port}", self.host),
            None => self.host.clone(),
        }
    }
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

/// The word that stands for the server in a command until the report is complete.
pub const SERVER_PLACEHOLDER: &str = "HOST";

impl ReportFinding {
    /// Replaces [`SERVER_PLACEHOLDER`] in the commands of the advice by the server.
    pub fn fill_server(&mut self, server: &str) {
        for command in self.advice.iter_mut().filter_map(|it| it.command.as_mut()) {
            let words = command.split(' ');
            let filled = words.map(|word| if word == SERVER_PLACEHOLDER { server } else { word });
            *command = filled.collect::<Vec<_>>().join(" ");
        }
    }

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
    /// The code of a measurement that its user ended early.
    pub const INTERRUPTED: &str = "interrupted";
    /// The code of a measurement whose peer was lost before the end.
    pub const PEER_LOST: &str = "peer_lost";
    /// The code of a measurement that ended at the longest time that the server grants.
    pub const TIME_GRANTED: &str = "time_granted";
    /// The code of a watch that may end before a congestion window has grown back from a loss.
    pub const SHORT_WATCH: &str = "short_watch";

    /// Returns whether the measurement ended early, so that its result is a partial one.
    pub fn is_early_end(&self) -> bool {
        [Self::INTERRUPTED, Self::PEER_LOST].contains(&self.code.as_str())
    }

    pub fn new(code: &str, text: impl Into<String>) -> Self {
        ReportCaveat { code: code.to_owned(), text: text.into() }
    }
}

/// Two hosts by their names in the watch file, in the direction of the payload.
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = Pair))]
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct HostPair {
    /// The sender.
    pub from: String,
    /// The receiver.
    pub to: String,
}

/// One value of one run.
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = Point))]
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct SeriesPoint {
    /// Start of the run, since 1970-01-01T00:00:00Z.
    pub at_us: i64,
    /// In the unit of the quantity.
    pub value: f64,
}

/// All points of a time span, summarized.
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = Bucket))]
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct SeriesBucket {
    /// Start of the span.
    pub at_us: i64,
    pub duration_us: u64,
    /// Runs that gave a value.
    pub samples: u32,
    pub min: f64,
    pub median: f64,
    pub max: f64,
}

/// Points, or buckets if there are more points than requested.
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = Series))]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct QuantitySeries {
    pub pair: HostPair,
    pub quantity: PathQuantity,
    pub points: Vec<SeriesPoint>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub buckets: Vec<SeriesBucket>,
}

/// The summary of an archive.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SiteReport {
    pub schema: String,
    /// `site`.
    pub kind: String,
    pub longhaul: String,
    /// Period of the runs considered; absent: there are none.
    pub period: Option<TimePeriod>,
    /// Sorted by name.
    pub paths: Vec<SitePath>,
    pub caveats: Vec<ReportCaveat>,
}

/// One direction of one path.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SitePath {
    pub pair: HostPair,
    /// Runs of any kind.
    pub run_count: u32,
    /// Start of the latest run.
    pub last_at_us: i64,
    /// Bulk runs with a goodput, probes of scans included.
    pub bulk_run_count: u32,
    /// 90th percentile of the goodput of the bulk runs; absent with fewer than ten of them.
    pub top_tenth: Option<TopTenth>,
    pub greatest_bps: Option<u64>,
    pub median_bps: Option<u64>,
    pub best: Option<BestSetting>,
    /// The limiter of most bulk runs.
    pub limited_by: Option<Limiter>,
    /// Minimum of all RTTs, and median of the minimum of each run.
    pub rtt_min_us: Option<u64>,
    pub rtt_median_us: Option<u64>,
    /// The latest estimate of each.
    pub capacity_bps: Option<SeriesPoint>,
    pub available_bps: Option<SeriesPoint>,
    /// From the latest measurement under load.
    pub narrow_link: Option<NarrowLink>,
}

/// The best setting on a path.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BestSetting {
    pub setting: TransferSetting,
    pub goodput_bps: u64,
    /// The number of runs with this setting.
    pub repeats: u32,
    /// The scan that recommends it; absent: the setting with the best median among plain runs.
    pub scan_id: Option<String>,
}

/// The state of an event.
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = State))]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EventState {
    /// The last values are outside the usual range, but too few for certainty.
    Suspected,
    /// The level has changed.
    Confirmed,
    /// A suspicion that was not confirmed.
    Withdrawn,
    /// A later event brought the level back.
    Recovered,
}

impl EventState {
    /// Returns the word used in JSON and in the archive.
    pub fn word(self) -> &'static str {
        serde_name::name_variant(&self)
    }
}

/// Values between two changes.
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = Level))]
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct QuantityLevel {
    /// Median, in the unit of the quantity.
    pub median: f64,
    /// Median absolute deviation from the median, in the same unit.
    pub deviation: f64,
    pub samples: u32,
}

/// One change. Its id is stable when later values shift its time a little.
#[skip_serializing_none]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = Event))]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ChangeEvent {
    pub id: String,
    pub pair: HostPair,
    pub quantity: PathQuantity,
    pub state: EventState,
    /// The change lies between the last value before it and the first one after it.
    #[cfg_attr(feature = "schema", schema(min_items = 2, max_items = 2))]
    pub between_us: [i64; 2],
    pub before: QuantityLevel,
    pub after: QuantityLevel,
    /// `after` / `before`; absent if `before` is zero.
    pub change_ratio: Option<f64>,
    /// Strength of the evidence; the threshold is 1.
    pub score: f64,
    /// Autocorrelation of the values, which weakens the evidence.
    pub autocorrelation: f64,
    /// Time of the agent's first announcement.
    pub announced_at_us: i64,
    /// The event that brought the level back.
    pub recovered_by: Option<String>,
    /// Causes, the most likely first; empty: no cause was found.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub causes: Vec<ReportFinding>,
    /// Sentences about what did not change.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unchanged: Vec<String>,
    /// Other paths that changed at the same time, and what they share.
    pub scope: Option<String>,
    /// Run ids of follow-up measurements.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub follow_ups: Vec<String>,
    /// Only in an event of several paths with a shared cause: what they share. Its pair, quantity and
    /// levels are those of the path that changed the most.
    pub shared: Option<SharedScope>,
    /// The id of the event of several paths that contains this one.
    pub part_of: Option<String>,
}

/// The extent of a change of several paths.
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SharedScope {
    /// The hops or hosts that the affected paths share: one of these, which the paths cannot tell apart.
    pub elements: Vec<ScopeElement>,
    pub quantities: Vec<PathQuantity>,
    /// Changes of the affected paths.
    pub affected: Vec<AffectedPath>,
    /// Paths that pass the first element and did not change.
    pub unaffected: Vec<HostPair>,
    /// The number of paths that pass the first element, both directions counted once.
    pub paths: u32,
    /// The number of these that changed.
    pub affected_paths: u32,
    /// The number of other paths that were compared.
    pub other_paths: u32,
    /// The number of these that changed at the same time.
    pub affected_other_paths: u32,
    /// The probability that chance alone puts so many changes on one element, corrected for the number
    /// of elements.
    pub chance_ratio: f64,
}

/// The kind of what several paths share.
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ScopeElementKind {
    /// An address that traces of the paths contain.
    Hop,
    /// A host, in the paths from it.
    Sender,
    /// A host, in the paths to it.
    Receiver,
    /// A host, in both directions.
    Host,
}

/// Something that several paths share.
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ScopeElement {
    pub kind: ScopeElementKind,
    /// Address of the hop, or name of the host.
    pub name: String,
}

/// The change of one path in an event of several.
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AffectedPath {
    pub pair: HostPair,
    pub quantity: PathQuantity,
    /// The id of its event.
    pub event: String,
}

/// Report on the two directions of paths.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AsymmetryReport {
    pub schema: String,
    /// `asymmetry`.
    pub kind: String,
    pub longhaul: String,
    /// Runs of the two directions that started farther apart are not matched.
    pub most_apart_us: u64,
    pub paths: Vec<PathAsymmetry>,
    pub caveats: Vec<ReportCaveat>,
}

/// The direction that carries more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AsymmetryVerdict {
    ForwardFaster,
    ReverseFaster,
    /// The difference may be due to chance.
    NoneSeen,
    /// Too few matched runs.
    CannotTell,
}

impl AsymmetryVerdict {
    /// Returns the word used in JSON.
    pub fn word(self) -> &'static str {
        serde_name::name_variant(&self)
    }
}

/// The two directions of one path.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PathAsymmetry {
    /// The pair in the forward direction.
    pub pair: HostPair,
    pub period: Option<TimePeriod>,
    /// In time order.
    pub matched: Vec<MatchedRuns>,
    /// Forward and reverse runs without a partner.
    pub unmatched_run_counts: [u32; 2],
    /// Median of forward / reverse over the matched runs; absent: no run matched.
    pub median_ratio: Option<f64>,
    /// 95 % confidence interval; absent with fewer than six matched runs.
    pub median_interval_ratio: Option<[f64; 2]>,
    /// Sign test: the probability of a result this one-sided if the directions were equal.
    pub p_value: Option<f64>,
    pub verdict: AsymmetryVerdict,
    /// Matched runs by their (forward - reverse) / (forward + reverse).
    pub histogram: Vec<HistogramBin>,
    /// Causes, the most likely first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub causes: Vec<ReportFinding>,
}

/// A forward run and a reverse run.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct MatchedRuns {
    /// Start of the forward run.
    pub at_us: i64,
    /// Start of the reverse run minus start of the forward run.
    pub apart_us: i64,
    pub forward_bps: u64,
    pub reverse_bps: u64,
    /// Forward / reverse.
    pub forward_by_reverse_ratio: f64,
    /// (forward - reverse) / (forward + reverse).
    pub asymmetry_ratio: f64,
}

/// The conclusion about a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChangeVerdict {
    /// The second sample is lower; chance alone would rarely cause this.
    Fell,
    /// The second sample is higher; chance alone would rarely cause this.
    Rose,
    /// The difference may be due to chance; the interval bounds the change that may be hidden.
    NoChangeSeen,
    /// Too few values for a conclusion, however far apart they are.
    CannotTell,
    /// One of the samples has no value.
    NotMeasured,
}

impl ChangeVerdict {
    /// Returns the word used in JSON.
    pub fn word(self) -> &'static str {
        serde_name::name_variant(&self)
    }
}

/// One quantity of one pair, before and after.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct QuantityChange {
    pub pair: HostPair,
    pub quantity: PathQuantity,
    /// Absent: no value.
    pub before: Option<QuantityLevel>,
    pub after: Option<QuantityLevel>,
    /// Later / earlier: the median ratio of all pairs of values. Only for rates and RTTs.
    pub change_ratio: Option<f64>,
    /// 95 % confidence interval; absent: too few values to bound it.
    pub change_interval_ratio: Option<[f64; 2]>,
    /// Later - earlier, in the unit of the quantity: the median difference of all pairs of values.
    /// Only for shares and counts, which may be zero.
    pub difference: Option<f64>,
    pub difference_interval: Option<[f64; 2]>,
    /// Probability of a difference this large between equal samples, for this test alone.
    pub p_value: Option<f64>,
    /// The p-value adjusted by Holm for all tests of one table; the verdict depends on it.
    pub p_adjusted: Option<f64>,
    /// `rank_sum_exact` or `rank_sum_normal`; absent: no test was possible.
    pub method: Option<String>,
    /// Autocorrelation of the values, if it weakened the evidence.
    pub correlation: Option<f64>,
    pub verdict: ChangeVerdict,
}

/// A time span since 1970-01-01T00:00:00Z, including its start and excluding its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct TimePeriod {
    pub begin_us: i64,
    pub end_us: i64,
}

impl TimePeriod {
    pub fn contains(self, at_us: i64) -> bool {
        (self.begin_us..self.end_us).contains(&at_us)
    }
}

/// One side of a comparison.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ComparisonSide {
    /// As the user specified it.
    pub asked: String,
    /// In time order.
    pub run_ids: Vec<String>,
    /// From the start of the first run to just after the start of the last one.
    pub period: Option<TimePeriod>,
}

/// The output of `longhaul report compare A B --json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ComparisonReport {
    pub schema: String,
    /// `comparison`.
    pub kind: String,
    pub longhaul: String,
    pub a: ComparisonSide,
    pub b: ComparisonSide,
    /// Throughput first.
    pub changes: Vec<QuantityChange>,
    pub caveats: Vec<ReportCaveat>,
}
