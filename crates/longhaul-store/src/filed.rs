//! Archived reports: their JSON, and the columns derived from each kind.

use crate::error::StoreError;
use longhaul_model::report::v1::analysis::Limiter;
use longhaul_model::report::v1::{
    AnyReport, Available, Copied, Host, Imported, Kind, Load, Path, Predict, SCHEMA, Scan,
    Throughput, scan,
};

/// The columns of the run list, which are read without parsing the report.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Derived {
    pub streams: Option<u32>,
    pub goodput_bps: Option<u64>,
    pub limited_by: Option<&'static str>,
    pub analysis_version: u32,
}

/// A report that can be stored in the archive.
pub trait Filed {
    fn derived(&self) -> Derived;

    /// Returns JSON on one line, as stored in the archive.
    fn text(&self) -> Result<String, serde_json::Error>;

    /// Returns the same JSON with indentation, for people.
    fn indented(&self) -> Result<String, serde_json::Error>;
}

/// The JSON methods of a kind; only the type differs.
macro_rules! as_json {
    () => {
        fn text(&self) -> Result<String, serde_json::Error> {
            serde_json::to_string(self)
        }

        fn indented(&self) -> Result<String, serde_json::Error> {
            serde_json::to_string_pretty(self)
        }
    };
}

fn of(streams: u32, goodput_bps: Option<u64>, limited_by: Limiter, version: u32) -> Derived {
    Derived {
        streams: Some(streams),
        goodput_bps,
        limited_by: Some(limited_by.word()),
        analysis_version: version,
    }
}

impl Filed for Throughput {
    fn derived(&self) -> Derived {
        let analysis = &self.analysis;
        of(
            self.plan.streams,
            analysis.goodput_bps,
            analysis.limited_by,
            analysis.version,
        )
    }

    as_json!();
}

impl Filed for Scan {
    /// Uses the recommended setting, forward first.
    fn derived(&self) -> Derived {
        let version = self.analysis.version;
        let mut directions = self.analysis.directions.iter();
        let choice: Option<&scan::Choice> =
            directions.find_map(|direction| direction.recommended.as_ref());
        let none = Derived {
            analysis_version: version,
            ..Derived::default()
        };
        choice.map_or(none, |choice| {
            let goodput = Some(choice.goodput_bps);
            of(choice.setting.streams, goodput, choice.limited_by, version)
        })
    }

    as_json!();
}

/// Implements [`Filed`] for kinds without a goodput.
macro_rules! filed_by_version {
    ($($kind:ty),*) => {$(
        impl Filed for $kind {
            fn derived(&self) -> Derived {
                Derived {
                    analysis_version: self.analysis.version,
                    ..Derived::default()
                }
            }

            as_json!();
        }
    )*};
}

filed_by_version!(Host, Predict, Path, Available, Load);

impl Filed for Imported {
    /// Output of other programs never names a limiter.
    fn derived(&self) -> Derived {
        Derived {
            streams: self.analysis.streams,
            goodput_bps: self.analysis.goodput_bps,
            limited_by: None,
            analysis_version: self.analysis.version,
        }
    }

    as_json!();
}

impl Filed for Copied {
    /// The limiters of a copy have their own words.
    fn derived(&self) -> Derived {
        Derived {
            streams: Some(self.plan.streams),
            goodput_bps: self.analysis.goodput_bps,
            limited_by: Some(self.analysis.limited_by.word()),
            analysis_version: self.analysis.version,
        }
    }

    as_json!();
}

impl Filed for AnyReport {
    fn derived(&self) -> Derived {
        match self {
            AnyReport::Throughput(run) => run.derived(),
            AnyReport::Scan(scan) => scan.derived(),
            AnyReport::Host(host) => host.derived(),
            AnyReport::Predict(predict) => predict.derived(),
            AnyReport::Path(path) => path.derived(),
            AnyReport::Available(available) => available.derived(),
            AnyReport::Load(load) => load.derived(),
            AnyReport::Imported(imported) => imported.derived(),
            AnyReport::Copy(copy) => copy.derived(),
        }
    }

    as_json!();
}

/// Parses a stored report of any kind.
pub fn parse(id: &str, text: &str) -> Result<AnyReport, StoreError> {
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
    let Ok(kind) = serde_json::from_value::<Kind>(kind) else {
        return Err(unknown(&format!("kind {}", value["kind"])));
    };
    match kind {
        Kind::Throughput => serde_json::from_value(value).map(AnyReport::Throughput),
        Kind::Scan => serde_json::from_value(value).map(AnyReport::Scan),
        Kind::Host => serde_json::from_value(value).map(AnyReport::Host),
        Kind::Predict => serde_json::from_value(value).map(AnyReport::Predict),
        Kind::Path => serde_json::from_value(value).map(AnyReport::Path),
        Kind::Available => serde_json::from_value(value).map(AnyReport::Available),
        Kind::Load => serde_json::from_value(value).map(AnyReport::Load),
        Kind::Imported => serde_json::from_value(value).map(AnyReport::Imported),
        Kind::Copy => serde_json::from_value(value).map(AnyReport::Copy),
    }
    .map_err(fail)
}
