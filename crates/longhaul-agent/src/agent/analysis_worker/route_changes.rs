//! The rate of route changes of a pair in the last month, and how many of them affected throughput.
//!
//! Counted run by run, because reading a month of traces for every event takes too long. Stored in
//! the agent's folder, so that the count survives a restart.

use crate::agent::run_tasks::StoredRun;
use crate::agent::{agent_folder, clocks};
use longhaul_analysis::path::compare_routes;
use longhaul_history::event::RouteChangeBaseRate;
use longhaul_model::report::v1::AnyReport;
use longhaul_model::report::v1::event::EventState;
use longhaul_model::report::v1::path::{ObservedRoute, RouteChangeKind};
use longhaul_model::report::v1::quantity::PathQuantity;
use longhaul_model::report::v1::series::HostPair;
use longhaul_store::history_store::{EventFilter, TimeRange};
use longhaul_store::{Archive, StoreError};
use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;

const MONTH_US: i64 = 30 * 86_400_000_000;
/// The maximum number of changes per pair; a base rate of more frequent changes is useless.
const CHANGES_MAX: usize = 1000;
const PAIRS_MAX: usize = 4096;
const FILE_BYTES_MAX: u64 = 64 << 20;
/// A throughput change within this time of a route change counts as its effect.
const EFFECT_WINDOW_US: i64 = 3_600_000_000;
const EVENTS_MAX: u32 = 500;

#[derive(Debug)]
pub struct RouteChangeHistory {
    path: PathBuf,
    /// Times of route changes by `from>to`.
    changes: BTreeMap<String, Vec<i64>>,
    /// The latest route of each pair.
    latest: HashMap<HostPair, ObservedRoute>,
}

impl RouteChangeHistory {
    pub fn load(path: PathBuf) -> RouteChangeHistory {
        // An unreadable file restarts the count.
        let changes = agent_folder::load_json(&path, FILE_BYTES_MAX);
        RouteChangeHistory { path, changes: changes.unwrap_or_default(), latest: HashMap::new() }
    }

    /// Compares the routes of a path run with the previous ones.
    pub fn record_run(&mut self, archive: &Archive, run: &StoredRun) -> Result<(), StoreError> {
        let of_path = |(_, quantity): &(HostPair, PathQuantity)| *quantity == PathQuantity::Hops;
        if !run.updated_series.iter().any(of_path) {
            return Ok(());
        }
        let Some(AnyReport::Path(report)) = archive.report(&run.run_id)? else {
            return Ok(());
        };
        let seen = report.observation;
        let mut changed = false;
        // The first pair of a path run is the forward direction.
        for (pair, route) in run.pairs.iter().zip([seen.route, seen.route_reverse]) {
            if let Some(route) = route {
                changed |= self.update_route(pair, route);
            }
        }
        if changed {
            agent_folder::save_json(&self.path, &self.changes);
        }
        Ok(())
    }

    fn update_route(&mut self, pair: &HostPair, route: ObservedRoute) -> bool {
        if self.latest.len() >= PAIRS_MAX {
            self.latest.clear();
        }
        let before = self.latest.get(pair);
        let changed = before
            .is_some_and(|before| compare_routes(&route, before).kind > RouteChangeKind::SilentHop);
        self.latest.insert(pair.clone(), route);
        if changed && self.changes.len() < PAIRS_MAX {
            let now_us = clocks::read_wall_us();
            let times = self.changes.entry(format_pair_key(pair)).or_default();
            times.retain(|at_us| *at_us > now_us - MONTH_US);
            if times.len() < CHANGES_MAX {
                times.push(now_us);
            }
        }
        changed
    }

    pub fn base_rate(
        &self,
        archive: &Archive,
        pair: &HostPair,
    ) -> Result<Option<RouteChangeBaseRate>, StoreError> {
        let begin_us = clocks::read_wall_us() - MONTH_US;
        let times = self.changes.get(&format_pair_key(pair)).into_iter().flatten();
        let times: Vec<i64> = times.copied().filter(|at| *at > begin_us).collect();
        if times.is_empty() {
            return Ok(None);
        }
        let mut events = archive.events(&EventFilter {
            range: TimeRange { begin_us, end_us: i64::MAX },
            pair: Some(pair.clone()),
            state: None,
            limit: EVENTS_MAX,
        })?;
        events.retain(|event| {
            let sure = matches!(event.state, EventState::Confirmed | EventState::Recovered);
            sure && event.quantity == PathQuantity::Goodput
        });
        let felt = times.iter().filter(|at| {
            let near = |[begin, end]: [i64; 2]| {
                **at > begin - EFFECT_WINDOW_US && **at < end + EFFECT_WINDOW_US
            };
            events.iter().any(|event| near(event.between_us))
        });
        Ok(Some(RouteChangeBaseRate {
            with_effect: felt.count() as u32,
            route_changes: times.len() as u32,
        }))
    }
}

fn format_pair_key(pair: &HostPair) -> String {
    format!("{}>{}", pair.from, pair.to)
}
