//! The kinds of reports. One line of `define_report_kinds!` defines a kind.

use super::analysis::ThroughputAnalysis;
use super::observation::ThroughputObservation;
use super::plan::ThroughputPlan;
use super::{
    Report, ReportCaveat, ReportFinding, RunInfo, available, copy, flows, host, imported, latency,
    load, path, predict, scan,
};
use crate::serde_name;
use serde::{Deserialize, Deserializer, Serialize};
use serde_with_macros::skip_serializing_none;

/// The columns of the run list, which are read without parsing the report.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ListColumns {
    pub streams: Option<u32>,
    pub goodput_bps: Option<u64>,
    pub limited_by: Option<&'static str>,
    pub analysis_version: u32,
    pub values: RunValues,
}

/// The values of a run in a list besides its throughput; each kind has some of them.
#[skip_serializing_none]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct RunValues {
    /// Minimum RTT of a path; median RTT of a load run before the load.
    pub rtt_us: Option<u64>,
    /// Rise of the median RTT under the first load.
    pub rtt_rise_us: Option<u64>,
    /// Lost probes of a path.
    pub loss_ratio: Option<f64>,
    pub hops: Option<u32>,
    /// Available bandwidth in the measured direction, forward if both were measured.
    pub available_bps: Option<u64>,
    /// Capacity in the same direction.
    pub capacity_bps: Option<u64>,
    /// Settings of a host that limit a path.
    pub limiting_settings: Option<u32>,
    /// Settings of a host that could be better.
    pub advised_settings: Option<u32>,
    /// Window of the setting that a scan recommends; absent: autotuned.
    pub window_bytes: Option<u64>,
}

/// A report whose kind is known from its type.
pub trait ReportContent: Serialize + Sized {
    const KIND: ReportKind;

    fn list_columns(&self) -> ListColumns;

    /// Returns the report if it is of this kind.
    fn from_any(report: AnyReport) -> Option<Self>;
}

macro_rules! define_report_kinds {
    ($($(#[$doc:meta])* $kind:ident:
       $report:ident<$plan:ty, $observation:ty, $analysis:ty>, $columns:path;)*) => {
        $($(#[$doc])* pub type $report = Report<$plan, $observation, $analysis>;)*

        /// A report of any kind.
        #[derive(Debug, Clone, PartialEq, Serialize)]
        #[serde(untagged)]
        pub enum AnyReport {
            $($kind(Box<$report>),)*
        }

        /// The kinds of report v1.
        #[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = Kind))]
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        pub enum ReportKind {
            $($kind,)*
        }

        impl ReportKind {
            pub const ALL: &[ReportKind] = &[$(ReportKind::$kind,)*];

            /// Returns the word used in JSON and in text.
            pub fn word(self) -> &'static str {
                serde_name::name_variant(&self)
            }
        }

        impl AnyReport {
            pub fn kind(&self) -> ReportKind {
                match self {
                    $(AnyReport::$kind(_) => ReportKind::$kind,)*
                }
            }

            pub fn run(&self) -> &RunInfo {
                match self {
                    $(AnyReport::$kind(report) => &report.run,)*
                }
            }

            pub fn findings(&self) -> &[ReportFinding] {
                match self {
                    $(AnyReport::$kind(report) => &report.findings,)*
                }
            }

            pub fn caveats(&self) -> &[ReportCaveat] {
                match self {
                    $(AnyReport::$kind(report) => &report.caveats,)*
                }
            }

            pub fn caveats_mut(&mut self) -> &mut Vec<ReportCaveat> {
                match self {
                    $(AnyReport::$kind(report) => &mut report.caveats,)*
                }
            }

            pub fn list_columns(&self) -> ListColumns {
                match self {
                    $(AnyReport::$kind(report) => report.list_columns(),)*
                }
            }

            /// Reads a report of a known kind.
            pub fn deserialize_kind<'de, D: Deserializer<'de>>(
                kind: ReportKind,
                source: D,
            ) -> Result<AnyReport, D::Error> {
                match kind {
                    $(ReportKind::$kind => Deserialize::deserialize(source).map(AnyReport::$kind),)*
                }
            }
        }

        $(
            impl ReportContent for $report {
                const KIND: ReportKind = ReportKind::$kind;

                fn list_columns(&self) -> ListColumns {
                    let analysis_version = self.analysis.version;
                    ListColumns { analysis_version, ..$columns(self) }
                }

                fn from_any(report: AnyReport) -> Option<Self> {
                    match report {
                        AnyReport::$kind(report) => Some(*report),
                        _ => None,
                    }
                }
            }
        )*
    };
}

define_report_kinds! {
    /// A report of one bulk throughput run.
    Throughput:
        ThroughputReport<ThroughputPlan, ThroughputObservation, ThroughputAnalysis>, throughput_columns;
    /// A report of a scan over settings.
    Scan:
        ScanReport<scan::ScanPlan, scan::ScanObservation, scan::ScanAnalysis>, scan_columns;
    /// A report of an audit of one host.
    Host:
        HostReport<host::AuditPlan, host::AuditObservation, host::AuditAnalysis>, host_columns;
    /// A report of a prediction.
    Predict:
        PredictionReport<predict::PredictionPlan, predict::PredictionObservation,
            predict::PredictionAnalysis>, prediction_columns;
    /// A report of a path: round trips, route, path MTU.
    Path:
        PathReport<path::PathPlan, path::PathObservation, path::PathAnalysis>, path_columns;
    /// A report of capacity and available bandwidth.
    Available:
        AvailableReport<available::AvailablePlan, available::AvailableObservation,
            available::AvailableAnalysis>, available_columns;
    /// A report of the effect of bulk load on delay, loss and other flows.
    Load:
        LoadReport<load::LoadPlan, load::LoadObservation, load::LoadAnalysis>, load_columns;
    /// A report of a measurement by another program.
    Imported:
        ImportedReport<imported::ImportPlan, imported::ImportedObservation,
            imported::ImportedAnalysis>, imported_columns;
    /// A report of files copied to another host.
    Copy:
        CopyReport<copy::CopyPlan, copy::CopyObservation, copy::CopyAnalysis>, copy_columns;
    /// A report of flows of other programs.
    Flows:
        FlowsReport<flows::FlowsPlan, flows::FlowsObservation, flows::FlowsAnalysis>, flows_columns;
    /// A report of latency by STAMP or TWAMP Light.
    Latency:
        LatencyReport<latency::LatencyPlan, latency::LatencyObservation,
            latency::LatencyAnalysis>, latency_columns;
}

fn prediction_columns(_: &PredictionReport) -> ListColumns {
    ListColumns::default()
}

/// Returns the columns of a kind without a goodput.
fn columns_with_values(values: RunValues) -> ListColumns {
    ListColumns { values, ..ListColumns::default() }
}

fn host_columns(report: &HostReport) -> ListColumns {
    let verdicts = &report.analysis.verdicts;
    let count = |grade| Some(verdicts.iter().filter(|it| it.grade == grade).count() as u32);
    columns_with_values(RunValues {
        limiting_settings: count(host::AuditGrade::Limits),
        advised_settings: count(host::AuditGrade::Advice),
        ..RunValues::default()
    })
}

fn path_columns(report: &PathReport) -> ListColumns {
    let rtt = report.analysis.rtt;
    let route = report.observation.route.as_ref();
    columns_with_values(RunValues {
        rtt_us: rtt.filter(|rtt| rtt.answered > 0).map(|rtt| rtt.min_ns / 1000),
        loss_ratio: rtt.map(|rtt| rtt.loss_ratio),
        hops: route.map(|route| route.hops.len() as u32),
        ..RunValues::default()
    })
}

fn available_columns(report: &AvailableReport) -> ListColumns {
    let analysis = &report.analysis;
    let estimate = analysis.forward.as_ref().or(analysis.reverse.as_ref());
    columns_with_values(RunValues {
        available_bps: estimate.and_then(|it| it.available_bps),
        capacity_bps: estimate.and_then(|it| it.capacity_bps),
        ..RunValues::default()
    })
}

fn load_columns(report: &LoadReport) -> ListColumns {
    let analysis = &report.analysis;
    columns_with_values(RunValues {
        rtt_us: analysis.idle.as_ref().map(|idle| idle.rtt_median_ns / 1000),
        rtt_rise_us: analysis.steps.iter().find_map(|step| step.rise_ns).map(|ns| ns / 1000),
        ..RunValues::default()
    })
}

fn latency_columns(report: &LatencyReport) -> ListColumns {
    let analysis = &report.analysis;
    columns_with_values(RunValues {
        rtt_us: analysis.rtt.map(|rtt| rtt.min_ns.unsigned_abs() / 1000),
        loss_ratio: (analysis.sent > 0).then_some(analysis.loss_ratio),
        ..RunValues::default()
    })
}

fn columns_with_streams(
    streams: u32,
    goodput_bps: Option<u64>,
    limited_by: &'static str,
) -> ListColumns {
    ListColumns {
        streams: Some(streams),
        goodput_bps,
        limited_by: Some(limited_by),
        ..ListColumns::default()
    }
}

fn throughput_columns(report: &ThroughputReport) -> ListColumns {
    let analysis = &report.analysis;
    let limited_by = analysis.limited_by.word();
    columns_with_streams(report.plan.streams, analysis.goodput_bps, limited_by)
}

/// Uses the recommended setting, forward first.
fn scan_columns(report: &ScanReport) -> ListColumns {
    let mut directions = report.analysis.directions.iter();
    let choice = directions.find_map(|direction| direction.recommended.as_ref());
    choice.map_or_else(ListColumns::default, |choice| {
        let goodput = Some(choice.goodput_bps);
        let limited_by = choice.limited_by.word();
        let window_bytes = choice.setting.window_bytes;
        let values = RunValues { window_bytes, ..RunValues::default() };
        ListColumns { values, ..columns_with_streams(choice.setting.streams, goodput, limited_by) }
    })
}

/// Only output with the TCP counters of an end has a limiter.
fn imported_columns(report: &ImportedReport) -> ListColumns {
    ListColumns {
        streams: report.analysis.streams,
        goodput_bps: report.analysis.goodput_bps,
        limited_by: report.analysis.transfers.first().map(|it| it.run.limited_by.word()),
        values: RunValues { rtt_us: report.analysis.rtt_min_us, ..RunValues::default() },
        ..ListColumns::default()
    }
}

/// The limiters of a copy have their own words.
fn copy_columns(report: &CopyReport) -> ListColumns {
    let limited_by = report.analysis.limited_by.word();
    columns_with_streams(report.plan.streams, report.analysis.goodput_bps, limited_by)
}

/// Uses the busiest transfer.
fn flows_columns(report: &FlowsReport) -> ListColumns {
    report.observation.transfers.first().zip(report.analysis.transfers.first()).map_or_else(
        ListColumns::default,
        |(seen, concluded)| {
            let run = &concluded.run;
            columns_with_streams(seen.plan.streams, run.goodput_bps, run.limited_by.word())
        },
    )
}
