//! Events of several paths at a collector: groups changes of one time that have a shared cause.
//!
//! New and changed events wait for a moment, then they are grouped with all events of their time, and
//! only then notified: members of an event of several paths are not notified by themselves. One pass
//! reads at most [`MAX_EVENTS`] events and [`MAX_COMPARED_PATHS`] paths for each time.

use super::{AnalysisResult, AnalysisThread, clocks, other_paths};
use crate::agent::received_results::WaitingEvent;
use crate::agent::startup::MAX_NOTIFY_AGE_US;
use crate::path_traces;
use longhaul_history::shared_cause::{
    ComparedPath, MAX_AFFECTED, SharedCause, SharedCauseOptions, build_shared_event,
    find_shared_causes, group_simultaneous_changes,
};
use longhaul_model::report::v1::flows::TransferIdentity;
use longhaul_model::report::v1::{ChangeEvent, HostPair};
use longhaul_store::StoreError;
use longhaul_store::history_store::{EventFilter, TimeRange, is_event_open};
use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The time for which values and events of other agents wait, so that more of them arrive.
const SETTLE: Duration = Duration::from_secs(60);
/// The interval in which a collector looks for what other agents sent, and that of other agents.
const COLLECTOR_POLL: Duration = Duration::from_secs(1);
const IDLE_POLL: Duration = Duration::from_secs(60);
/// The maximum number of events of one time.
const MAX_EVENTS: u32 = 2_000;
const DAY_US: i64 = 86_400_000_000;
/// The maximum number of unchanged paths that are compared. Those that share a host with a changed
/// one come first.
const MAX_COMPARED_PATHS: usize = 1_000;

impl AnalysisThread {
    /// Analyses what a collector has received: one series, and the events that have waited. Returns
    /// the time until the next call: as long as the work took, so that it takes at most half of one
    /// core.
    pub fn check_received_results(&mut self) -> Duration {
        let file = self.state.file();
        if !file.api.is_collector() {
            return IDLE_POLL;
        }
        let begun = Instant::now();
        let settle = SETTLE / u32::try_from(file.detect.time_factor.unwrap_or(1)).unwrap_or(1);
        let series = self.state.received.take_series(settle);
        let events = self.state.received.take_events(settle);
        if series.is_none() && events.is_empty() {
            return COLLECTOR_POLL;
        }
        let checked = series.map_or(Ok(()), |(pair, quantity)| {
            self.detect_received_changes(&pair, quantity).map_err(|error| {
                format!("cannot check {} > {} for changes: {error}", pair.from, pair.to)
            })
        });
        let grouped = self.check_events(&events);
        let grouped = grouped.map_err(|error| format!("cannot group events: {error}"));
        for why in [checked, grouped].into_iter().filter_map(Result::err) {
            self.log.warn(&why);
        }
        begun.elapsed()
    }

    /// Groups the events of the last day that an earlier process may not have grouped.
    pub fn resume_grouping(&mut self) {
        if !self.state.file().api.is_collector() {
            return;
        }
        let range = TimeRange { begin_us: clocks::read_wall_us() - DAY_US, end_us: i64::MAX };
        let filter = EventFilter { range, ..EventFilter::newest(MAX_EVENTS) };
        let grouped = self.archive.events(&filter).and_then(|mut events| {
            events.retain(|event| event.part_of.is_none());
            self.group_events(&events.into_iter().map(|event| event.id).collect::<Vec<_>>())
        });
        if let Err(error) = grouped {
            self.log.warn(&format!("cannot group events: {error}"));
        }
    }

    /// Looks for events of several paths among new and changed events. Diagnoses those of which the
    /// agent that found them knows no cause.
    fn group_events(&mut self, ids: &[String]) -> Result<(), StoreError> {
        let mut grouped = HashSet::new();
        for id in ids {
            let Some(mut event) = self.archive.event(id)? else {
                continue;
            };
            if event.causes.is_empty() && is_event_open(&event) && event.shared.is_none() {
                event = Arc::unwrap_or_clone(self.diagnose(event)?.event);
            }
            if let Some(shared) = &event.part_of {
                self.renew_shared_state(shared)?;
            } else if event.shared.is_none() && !grouped.contains(id) {
                self.group_around(&event, &mut grouped)?;
            }
        }
        Ok(())
    }

    /// Groups new and changed events, and then reports them as news.
    pub fn check_events(&mut self, events: &[WaitingEvent]) -> Result<(), StoreError> {
        let ids: Vec<String> = events.iter().map(|event| event.id.clone()).collect();
        self.group_events(&ids)?;
        for waiting in events.iter().filter(|event| event.is_news) {
            if let Some(event) = self.archive.event(&waiting.id)? {
                let result = AnalysisResult { is_news: true, ..self.build_result(event)? };
                let _ = self.results.blocking_send(result);
            }
        }
        Ok(())
    }

    /// Looks for events of several paths at the time of this one. Adds the events that were compared.
    fn group_around(
        &mut self,
        event: &ChangeEvent,
        grouped: &mut HashSet<String>,
    ) -> Result<(), StoreError> {
        let time_factor = self.state.file().detect.time_factor.unwrap_or(1);
        let options = SharedCauseOptions::default().with_time_factor(time_factor);
        let [begin, end] = options.widen_interval(event.between_us);
        let range = TimeRange {
            begin_us: begin.saturating_sub(options.max_interval_us),
            end_us: end.saturating_add(options.max_interval_us),
        };
        let filter = EventFilter { range, ..EventFilter::newest(MAX_EVENTS) };
        let mut events = self.archive.events(&filter)?;
        events.retain(|it| {
            let [from, to] = options.widen_interval(it.between_us);
            from <= end && begin <= to && other_paths::is_comparable(&it.pair, &event.pair)
        });
        let events: Vec<&ChangeEvent> = events.iter().collect();
        let mut groups = group_simultaneous_changes(&events, &options);
        groups.retain(|group| group.iter().any(|it| it.id == event.id));
        for group in groups {
            grouped.extend(group.iter().map(|it| it.id.clone()));
            let paths = self.list_compared_paths(&group)?;
            for cause in find_shared_causes(&paths, &options) {
                self.store_shared_event(&cause, &paths, &group)?;
            }
        }
        Ok(())
    }

    /// Returns the changed paths and others that were measured before and after, with their hops.
    fn list_compared_paths(&self, group: &[&ChangeEvent]) -> Result<Vec<ComparedPath>, StoreError> {
        let mut kinds: Vec<&ChangeEvent> = group.to_vec();
        kinds.sort_by_key(|event| event.quantity);
        kinds.dedup_by_key(|event| event.quantity);
        let changed: BTreeSet<&HostPair> = group.iter().map(|event| &event.pair).collect();
        let hosts: HashSet<&str> =
            changed.iter().flat_map(|it| [it.from.as_str(), it.to.as_str()]).collect();
        let mut others = self.archive.pairs()?;
        others.retain(|pair| {
            !changed.contains(pair) && other_paths::is_comparable(pair, &group[0].pair)
        });
        others.sort_by_key(|pair| {
            let is_near = [&pair.from, &pair.to].iter().any(|host| hosts.contains(host.as_str()));
            (!is_near, crate::watch::hash_random::hash_text(&format!("{} {}", pair.from, pair.to)))
        });
        others.truncate(MAX_COMPARED_PATHS);
        let mut steady = Vec::new();
        for pair in others {
            for event in &kinds {
                if other_paths::has_values_around(&self.archive, event, &pair)? {
                    steady.push(pair);
                    break;
                }
            }
        }
        let file = self.state.file();
        let begin_us = group.iter().map(|it| it.between_us[0]).min().unwrap_or(i64::MAX);
        let changed = changed.into_iter().map(|pair| (pair.clone(), true));
        let all = changed.chain(steady.into_iter().map(|pair| (pair, false)));
        let compare = |(pair, is_affected): (HostPair, bool)| {
            let is_path = TransferIdentity::of_pair(&pair).is_none();
            let hops = if is_path {
                path_traces::read_hop_addresses(&self.archive, &file, &pair, begin_us)?
            } else {
                BTreeSet::new()
            };
            Ok(ComparedPath { pair, hops, is_affected })
        };
        all.map(compare).collect()
    }

    /// Stores a new event of several paths, or renews the one to which a part of the paths belongs.
    fn store_shared_event(
        &mut self,
        cause: &SharedCause,
        paths: &[ComparedPath],
        group: &[&ChangeEvent],
    ) -> Result<(), StoreError> {
        let pairs: HashSet<&HostPair> = cause.affected.iter().map(|it| &paths[*it].pair).collect();
        let mut members: Vec<ChangeEvent> =
            group.iter().filter(|it| pairs.contains(&it.pair)).map(|it| (*it).clone()).collect();
        let known = members.iter().find_map(|it| it.part_of.clone());
        let earlier = known.as_deref().map_or(Ok(None), |id| self.archive.event(id))?;
        if let Some(scope) = earlier.as_ref().and_then(|it| it.shared.as_ref()) {
            for listed in &scope.affected {
                if !members.iter().any(|it| it.id == listed.event) {
                    members.extend(self.archive.event(&listed.event)?);
                }
            }
        }
        members.truncate(MAX_AFFECTED);
        let scope = cause.build_scope(paths, &members);
        let Some(mut shared) = build_shared_event(scope, &members, earlier.as_ref()) else {
            return Ok(());
        };
        shared.id = known.unwrap_or(shared.id);
        // The members come first: if the agent is killed in between, they keep the id.
        for mut member in members.into_iter().filter(|it| it.part_of.is_none()) {
            member.part_of = Some(shared.id.clone());
            self.archive.put_event(&member)?;
            let _ = self.results.blocking_send(self.build_result(member)?);
        }
        self.put_shared_event(shared, earlier.as_ref())
    }

    /// Renews the state of an event of several paths from those of its members.
    fn renew_shared_state(&mut self, id: &str) -> Result<(), StoreError> {
        let Some(earlier) = self.archive.event(id)? else {
            return Ok(());
        };
        let Some(scope) = earlier.shared.clone() else {
            return Ok(());
        };
        let mut members = Vec::new();
        for listed in &scope.affected {
            members.extend(self.archive.event(&listed.event)?);
        }
        match build_shared_event(scope, &members, Some(&earlier)) {
            Some(shared) => self.put_shared_event(shared, Some(&earlier)),
            None => Ok(()),
        }
    }

    /// Stores an event of several paths if it has changed. It is news when its state changes, and when
    /// it is new and one of the changes is.
    fn put_shared_event(
        &mut self,
        shared: ChangeEvent,
        earlier: Option<&ChangeEvent>,
    ) -> Result<(), StoreError> {
        if earlier == Some(&shared) {
            return Ok(());
        }
        let oldest_us = clocks::read_wall_us() - MAX_NOTIFY_AGE_US;
        let is_news =
            earlier.map_or(shared.announced_at_us >= oldest_us, |old| old.state != shared.state);
        self.explain(shared, is_news)
    }
}
