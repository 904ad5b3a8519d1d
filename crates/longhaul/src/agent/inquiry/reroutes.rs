//! How often the route of a pair changed in the last month, and how often that was felt.
//!
//! Counted run by run, for a month of traces is too much to be read for every event. Kept in a
//! file of the agent's folder, so that a restart does not forget it.

use super::Look;
use crate::agent::{folder, now};
use longhaul_analysis::event::BaseRate;
use longhaul_analysis::path::compare;
use longhaul_model::report::v1::AnyReport;
use longhaul_model::report::v1::event::State;
use longhaul_model::report::v1::path::{ChangeKind, Route};
use longhaul_model::report::v1::quantity::Quantity;
use longhaul_model::report::v1::series::Pair;
use longhaul_store::watched::{EventFilter, Range};
use longhaul_store::{StoreError, Watched};
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;

const MONTH_US: i64 = 30 * 86_400_000_000;
/// Of one pair; a route that changes oftener than that has no base rate worth telling.
const CHANGES_MAX: usize = 1000;
const PAIRS_MAX: usize = 4096;
const FILE_BYTES_MAX: u64 = 64 << 20;
/// A change of throughput within this of a change of route was felt.
const FELT_US: i64 = 3_600_000_000;
const EVENTS_MAX: u32 = 500;

#[derive(Debug)]
pub struct Reroutes {
    path: PathBuf,
    /// Times of changes, by `from>to`.
    changes: BTreeMap<String, Vec<i64>>,
    /// As it was last seen.
    latest: HashMap<Pair, Route>,
}

impl Reroutes {
    pub fn read(path: PathBuf) -> Reroutes {
        // What cannot be read is counted anew.
        let text = folder::read(&path, FILE_BYTES_MAX).ok().flatten();
        let value = text.and_then(|text| serde_json::from_str::<Map<String, Value>>(&text).ok());
        let times = |value: Value| -> Vec<i64> {
            let list = value.as_array().map(Vec::as_slice).unwrap_or_default();
            list.iter().filter_map(Value::as_i64).collect()
        };
        let pairs = value.unwrap_or_default().into_iter();
        Reroutes {
            path,
            changes: pairs.map(|(pair, list)| (pair, times(list))).collect(),
            latest: HashMap::new(),
        }
    }

    /// Takes in the routes of a run, where it is a look at a path.
    pub fn note(&mut self, archive: &dyn Watched, look: &Look) -> Result<(), StoreError> {
        let of_path = |(_, quantity): &(Pair, Quantity)| *quantity == Quantity::Hops;
        if !look.touched.iter().any(of_path) {
            return Ok(());
        }
        let Some(AnyReport::Path(report)) = archive.report(&look.run_id)? else {
            return Ok(());
        };
        let seen = report.observation;
        let mut changed = false;
        // The first pair of a look is the way there.
        for (pair, route) in look.pairs.iter().zip([seen.route, seen.route_reverse]) {
            if let Some(route) = route {
                changed |= self.see(pair, route);
            }
        }
        if changed {
            let pairs = self.changes.iter();
            let all: Map<String, Value> = pairs.map(|(k, v)| (k.clone(), json!(v))).collect();
            // A disk that is full costs the count, not the event.
            let _ = folder::replace(&self.path, &Value::Object(all).to_string());
        }
        Ok(())
    }

    fn see(&mut self, pair: &Pair, route: Route) -> bool {
        if self.latest.len() >= PAIRS_MAX {
            self.latest.clear();
        }
        let before = self.latest.get(pair);
        let changed =
            before.is_some_and(|before| compare(&route, before).kind > ChangeKind::SilentHop);
        self.latest.insert(pair.clone(), route);
        if changed && self.changes.len() < PAIRS_MAX {
            let now_us = now::wall_us();
            let times = self.changes.entry(name(pair)).or_default();
            times.retain(|at_us| *at_us > now_us - MONTH_US);
            if times.len() < CHANGES_MAX {
                times.push(now_us);
            }
        }
        changed
    }

    pub fn base_rate(
        &self,
        archive: &dyn Watched,
        pair: &Pair,
    ) -> Result<Option<BaseRate>, StoreError> {
        let begin_us = now::wall_us() - MONTH_US;
        let times = self.changes.get(&name(pair)).into_iter().flatten();
        let times: Vec<i64> = times.copied().filter(|at| *at > begin_us).collect();
        if times.is_empty() {
            return Ok(None);
        }
        let mut events = archive.events(&EventFilter {
            range: Range {
                begin_us,
                end_us: i64::MAX,
            },
            pair: Some(pair.clone()),
            state: None,
            limit: EVENTS_MAX,
        })?;
        events.retain(|event| {
            let sure = matches!(event.state, State::Confirmed | State::Recovered);
            sure && event.quantity == Quantity::Goodput
        });
        let felt = times.iter().filter(|at| {
            let near = |[begin, end]: [i64; 2]| **at > begin - FELT_US && **at < end + FELT_US;
            events.iter().any(|event| near(event.between_us))
        });
        Ok(Some(BaseRate {
            felt: felt.count() as u32,
            routes: times.len() as u32,
        }))
    }
}

fn name(pair: &Pair) -> String {
    format!("{}>{}", pair.from, pair.to)
}
