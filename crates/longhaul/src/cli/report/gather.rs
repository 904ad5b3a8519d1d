//! Collects runs and series of paths from the archive.
//!
//! Runs of an agent have the host names of its watch file; runs started by a user have the typed
//! names. Of very many runs, an evenly spread selection is read, with a caveat.

use crate::fail::Fail;
use jiff::Timestamp;
use longhaul_analysis::beside::{Material, Taken, reversed};
use longhaul_analysis::imported::look;
use longhaul_model::report::v1::comparison::Period;
use longhaul_model::report::v1::plan::Direction;
use longhaul_model::report::v1::quantity::Quantity;
use longhaul_model::report::v1::series::{Pair, Series};
use longhaul_model::report::v1::{AnyReport, Caveat};
use longhaul_store::watched::{Range, RunFilter, run_of};
use longhaul_store::{Archive, Entry, StoreError, Watched};
use std::collections::{BTreeMap, BTreeSet};

/// The maximum number of listed runs, the newest.
const MOST_LISTED: u32 = 100_000;
/// The maximum number of reports read for one pair, and for all runs not made by an agent.
const MOST_READ: usize = 1_500;
/// The maximum number of values of a series; beyond it, the archive returns buckets.
const MOST_VALUES: u32 = 50_000;

/// The runs and series of the requested paths.
#[derive(Default)]
pub struct Gathered {
    pub runs: Vec<Taken>,
    pub series: Vec<Series>,
    pub caveats: Vec<Caveat>,
}

impl Gathered {
    /// Reads runs and values of paths from or to these hosts; without hosts, of all paths.
    pub fn of(archive: &Archive, hosts: &[String], period: Period) -> Result<Gathered, Fail> {
        let mut gathered = Gathered::default();
        let range = Range {
            begin_us: period.begin_us,
            end_us: period.end_us,
        };
        let mut known = BTreeSet::new();
        let pairs = archive.pairs()?;
        let agent = hub(&pairs);
        for pair in &pairs {
            let ours = |host: &String| pair.from == *host || pair.to == *host;
            if !hosts.is_empty() && !hosts.iter().any(ours) {
                continue;
            }
            gathered.watched(archive, (pair, agent.as_deref()), range, &mut known)?;
        }
        gathered.plain(archive, hosts, range, &known)?;
        Ok(gathered)
    }

    fn watched(
        &mut self,
        archive: &Archive,
        (pair, agent): (&Pair, Option<&str>),
        range: Range,
        known: &mut BTreeSet<String>,
    ) -> Result<(), StoreError> {
        for quantity in Quantity::ALL {
            let series = archive.series(pair, quantity, range, MOST_VALUES)?;
            if !series.buckets.is_empty() {
                self.caveat("buckets", BUCKETS);
            }
            self.series.push(series);
        }
        let entries = archive.runs(&filter(range, Some(pair)))?;
        for entry in self.spread(&entries) {
            // A path measurement covers both directions.
            if !known.insert(entry.id.clone()) {
                continue;
            }
            if let Some(report) = archive.report(&entry.id)? {
                let near = near(&report, pair, agent).to_owned();
                let far = if near == pair.from {
                    &pair.to
                } else {
                    &pair.from
                };
                self.runs.extend(taken(report, near, far.clone()));
            }
        }
        known.extend(entries.into_iter().map(|entry| entry.id));
        Ok(())
    }

    /// Adds runs that were not made by an agent, under the typed names.
    fn plain(
        &mut self,
        archive: &Archive,
        hosts: &[String],
        range: Range,
        known: &BTreeSet<String>,
    ) -> Result<(), StoreError> {
        let mut entries = archive.runs(&filter(range, None))?;
        entries.retain(|entry| {
            let ours = |host: &String| {
                entry.initiator_host == *host
                    || entry.responder_host == *host
                    || entry.responder_address.as_ref() == Some(host)
            };
            let two_ends = entry.initiator_host != entry.responder_host;
            two_ends && !known.contains(&entry.id) && (hosts.is_empty() || hosts.iter().any(ours))
        });
        for entry in self.spread(&entries) {
            if let Some(report) = archive.report(&entry.id)? {
                let (near, far) = (&entry.initiator_host, &entry.responder_host);
                self.runs.extend(taken(report, near.clone(), far.clone()));
            }
        }
        Ok(())
    }

    fn spread<'e>(&mut self, entries: &'e [Entry]) -> impl Iterator<Item = &'e Entry> + use<'e> {
        let step = entries.len().div_ceil(MOST_READ).max(1);
        if step > 1 {
            let text = format!(
                "of {} runs every {step}th report was read; their values are complete where an agent \
                 made them",
                entries.len()
            );
            self.caveat("spread", &text);
        }
        entries.iter().step_by(step)
    }

    fn caveat(&mut self, code: &str, text: &str) {
        let caveat = Caveat::new(code, text);
        if !self.caveats.contains(&caveat) {
            self.caveats.push(caveat);
        }
    }

    /// Returns one entry per path. Forward is towards the first of `hosts` that the path ends at;
    /// without hosts, away from the host that began most runs.
    pub fn materials(&self, hosts: &[String]) -> Vec<Material<'_>> {
        let mut paths: BTreeMap<[&str; 2], [u64; 2]> = BTreeMap::new();
        for run in &self.runs {
            let turned = usize::from(run.near > run.far);
            paths.entry(key(&run.near, &run.far)).or_default()[turned] += 1;
        }
        for series in self
            .series
            .iter()
            .filter(|s| !s.points.is_empty() || !s.buckets.is_empty())
        {
            paths
                .entry(key(&series.pair.from, &series.pair.to))
                .or_default();
        }
        let mut found: Vec<Material> = paths
            .into_iter()
            .map(|([first, second], begun)| {
                let (from, to) = match hosts.iter().find(|h| *h == first || *h == second) {
                    Some(host) if host == first => (second, first),
                    None if begun[1] > begun[0] => (second, first),
                    _ => (first, second),
                };
                let pair = Pair {
                    from: from.to_owned(),
                    to: to.to_owned(),
                };
                Material::new(pair, &self.runs, &self.series_of(from, to))
            })
            .collect();
        found.sort_by(|a, b| a.pair.cmp(&b.pair));
        let place = |m: &Material| hosts.iter().position(|h| *h == m.pair.to);
        found.sort_by_key(place);
        found
    }

    fn series_of(&self, from: &str, to: &str) -> Vec<Series> {
        let pair = Pair {
            from: from.to_owned(),
            to: to.to_owned(),
        };
        let back = reversed(&pair);
        let ours = self
            .series
            .iter()
            .filter(|s| s.pair == pair || s.pair == back);
        ours.cloned().collect()
    }
}

const BUCKETS: &str =
    "of a part of the time only hours are kept: each counts as one value, its median";

fn key<'a>(from: &'a str, to: &'a str) -> [&'a str; 2] {
    if from <= to { [from, to] } else { [to, from] }
}

fn filter(range: Range, pair: Option<&Pair>) -> RunFilter {
    RunFilter {
        range,
        pair: pair.cloned(),
        kind: None,
        limit: MOST_LISTED,
    }
}

/// Returns the host that is an end of every pair: the agent that owns the archive.
fn hub(pairs: &[Pair]) -> Option<String> {
    let mut ends: BTreeMap<&str, usize> = BTreeMap::new();
    for pair in pairs {
        *ends.entry(&pair.from).or_default() += 1;
        *ends.entry(&pair.to).or_default() += 1;
    }
    let (name, count) = ends.into_iter().max_by_key(|(_, count)| *count)?;
    // In a single pair, both ends qualify.
    (count == pairs.len() && pairs.len() > 2).then(|| name.to_owned())
}

/// Returns the end of a watched pair that began the run.
fn near<'p>(report: &AnyReport, pair: &'p Pair, agent: Option<&str>) -> &'p str {
    let run = run_of(report);
    let (initiator, responder) = (&run.initiator.host, &run.responder.host);
    if let AnyReport::Throughput(bulk) = report {
        match bulk.plan.direction {
            Direction::Forward => return &pair.from,
            Direction::Reverse => return &pair.to,
            Direction::Both => {}
        }
    }
    let is = |name: &str| *responder == name || run.responder.address.as_deref() == Some(name);
    if is(&pair.to) || *initiator == pair.from {
        &pair.from
    } else if is(&pair.from) || *initiator == pair.to || agent == Some(&pair.to) {
        &pair.to
    } else {
        &pair.from
    }
}

/// Returns `None` if the run's time cannot be parsed.
pub fn taken(mut report: AnyReport, near: String, far: String) -> Option<Taken> {
    slim(&mut report);
    // Imported routes count like our own.
    if let AnyReport::Imported(it) = &report
        && let Some(path) = look(it)
    {
        report = AnyReport::Path(Box::new(path));
    }
    let run = run_of(&report);
    let began: Timestamp = run.started_at.parse().ok()?;
    Some(Taken {
        at_us: began.as_microsecond(),
        run_id: run.id.clone(),
        near,
        far,
        report,
    })
}

/// Removes single samples, which are most of a report and not used here.
fn slim(report: &mut AnyReport) {
    match report {
        AnyReport::Throughput(it) => {
            let seen = &mut it.observation;
            let reverse = seen.reverse.as_deref_mut().map(|it| &mut it.streams);
            for stream in reverse.into_iter().chain([&mut seen.streams]).flatten() {
                stream.sender.samples = Vec::new();
                stream.receiver.samples = Vec::new();
            }
        }
        AnyReport::Available(it) => {
            let ways = [&mut it.observation.forward, &mut it.observation.reverse];
            for probing in ways.into_iter().flatten() {
                probing.trains = Vec::new();
                probing.tcp_samples = Vec::new();
            }
        }
        _ => {}
    }
}
