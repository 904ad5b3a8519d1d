//! Collects the evidence around an event from the archive: the nearest reports before and after it.

use super::other_paths::{self, OtherPaths};
use crate::path_traces::parse_time_us;
use crate::watch::watch_file::WatchFile;
use longhaul_history::change_detection::median_spacing_us;
use longhaul_history::change_detection::transfer_points::extract_transfer;
use longhaul_history::event::{
    ChangeEvidence, EvidenceReport, OtherPathChange, RouteChangeBaseRate, UnchangedPath,
};
use longhaul_model::report::v1::flows::TransferIdentity;
use longhaul_model::report::v1::quantity::PathQuantity;
use longhaul_model::report::v1::{AnyReport, ChangeEvent, HostPair, ReportKind, SeriesPoint};
use longhaul_store::history_store::{EventFilter, RunFilter, TimeRange};
use longhaul_store::{Archive, StoreError};

/// The number of reports of one kind before and after the event.
const REPORTS_BEFORE: u32 = 8;
const REPORTS_AFTER: u32 = 10;
const DAY_US: i64 = 86_400_000_000;
/// Reports further away than this are ignored.
const MAX_DISTANCE_DAYS: i64 = 14;
/// The maximum number of RTT values.
const RTT_POINTS: u32 = 400;
const EVENTS_MAX: u32 = 200;

/// A report with its time and direction relative to the event.
pub struct DatedReport {
    pub at_us: i64,
    pub forward: bool,
    pub report: AnyReport,
}

impl DatedReport {
    fn borrow<'a, R>(&self, report: &'a R) -> EvidenceReport<'a, R> {
        EvidenceReport { at_us: self.at_us, forward: self.forward, report }
    }
}

#[derive(Default)]
pub struct EventEvidence {
    pub period_us: i64,
    pub reports: Vec<DatedReport>,
    pub rtt: Vec<SeriesPoint>,
    pub others: OtherPaths,
    pub earlier: Vec<ChangeEvent>,
    pub base_rate: Option<RouteChangeBaseRate>,
}

impl EventEvidence {
    pub fn collect(
        archive: &Archive,
        event: &ChangeEvent,
        file: &WatchFile,
    ) -> Result<EventEvidence, StoreError> {
        let mut gathered = EventEvidence::default();
        let own = &file.agent.name;
        let transfer = TransferIdentity::of_pair(&event.pair);
        let kinds: &[ReportKind] = if transfer.is_some() {
            &[ReportKind::Flows]
        } else {
            &[ReportKind::Path, ReportKind::Throughput, ReportKind::Available]
        };
        for kind in kinds.iter().copied() {
            for id in find_nearest_runs(archive, event, Some(&event.pair), kind)? {
                gathered.add_run(archive, &id, event, own)?;
            }
        }
        let is_own_transfer = transfer.is_some_and(|it| it.host == own);
        if event.pair.from == *own || event.pair.to == *own || is_own_transfer {
            for id in find_nearest_runs(archive, event, None, ReportKind::Host)? {
                gathered.add_run(archive, &id, event, own)?;
            }
        }
        for id in &event.follow_ups {
            if !gathered.reports.iter().any(|it| it.report.run().id == *id) {
                gathered.add_run(archive, id, event, own)?;
            }
        }
        let span = TimeRange {
            begin_us: event.between_us[0].saturating_sub(MAX_DISTANCE_DAYS * DAY_US),
            end_us: i64::MAX,
        };
        gathered.period_us = read_period_us(archive, event, span)?;
        gathered.rtt = read_rtt_points(archive, event, span)?;
        gathered.others = other_paths::find_other_paths(archive, event, own)?;
        gathered.earlier = read_earlier_events(archive, event)?;
        Ok(gathered)
    }

    fn add_run(
        &mut self,
        archive: &Archive,
        id: &str,
        event: &ChangeEvent,
        own: &str,
    ) -> Result<(), StoreError> {
        let Some(report) = archive.report(id)? else {
            return Ok(());
        };
        let run = report.run();
        let Some(at_us) = parse_time_us(&run.started_at) else {
            return Ok(());
        };
        // Runs of other agents come through the collector and carry the names of their hosts.
        let forward = match (&event.pair, TransferIdentity::of_pair(&event.pair)) {
            (_, Some(transfer)) => transfer.sends,
            (pair, _) if pair.from == own => true,
            (pair, _) if pair.to == own => false,
            (pair, _) => run.initiator.host == pair.from,
        };
        let report = match &report {
            // A transfer is a run of which one end was observed (docs/decisions/0096).
            AnyReport::Flows(flows) => match extract_transfer(flows, &event.pair) {
                Some(run) => AnyReport::Throughput(Box::new(run)),
                None => return Ok(()),
            },
            _ => report,
        };
        self.reports.push(DatedReport { at_us, forward, report });
        Ok(())
    }

    /// `time_factor` speeds up time in tests.
    pub fn as_evidence(&self, event: &ChangeEvent, time_factor: u64) -> ChangeEvidence<'_> {
        let changed = self.others.changed.iter();
        let unchanged = self.others.unchanged.iter();
        let mut evidence = ChangeEvidence {
            period_us: self.period_us,
            time_factor,
            rtt: self.rtt.clone(),
            other_path_changes: changed
                .map(|(event, route)| OtherPathChange { event, route: route.as_ref() })
                .collect(),
            unchanged_paths: unchanged
                .map(|(pair, route)| UnchangedPath { pair, route: route.as_ref() })
                .collect(),
            base_rate: self.base_rate,
            open_events: self.earlier.iter().filter(|earlier| earlier.id != event.id).collect(),
            ..ChangeEvidence::default()
        };
        for it in &self.reports {
            match &it.report {
                AnyReport::Path(report) => evidence.paths.push(it.borrow(report)),
                AnyReport::Throughput(report) => evidence.throughput.push(it.borrow(report)),
                AnyReport::Available(report) => evidence.available.push(it.borrow(report)),
                AnyReport::Host(report) => evidence.hosts.push(it.borrow(report)),
                _ => {}
            }
        }
        evidence
    }
}

/// Returns the ids of the runs nearest to the event before and after it, and of those within it.
fn find_nearest_runs(
    archive: &Archive,
    event: &ChangeEvent,
    pair: Option<&HostPair>,
    kind: ReportKind,
) -> Result<Vec<String>, StoreError> {
    let [begin, end] = event.between_us;
    let list = |begin_us: i64, end_us: i64, limit: u32| -> Result<Vec<String>, StoreError> {
        let filter = RunFilter {
            range: TimeRange { begin_us, end_us },
            pair: pair.cloned(),
            kind: Some(kind),
            ..RunFilter::newest(limit)
        };
        let runs = archive.runs(&filter)?;
        Ok(runs.into_iter().map(|run| run.id).collect())
    };
    let mut ids =
        list(begin.saturating_sub(MAX_DISTANCE_DAYS * DAY_US), begin + 1, REPORTS_BEFORE)?;
    // The archive lists the newest runs first.
    let after = list(begin + 1, end.saturating_add(MAX_DISTANCE_DAYS * DAY_US), u32::MAX)?;
    let nearest = after.len().saturating_sub(REPORTS_AFTER as usize);
    ids.extend_from_slice(&after[nearest..]);
    // The newest run shows the current state.
    ids.extend(after.first().filter(|_| nearest > 0).cloned());
    Ok(ids)
}

fn read_period_us(
    archive: &Archive,
    event: &ChangeEvent,
    span: TimeRange,
) -> Result<i64, StoreError> {
    let series = archive.series(&event.pair, event.quantity, span, RTT_POINTS)?;
    let spacing = if series.points.is_empty() {
        median_spacing_us(series.buckets.iter().map(|it| it.at_us))
    } else {
        median_spacing_us(series.points.iter().map(|it| it.at_us))
    };
    Ok(spacing.map_or(0, |us| us as i64))
}

/// Returns RTT values of the event's direction, or else of the reverse one: an RTT covers both.
fn read_rtt_points(
    archive: &Archive,
    event: &ChangeEvent,
    span: TimeRange,
) -> Result<Vec<SeriesPoint>, StoreError> {
    let back = HostPair { from: event.pair.to.clone(), to: event.pair.from.clone() };
    for pair in [&event.pair, &back] {
        let series = archive.series(pair, PathQuantity::RttFloor, span, RTT_POINTS)?;
        let points = super::flatten_series(series);
        if !points.is_empty() {
            return Ok(points);
        }
    }
    Ok(Vec::new())
}

/// Returns earlier events of the series that were open at the time of this one.
fn read_earlier_events(
    archive: &Archive,
    event: &ChangeEvent,
) -> Result<Vec<ChangeEvent>, StoreError> {
    let filter = EventFilter {
        range: TimeRange { begin_us: i64::MIN, end_us: event.between_us[0].saturating_add(1) },
        pair: Some(event.pair.clone()),
        ..EventFilter::newest(EVENTS_MAX)
    };
    let mut events = archive.events(&filter)?;
    events.retain(|earlier| {
        let open = longhaul_store::history_store::is_event_open(earlier);
        let ended_by_this = earlier.recovered_by.as_ref() == Some(&event.id);
        earlier.quantity == event.quantity
            && earlier.id != event.id
            && earlier.shared.is_none()
            && (open || ended_by_this)
    });
    Ok(events)
}
