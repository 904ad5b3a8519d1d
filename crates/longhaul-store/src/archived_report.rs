//! Archived reports: their JSON, and the columns derived from each kind.

use crate::store_error::StoreError;
use longhaul_model::report::v1::analysis::Limiter;
use longhaul_model::report::v1::{
    AnyReport, AvailableReport, CopyReport, HostReport, ImportedReport, LoadReport, PathReport,
    PredictionReport, ReportKind, SCHEMA, ScanReport, ThroughputReport, scan,
};

/// The columns of the run list, which are read without parsing the report.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ListColumns {
    pub streams: Option<u32>,
    pub goodput_bps: Option<u64>,
    pub limited_by: Option<&'static str>,
    pub analysis_version: u32,
}

/// A report that can be stored in the archive.
pub trait ArchivedReport {
    fn list_columns(&self) -> ListColumns;

    /// Returns JSON on one line, as stored in the archive.
    fn to_json(&self) -> Result<String, serde_json::Error>;

    /// Returns the same JSON with indentation, for people.
    fn to_pretty_json(&self) -> Result<String, serde_json::Error>;
}

/// The JSON methods of a kind; only the type differs.
macro_rules! as_json {
    () => {
        fn to_json(&self) -> Result<String, serde_json::Error> {
            serde_json::to_string(self)
        }

        fn to_pretty_json(&self) -> Result<String, serde_json::Error> {
            serde_json::to_string_pretty(self)
        }
    };
}

fn columns_with_streams(
    streams: u32,
    goodput_bps: Option<u64>,
    limited_by: Limiter,
    version: u32,
) -> ListColumns {
    ListColumns {
        streams: Some(streams),
        goodput_bps,
        limited_by: Some(limited_by.word()),
        analysis_version: version,
    }
}

impl ArchivedReport for ThroughputReport {
    fn list_columns(&self) -> ListColumns {
        let analysis = &self.analysis;
        columns_with_streams(
            self.plan.streams,
            analysis.goodput_bps,
            analysis.limited_by,
            analysis.version,
        )
    }

    as_json!();
}

impl ArchivedReport for ScanReport {
    /// Uses the recommended setting, forward first.
    fn list_columns(&self) -> ListColumns {
        let version = self.analysis.version;
        let mut directions = self.analysis.directions.iter();
        let choice: Option<&scan::SettingChoice> =
            directions.find_map(|direction| direction.recommended.as_ref());
        let none = ListColumns {
            analysis_version: version,
            ..ListColumns::default()
        };
        choice.map_or(none, |choice| {
            let goodput = Some(choice.goodput_bps);
            columns_with_streams(choice.setting.streams, goodput, choice.limited_by, version)
        })
    }

    as_json!();
}

/// Implements [`ArchivedReport`] for kinds without a goodput.
macro_rules! filed_by_version {
    ($($kind:ty),*) => {$(
        impl ArchivedReport for $kind {
            fn list_columns(&self) -> ListColumns {
                ListColumns {
                    analysis_version: self.analysis.version,
                    ..ListColumns::default()
                }
            }

            as_json!();
        }
    )*};
}

filed_by_version!(
    HostReport,
    PredictionReport,
    PathReport,
    AvailableReport,
    LoadReport
);

impl ArchivedReport for ImportedReport {
    /// Output of other programs never names a limiter.
    fn list_columns(&self) -> ListColumns {
        ListColumns {
            streams: self.analysis.streams,
            goodput_bps: self.analysis.goodput_bps,
            limited_by: None,
            analysis_version: self.analysis.version,
        }
    }

    as_json!();
}

impl ArchivedReport for CopyReport {
    /// The limiters of a copy have their own words.
    fn list_columns(&self) -> ListColumns {
        ListColumns {
            streams: Some(self.plan.streams),
            goodput_bps: self.analysis.goodput_bps,
            limited_by: Some(self.analysis.limited_by.word()),
            analysis_version: self.analysis.version,
        }
    }

    as_json!();
}

impl ArchivedReport for AnyReport {
    fn list_columns(&self) -> ListColumns {
        match self {
            AnyReport::Throughput(run) => run.list_columns(),
            AnyReport::Scan(scan) => scan.list_columns(),
            AnyReport::Host(host) => host.list_columns(),
            AnyReport::Predict(predict) => predict.list_columns(),
            AnyReport::Path(path) => path.list_columns(),
            AnyReport::Available(available) => available.list_columns(),
            AnyReport::Load(load) => load.list_columns(),
            AnyReport::Imported(imported) => imported.list_columns(),
            AnyReport::Copy(copy) => copy.list_columns(),
        }
    }

    as_json!();
}

/// Parses a stored report of any kind.
pub fn parse_report(id: &str, text: &str) -> Result<AnyReport, StoreError> {
    let fail = |source| StoreError::Report {
        id: id.to_owned(),
        source,
    };
    // The schema and the kind are checked first, because a later version may not fit our types.
    let value: serde_json::Value = serde_json::from_str(text).map_err(fail)?;
    let unknown = |found: &str| StoreError::UnknownReport {
        id: id.to_owned(),
        found: found.to_owned(),
        known: SCHEMA,
    };
    let schema = value["schema"].as_str().unwrap_or_default();
    if schema != SCHEMA {
        return Err(unknown(schema));
    }
    let kind = value["kind"].clone();
    let Ok(kind) = serde_json::from_value::<ReportKind>(kind) else {
        return Err(unknown(&format!("kind {}", value["kind"])));
    };
    match kind {
        ReportKind::Throughput => serde_json::from_value(value).map(AnyReport::Throughput),
        ReportKind::Scan => serde_json::from_value(value).map(AnyReport::Scan),
        ReportKind::Host => serde_json::from_value(value).map(AnyReport::Host),
        ReportKind::Predict => serde_json::from_value(value).map(AnyReport::Predict),
        ReportKind::Path => serde_json::from_value(value).map(AnyReport::Path),
        ReportKind::Available => serde_json::from_value(value).map(AnyReport::Available),
        ReportKind::Load => serde_json::from_value(value).map(AnyReport::Load),
        ReportKind::Imported => serde_json::from_value(value).map(AnyReport::Imported),
        ReportKind::Copy => serde_json::from_value(value).map(AnyReport::Copy),
    }
    .map_err(fail)
}
