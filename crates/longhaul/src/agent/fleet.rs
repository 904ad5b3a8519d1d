//! The shared database that `[database]` names: results are sent to it, and the page reads from it.
//!
//! While the database is unavailable, the page reads from the agent's own archive. Only the results
//! of other agents are missing then.

use super::desk::{Desk, Open};
use crate::watch::file::Database;
use longhaul_model::report::v1::AnyReport;
use longhaul_model::report::v1::event::Event;
use longhaul_model::report::v1::quantity::Quantity;
use longhaul_model::report::v1::series::{Pair, Series};
use longhaul_store::archive::Entry;
use longhaul_store::watched::{
    About, EventFilter, GridCell, Landed, Outcome, Planned, PlannedCounts, PlannedFilter,
    PlannedRow, Range, Removed, Retention, RunFilter, WatchedRun,
};
use longhaul_store::{StoreError, Watched};
use std::cell::{Cell, OnceCell};
#[cfg(feature = "clickhouse")]
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// After a failed query the shared database is not tried again for this long.
const AWAY: Duration = Duration::from_secs(20);

/// Opens another connection. Relative paths refer to `folder`.
///
/// This call and all queries block; use a thread for blocking work.
#[cfg(feature = "clickhouse")]
pub fn open(section: &Database, folder: &Path) -> Result<Box<dyn Watched>, StoreError> {
    longhaul_clickhouse::open(longhaul_clickhouse::Options {
        urls: section.urls.clone(),
        database: section.name.clone(),
        user: section.user.clone(),
        password: password(section, folder)?,
        cluster: section.cluster.clone(),
        dialect: longhaul_clickhouse::Dialect::Current,
        compressed: true,
    })
}

/// Fails because this program was built without the driver. Parsing the watch file reports it
/// first.
#[cfg(not(feature = "clickhouse"))]
pub fn open(section: &Database, _: &Path) -> Result<Box<dyn Watched>, StoreError> {
    Err(StoreError::Database {
        doing: "open the database",
        at: section.urls.join(", "),
        source: "this program was built without ClickHouse".into(),
        hint: Some(crate::watch::file::BUILD_WITH_CLICKHOUSE.to_owned()),
    })
}

/// Returns the first line of the password file.
#[cfg(feature = "clickhouse")]
fn password(section: &Database, folder: &Path) -> Result<Option<String>, StoreError> {
    let Some(file) = &section.password_file else {
        return Ok(None);
    };
    let path = folder.join(file);
    let text = fs::read_to_string(&path).map_err(|source| StoreError::Database {
        doing: "read the password",
        at: path.display().to_string(),
        source: Box::new(source),
        hint: Some(String::from("make it readable for the agent's user alone")),
    })?;
    Ok(text.lines().next().map(|line| line.trim().to_owned()))
}

/// Returns the source of the page's data: the shared database if the file names one, otherwise the
/// agent's own archive. The choice holds until the agent restarts.
pub fn reader(desk: &Arc<Desk>) -> Open {
    let Some(section) = desk.file().database.clone() else {
        return Arc::clone(&desk.open);
    };
    let (own, folder) = (Arc::clone(&desk.open), desk.folder.clone());
    let shared: Open = Arc::new(move || open(&section, &folder));
    either(shared, own)
}

fn either(shared: Open, own: Open) -> Open {
    Arc::new(move || {
        Ok(Box::new(Either {
            open: Arc::clone(&shared),
            shared: OnceCell::new(),
            own: own()?,
            away_until: Cell::new(None),
        }))
    })
}

/// Reads from the shared database, or from the own archive while the database is unavailable.
struct Either {
    open: Open,
    shared: OnceCell<Box<dyn Watched>>,
    own: Box<dyn Watched>,
    away_until: Cell<Option<Instant>>,
}

impl Either {
    fn ask<T>(
        &self,
        question: impl Fn(&dyn Watched) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        if self
            .away_until
            .get()
            .is_some_and(|until| Instant::now() < until)
        {
            return question(self.own.as_ref());
        }
        match self.shared().and_then(&question) {
            Err(StoreError::Database { .. }) => {
                self.away_until.set(Some(Instant::now() + AWAY));
                question(self.own.as_ref())
            }
            answer => answer,
        }
    }

    fn shared(&self) -> Result<&dyn Watched, StoreError> {
        if let Some(shared) = self.shared.get() {
            return Ok(shared.as_ref());
        }
        let opened = (self.open)()?;
        Ok(self.shared.get_or_init(|| opened).as_ref())
    }
}

/// Writes go to the own archive; the outbox sends them on.
impl Watched for Either {
    fn append_runs(&mut self, runs: &[WatchedRun]) -> Result<Landed, StoreError> {
        self.own.append_runs(runs)
    }

    fn plan(&mut self, planned: &[Planned]) -> Result<u64, StoreError> {
        self.own.plan(planned)
    }

    fn settle(&mut self, planned_id: &str, outcome: &Outcome) -> Result<(), StoreError> {
        self.own.settle(planned_id, outcome)
    }

    fn put_event(&mut self, event: &Event) -> Result<(), StoreError> {
        self.own.put_event(event)
    }

    fn retain(&mut self, now_us: i64, keep: &Retention) -> Result<Removed, StoreError> {
        self.own.retain(now_us, keep)
    }

    fn planned(&self, filter: &PlannedFilter) -> Result<Vec<PlannedRow>, StoreError> {
        self.ask(|of| of.planned(filter))
    }

    fn planned_counts(&self, range: Range) -> Result<PlannedCounts, StoreError> {
        self.ask(|of| of.planned_counts(range))
    }

    fn series(
        &self,
        pair: &Pair,
        quantity: Quantity,
        range: Range,
        at_most: u32,
    ) -> Result<Series, StoreError> {
        self.ask(|of| of.series(pair, quantity, range, at_most))
    }

    fn grid(&self, quantity: Quantity) -> Result<Vec<GridCell>, StoreError> {
        self.ask(|of| of.grid(quantity))
    }

    fn pairs(&self) -> Result<Vec<Pair>, StoreError> {
        self.ask(|of| of.pairs())
    }

    fn report(&self, run_id: &str) -> Result<Option<AnyReport>, StoreError> {
        // A new run is in the own archive before it reaches the shared database.
        match self.ask(|of| of.report(run_id))? {
            Some(report) => Ok(Some(report)),
            None => self.own.report(run_id),
        }
    }

    fn runs(&self, filter: &RunFilter) -> Result<Vec<Entry>, StoreError> {
        self.ask(|of| of.runs(filter))
    }

    fn event(&self, id: &str) -> Result<Option<Event>, StoreError> {
        match self.ask(|of| of.event(id))? {
            Some(event) => Ok(Some(event)),
            None => self.own.event(id),
        }
    }

    fn events(&self, filter: &EventFilter) -> Result<Vec<Event>, StoreError> {
        self.ask(|of| of.events(filter))
    }

    fn about(&self) -> Result<About, StoreError> {
        self.ask(|of| of.about())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use longhaul_store::Archive;

    fn archive(name: &str) -> Open {
        let folder = std::env::temp_dir().join(format!("longhaul-fleet-{}", std::process::id()));
        let path = folder.join(name);
        let _ = fs::remove_file(&path);
        Arc::new(move || Ok(Box::new(Archive::open(&path)?)))
    }

    fn plan(of: &Open, id: &str) {
        let due = Planned {
            id: id.to_owned(),
            due_us: 1,
            measurement: String::from("light"),
            pair: None,
        };
        of().expect("an archive").plan(&[due]).expect("planned");
    }

    fn seen(by: &dyn Watched) -> Vec<String> {
        let filter = PlannedFilter {
            range: Range::ALL,
            pair: None,
            waiting: false,
            limit: 10,
        };
        let rows = by.planned(&filter).expect("an answer");
        rows.into_iter().map(|row| row.planned.id).collect()
    }

    #[test]
    fn the_page_reads_what_is_shared() {
        let (shared, own) = (archive("shared"), archive("own"));
        plan(&shared, "of another agent");
        plan(&own, "own");
        let reader = either(shared, own)().expect("a reader");
        assert_eq!(seen(reader.as_ref()), ["of another agent"]);
    }

    #[cfg(feature = "clickhouse")]
    #[test]
    fn while_the_database_is_away_the_page_reads_the_agents_own() {
        let own = archive("own-alone");
        plan(&own, "own");
        let nobody = longhaul_clickhouse::Options {
            urls: vec![String::from("http://127.0.0.1:1")],
            ..longhaul_clickhouse::Options::default()
        };
        let away: Open = Arc::new(move || longhaul_clickhouse::open(nobody.clone()));
        let reader = either(away, own)().expect("a reader");
        assert_eq!(seen(reader.as_ref()), ["own"]);
        assert_eq!(reader.about().expect("an answer").kind, "SQLite");
    }
}
