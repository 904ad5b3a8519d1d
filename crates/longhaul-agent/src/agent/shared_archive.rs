//! The shared database that `[database]` names: results are sent to it, and the page reads from it.
//!
//! While the database is unavailable, the page reads from the agent's own archive. Only the results
//! of other agents are missing then.

use super::shared_state::{ArchiveOpener, SharedState};
use crate::watch::watch_file::DatabaseSection;
use longhaul_model::report::v1::AnyReport;
use longhaul_model::report::v1::event::ChangeEvent;
use longhaul_model::report::v1::quantity::PathQuantity;
use longhaul_model::report::v1::series::{HostPair, QuantitySeries};
use longhaul_store::archive::RunEntry;
use longhaul_store::history_store::{
    EventFilter, GridPair, IncomingRun, IngestResult, PlannedEntry, PlannedOutcome, PlannedRun,
    PlannedRunCounts, PlannedRunFilter, RetentionPolicy, RetentionResult, RunFilter, StoreInfo,
    TimeRange,
};
use longhaul_store::{HistoryStore, StoreError};
use std::cell::{Cell, OnceCell};
#[cfg(feature = "clickhouse")]
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// After a failed query the shared database is not tried again for this long.
const RETRY_AFTER: Duration = Duration::from_secs(20);

/// Opens another connection. Relative paths refer to `folder`.
///
/// This call and all queries block; use a thread for blocking work.
#[cfg(feature = "clickhouse")]
pub fn open_shared_archive(
    section: &DatabaseSection,
    folder: &Path,
) -> Result<Box<dyn HistoryStore>, StoreError> {
    longhaul_clickhouse::open_history_store(longhaul_clickhouse::ClickHouseOptions {
        urls: section.urls.clone(),
        database: section.name.clone(),
        user: section.user.clone(),
        password: read_password(section, folder)?,
        cluster: section.cluster.clone(),
        dialect: longhaul_clickhouse::SqlDialect::Current,
        compressed: true,
    })
}

/// Fails because this program was built without the driver. Parsing the watch file reports it
/// first.
#[cfg(not(feature = "clickhouse"))]
pub fn open_shared_archive(
    section: &DatabaseSection,
    _: &Path,
) -> Result<Box<dyn HistoryStore>, StoreError> {
    Err(StoreError::Database {
        doing: "open the database",
        at: section.urls.join(", "),
        source: "this program was built without ClickHouse".into(),
        hint: Some(crate::watch::watch_file::BUILD_WITH_CLICKHOUSE.to_owned()),
    })
}

/// Returns the first line of the password file.
#[cfg(feature = "clickhouse")]
fn read_password(section: &DatabaseSection, folder: &Path) -> Result<Option<String>, StoreError> {
    let Some(file) = &section.password_file else {
        return Ok(None);
    };
    let path = folder.join(file);
    let text = fs::read_to_string(&path).map_err(|source| StoreError::Database {
        doing: "read the password",
        at: path.display().to_string(),
        source: Box::new(source),
        hint: Some(String::from("make it readable by the agent's user only")),
    })?;
    Ok(text.lines().next().map(|line| line.trim().to_owned()))
}

/// Returns the source of the page's data: the shared database if the file names one, otherwise the
/// agent's own archive. The choice holds until the agent restarts.
pub fn choose_page_archive(state: &Arc<SharedState>) -> ArchiveOpener {
    let Some(section) = state.file().database.clone() else {
        return Arc::clone(&state.open_archive);
    };
    let (own, folder) = (Arc::clone(&state.open_archive), state.folder.clone());
    let shared: ArchiveOpener = Arc::new(move || open_shared_archive(&section, &folder));
    add_fallback(shared, own)
}

fn add_fallback(shared: ArchiveOpener, own: ArchiveOpener) -> ArchiveOpener {
    Arc::new(move || {
        Ok(Box::new(FallbackArchive {
            open_shared: Arc::clone(&shared),
            shared: OnceCell::new(),
            own: own()?,
            retry_at: Cell::new(None),
        }))
    })
}

/// Reads from the shared database, or from the own archive while the database is unavailable.
struct FallbackArchive {
    open_shared: ArchiveOpener,
    shared: OnceCell<Box<dyn HistoryStore>>,
    own: Box<dyn HistoryStore>,
    retry_at: Cell<Option<Instant>>,
}

impl FallbackArchive {
    fn query<T>(
        &self,
        question: impl Fn(&dyn HistoryStore) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        if self.retry_at.get().is_some_and(|until| Instant::now() < until) {
            return question(self.own.as_ref());
        }
        match self.connect().and_then(&question) {
            Err(StoreError::Database { .. }) => {
                self.retry_at.set(Some(Instant::now() + RETRY_AFTER));
                question(self.own.as_ref())
            }
            answer => answer,
        }
    }

    fn connect(&self) -> Result<&dyn HistoryStore, StoreError> {
        if let Some(shared) = self.shared.get() {
            return Ok(shared.as_ref());
        }
        let opened = (self.open_shared)()?;
        Ok(self.shared.get_or_init(|| opened).as_ref())
    }
}

/// Writes go to the own archive; the outbox sends them on.
impl HistoryStore for FallbackArchive {
    fn append_runs(&mut self, runs: &[IncomingRun]) -> Result<IngestResult, StoreError> {
        self.own.append_runs(runs)
    }

    fn add_planned(&mut self, planned: &[PlannedRun]) -> Result<u64, StoreError> {
        self.own.add_planned(planned)
    }

    fn record_outcome(
        &mut self,
        planned_id: &str,
        outcome: &PlannedOutcome,
    ) -> Result<(), StoreError> {
        self.own.record_outcome(planned_id, outcome)
    }

    fn put_event(&mut self, event: &ChangeEvent) -> Result<(), StoreError> {
        self.own.put_event(event)
    }

    fn retain(
        &mut self,
        now_us: i64,
        keep: &RetentionPolicy,
    ) -> Result<RetentionResult, StoreError> {
        self.own.retain(now_us, keep)
    }

    fn planned(&self, filter: &PlannedRunFilter) -> Result<Vec<PlannedEntry>, StoreError> {
        self.query(|of| of.planned(filter))
    }

    fn planned_counts(&self, range: TimeRange) -> Result<PlannedRunCounts, StoreError> {
        self.query(|of| of.planned_counts(range))
    }

    fn series(
        &self,
        pair: &HostPair,
        quantity: PathQuantity,
        range: TimeRange,
        at_most: u32,
    ) -> Result<QuantitySeries, StoreError> {
        self.query(|of| of.series(pair, quantity, range, at_most))
    }

    fn grid(&self, quantity: PathQuantity) -> Result<Vec<GridPair>, StoreError> {
        self.query(|of| of.grid(quantity))
    }

    fn pairs(&self) -> Result<Vec<HostPair>, StoreError> {
        self.query(|of| of.pairs())
    }

    fn report(&self, run_id: &str) -> Result<Option<AnyReport>, StoreError> {
        // A new run is in the own archive before it reaches the shared database.
        match self.query(|of| of.report(run_id))? {
            Some(report) => Ok(Some(report)),
            None => self.own.report(run_id),
        }
    }

    fn runs(&self, filter: &RunFilter) -> Result<Vec<RunEntry>, StoreError> {
        self.query(|of| of.runs(filter))
    }

    fn event(&self, id: &str) -> Result<Option<ChangeEvent>, StoreError> {
        match self.query(|of| of.event(id))? {
            Some(event) => Ok(Some(event)),
            None => self.own.event(id),
        }
    }

    fn events(&self, filter: &EventFilter) -> Result<Vec<ChangeEvent>, StoreError> {
        self.query(|of| of.events(filter))
    }

    fn about(&self) -> Result<StoreInfo, StoreError> {
        self.query(|of| of.about())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use longhaul_store::Archive;

    fn archive(name: &str) -> ArchiveOpener {
        let folder = std::env::temp_dir().join(format!("longhaul-fleet-{}", std::process::id()));
        let path = folder.join(name);
        let _ = std::fs::remove_file(&path);
        Arc::new(move || Ok(Box::new(Archive::open(&path)?)))
    }

    fn plan(of: &ArchiveOpener, id: &str) {
        let due = PlannedRun {
            id: id.to_owned(),
            due_us: 1,
            measurement: String::from("light"),
            pair: None,
        };
        of().expect("an archive").add_planned(&[due]).expect("planned");
    }

    fn seen(by: &dyn HistoryStore) -> Vec<String> {
        let filter =
            PlannedRunFilter { range: TimeRange::ALL, pair: None, waiting: false, limit: 10 };
        let rows = by.planned(&filter).expect("an answer");
        rows.into_iter().map(|row| row.planned.id).collect()
    }

    #[test]
    fn the_page_reads_what_is_shared() {
        let (shared, own) = (archive("shared"), archive("own"));
        plan(&shared, "of another agent");
        plan(&own, "own");
        let reader = add_fallback(shared, own)().expect("a reader");
        assert_eq!(seen(reader.as_ref()), ["of another agent"]);
    }

    #[cfg(feature = "clickhouse")]
    #[test]
    fn while_the_database_is_away_the_page_reads_the_agents_own() {
        let own = archive("own-alone");
        plan(&own, "own");
        let nobody = longhaul_clickhouse::ClickHouseOptions {
            urls: vec![String::from("http://127.0.0.1:1")],
            ..longhaul_clickhouse::ClickHouseOptions::default()
        };
        let away: ArchiveOpener =
            Arc::new(move || longhaul_clickhouse::open_history_store(nobody.clone()));
        let reader = add_fallback(away, own)().expect("a reader");
        assert_eq!(seen(reader.as_ref()), ["own"]);
        assert_eq!(reader.about().expect("an answer").kind, "SQLite");
    }
}
