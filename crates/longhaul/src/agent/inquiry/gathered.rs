//! Collects the evidence around an event from the archive: the nearest reports before and after it.

use super::others::{self, Others};
use crate::watch::file::WatchFile;
use jiff::Timestamp;
use longhaul_analysis::detect::sample::spacing_us;
use longhaul_analysis::event::{Audited, BaseRate, Evidence, Place, Seen};
use longhaul_model::report::v1::event::Event;
use longhaul_model::report::v1::quantity::Quantity;
use longhaul_model::report::v1::series::{Pair, Point};
use longhaul_model::report::v1::{AnyReport, Available, Host, Kind, Path, Scan, Throughput};
use longhaul_store::watched::{EventFilter, Range, RunFilter, run_of};
use longhaul_store::{StoreError, Watched};

/// The number of reports of one kind before and after the event.
const BEFORE: u32 = 8;
const AFTER: u32 = 10;
const DAY_US: i64 = 86_400_000_000;
/// Reports further away than this are ignored.
const DAYS: i64 = 14;
/// The maximum number of RTT values.
const RTT_POINTS: u32 = 400;
const EVENTS_MAX: u32 = 200;

/// A report with its time and direction relative to the event.
pub struct Taken<R> {
    pub at_us: i64,
    pub forward: bool,
    pub report: R,
}

#[derive(Default)]
pub struct Gathered {
    pub period_us: i64,
    pub paths: Vec<Taken<Path>>,
    pub throughput: Vec<Taken<Throughput>>,
    pub available: Vec<Taken<Available>>,
    pub hosts: Vec<Taken<Host>>,
    pub scans: Vec<Taken<Scan>>,
    pub rtt: Vec<Point>,
    pub others: Others,
    pub earlier: Vec<Event>,
    pub base_rate: Option<BaseRate>,
}

impl Gathered {
    pub fn around(
        archive: &dyn Watched,
        event: &Event,
        file: &WatchFile,
    ) -> Result<Gathered, StoreError> {
        let mut gathered = Gathered::default();
        let own = &file.agent.name;
        for kind in [Kind::Path, Kind::Throughput, Kind::Available] {
            for id in ids(archive, event, Some(&event.pair), kind)? {
                gathered.take(archive, &id, (event, own))?;
            }
        }
        for id in ids(archive, event, None, Kind::Host)? {
            gathered.take(archive, &id, (event, own))?;
        }
        for id in &event.follow_ups {
            if !gathered.has(id) {
                gathered.take(archive, id, (event, own))?;
            }
        }
        let span = Range {
            begin_us: event.between_us[0].saturating_sub(DAYS * DAY_US),
            end_us: i64::MAX,
        };
        gathered.period_us = period_us(archive, event, span)?;
        gathered.rtt = rtt(archive, event, span)?;
        gathered.others = others::of(archive, event, own)?;
        gathered.earlier = earlier(archive, event)?;
        Ok(gathered)
    }

    fn has(&self, id: &str) -> bool {
        self.paths.iter().any(|it| it.report.run.id == id)
            || self.throughput.iter().any(|it| it.report.run.id == id)
            || self.available.iter().any(|it| it.report.run.id == id)
    }

    fn take(
        &mut self,
        archive: &dyn Watched,
        id: &str,
        (event, own): (&Event, &str),
    ) -> Result<(), StoreError> {
        let Some(report) = archive.report(id)? else {
            return Ok(());
        };
        let run = run_of(&report);
        let Ok(began) = run.started_at.parse::<Timestamp>() else {
            return Ok(());
        };
        let at_us = began.as_microsecond();
        // Runs of other agents come through the collector and carry the names of their hosts.
        let forward = match &event.pair {
            pair if pair.from == own => true,
            pair if pair.to == own => false,
            pair => run.initiator.host == pair.from,
        };
        macro_rules! taken {
            ($into:ident, $report:ident) => {
                self.$into.push(Taken {
                    at_us,
                    forward,
                    report: *$report,
                })
            };
        }
        match report {
            AnyReport::Path(it) => taken!(paths, it),
            AnyReport::Throughput(it) => taken!(throughput, it),
            AnyReport::Available(it) => taken!(available, it),
            AnyReport::Scan(it) => taken!(scans, it),
            AnyReport::Host(it) if event.pair.from == own || event.pair.to == own => {
                taken!(hosts, it);
            }
            AnyReport::Host(_)
            | AnyReport::Predict(_)
            | AnyReport::Load(_)
            | AnyReport::Imported(_)
            | AnyReport::Copy(_) => {}
        }
        Ok(())
    }

    /// `quicker` is the value from the watch file.
    pub fn evidence(&self, event: &Event, quicker: u64) -> Evidence<'_> {
        Evidence {
            period_us: self.period_us,
            quicker,
            paths: seen(&self.paths),
            throughput: seen(&self.throughput),
            available: seen(&self.available),
            hosts: self
                .hosts
                .iter()
                .map(|it| Audited {
                    at_us: it.at_us,
                    place: place(it),
                    report: &it.report,
                })
                .collect(),
            rtt: self.rtt.clone(),
            elsewhere: self.others.elsewhere(),
            steady: self.others.steady(),
            notes: Vec::new(),
            // Runs store their plans, from which changes of the file are visible.
            plan_changes: Vec::new(),
            base_rate: self.base_rate,
            earlier: self
                .earlier
                .iter()
                .filter(|earlier| earlier.id != event.id)
                .collect(),
        }
    }
}

/// Audits come from the agent's own host.
fn place(audit: &Taken<Host>) -> Place {
    if audit.forward {
        Place::Sender
    } else {
        Place::Receiver
    }
}

fn seen<R>(taken: &[Taken<R>]) -> Vec<Seen<'_, R>> {
    taken
        .iter()
        .map(|it| Seen {
            at_us: it.at_us,
            report: &it.report,
            forward: it.forward,
        })
        .collect()
}

/// Returns the ids of the runs nearest to the event before and after it, and of those within it.
fn ids(
    archive: &dyn Watched,
    event: &Event,
    pair: Option<&Pair>,
    kind: Kind,
) -> Result<Vec<String>, StoreError> {
    let [begin, end] = event.between_us;
    let list = |begin_us: i64, end_us: i64, limit: u32| -> Result<Vec<String>, StoreError> {
        let filter = RunFilter {
            range: Range { begin_us, end_us },
            pair: pair.cloned(),
            kind: Some(kind),
            limit,
        };
        let runs = archive.runs(&filter)?;
        Ok(runs.into_iter().map(|run| run.id).collect())
    };
    let mut ids = list(begin.saturating_sub(DAYS * DAY_US), begin + 1, BEFORE)?;
    // The archive lists the newest runs first. To find those right after the event, the range grows
    // until it contains enough runs.
    let mut span_us = (end - begin).max(60_000_000);
    let after = loop {
        let found = list(begin + 1, end.saturating_add(span_us), 4 * AFTER)?;
        if found.len() >= AFTER as usize || span_us > DAYS * DAY_US {
            break found;
        }
        span_us = span_us.saturating_mul(4);
    };
    let nearest = after.len().saturating_sub(AFTER as usize);
    ids.extend_from_slice(&after[nearest..]);
    // The newest run shows the current state.
    ids.extend(after.first().filter(|_| nearest > 0).cloned());
    Ok(ids)
}

fn period_us(archive: &dyn Watched, event: &Event, span: Range) -> Result<i64, StoreError> {
    let series = archive.series(&event.pair, event.quantity, span, RTT_POINTS)?;
    let spacing = if series.points.is_empty() {
        spacing_us(series.buckets.iter().map(|it| it.at_us))
    } else {
        spacing_us(series.points.iter().map(|it| it.at_us))
    };
    Ok(spacing.map_or(0, |us| us as i64))
}

/// Returns RTT values of the event's direction, or else of the reverse one: an RTT covers both.
fn rtt(archive: &dyn Watched, event: &Event, span: Range) -> Result<Vec<Point>, StoreError> {
    let back = Pair {
        from: event.pair.to.clone(),
        to: event.pair.from.clone(),
    };
    for pair in [&event.pair, &back] {
        let series = archive.series(pair, Quantity::RttFloor, span, RTT_POINTS)?;
        let middle = |it: &longhaul_model::report::v1::series::Bucket| Point {
            at_us: it.at_us,
            value: it.median,
        };
        let mut points: Vec<Point> = series.buckets.iter().map(middle).collect();
        points.extend(series.points);
        if !points.is_empty() {
            return Ok(points);
        }
    }
    Ok(Vec::new())
}

/// Returns earlier events of the series that were open at the time of this one.
fn earlier(archive: &dyn Watched, event: &Event) -> Result<Vec<Event>, StoreError> {
    let filter = EventFilter {
        range: Range {
            begin_us: i64::MIN,
            end_us: event.between_us[0].saturating_add(1),
        },
        pair: Some(event.pair.clone()),
        state: None,
        limit: EVENTS_MAX,
    };
    let mut events = archive.events(&filter)?;
    events.retain(|earlier| {
        let open = longhaul_store::watched::is_open(earlier);
        let ended_by_this = earlier.recovered_by.as_ref() == Some(&event.id);
        earlier.quantity == event.quantity && earlier.id != event.id && (open || ended_by_this)
    });
    Ok(events)
}
