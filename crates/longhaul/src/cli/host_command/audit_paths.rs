//! The paths that this host is audited for: the one given by options, or those in the archive.

use crate::cli::args::HostArgs;
use crate::cli::command_output;
use crate::command_failure::CommandFailure;
use longhaul_model::report::v1::ThroughputReport;
use longhaul_model::report::v1::analysis::Limiter;
use longhaul_model::report::v1::host::AuditPath;
use std::net::IpAddr;

/// The maximum number of peers: the ones measured last.
const MAX_PEERS: usize = 20;
/// The maximum number of runs to search for them.
const MAX_RUNS: u32 = 500;
/// The origin of a path that was given by options.
const OPTION_ORIGIN: &str = "asked";

/// The paths, and the address of the peer measured last.
#[derive(Debug, Default)]
pub struct AuditPaths {
    pub paths: Vec<AuditPath>,
    pub latest: Option<IpAddr>,
}

pub fn load_audit_paths(args: &HostArgs) -> Result<AuditPaths, CommandFailure> {
    if let (Some(rtt_us), Some(rate_bps)) = (args.rtt, args.rate) {
        let path = AuditPath {
            name: args.prove.clone().unwrap_or_else(|| String::from("as given")),
            rtt_us,
            rate_bps,
            origin: String::from(OPTION_ORIGIN),
        };
        return Ok(AuditPaths { paths: vec![path], latest: None });
    }
    // Without an archive there are no paths yet.
    match command_output::open_archive(&args.output.archive)? {
        Some(archive) => Ok(collect_audit_paths(&archive.recent_reports(None, MAX_RUNS)?)),
        None => Ok(AuditPaths::default()),
    }
}

/// Collects the paths to each peer from the runs, newest first.
fn collect_audit_paths(runs: &[ThroughputReport]) -> AuditPaths {
    let mut seen: Vec<PeerSummary> = Vec::new();
    for run in runs {
        let name = &run.run.responder.host;
        if let Some(peer) = seen.iter_mut().find(|peer| peer.name == *name) {
            peer.add_run(run);
        } else if seen.len() < MAX_PEERS {
            let mut peer = PeerSummary { name: name.clone(), ..PeerSummary::default() };
            peer.add_run(run);
            seen.push(peer);
        }
    }
    let latest = runs.first().and_then(|run| run.run.responder.address.as_deref());
    AuditPaths {
        paths: seen.into_iter().filter_map(PeerSummary::into_path).collect(),
        latest: latest.and_then(|address| address.parse().ok()),
    }
}

/// A value and the id of the run that measured it.
type SourcedFigure = Option<(u64, String)>;

/// The measurements of one peer.
#[derive(Debug, Default)]
struct PeerSummary {
    name: String,
    rtt_us: SourcedFigure,
    goodput_bps: SourcedFigure,
    /// Whether the path itself limited any run, so that its rate was measured.
    path_limited: bool,
    /// The interface speed of the slower host.
    speed_bps: Option<u64>,
}

impl PeerSummary {
    fn add_run(&mut self, run: &ThroughputReport) {
        let id = &run.run.id;
        let forward = (Some(&run.observation), Some(&run.analysis));
        let (observed, analysed) = (&run.observation.reverse, &run.analysis.reverse);
        let reverse = (observed.as_deref(), analysed.as_deref());
        let both = [forward, reverse].into_iter().filter_map(|(seen, found)| seen.zip(found));
        for (observation, analysis) in both {
            let loaded = analysis.rtt_us.map(|rtt| rtt.min);
            keep_better(&mut self.rtt_us, observation.idle_rtt_us.or(loaded), id, |new, old| {
                new < old
            });
            keep_better(&mut self.goodput_bps, analysis.goodput_bps, id, |new, old| new > old);
            self.path_limited |= is_path_limiter(analysis.limited_by);
            let ends = [&observation.ends.sender, &observation.ends.receiver];
            let speeds = ends.map(|end| end.host.interface.as_ref().and_then(|i| i.speed_bps));
            self.speed_bps = self.speed_bps.or(speeds.into_iter().flatten().min());
        }
    }

    fn into_path(self) -> Option<AuditPath> {
        let (rtt_us, by) = self.rtt_us?;
        let (goodput_bps, at) = self.goodput_bps?;
        // A run limited by a window says nothing about the capacity of the path.
        let beyond = self.speed_bps.filter(|bps| !self.path_limited && *bps > goodput_bps);
        Some(AuditPath {
            name: self.name,
            rtt_us,
            rate_bps: beyond.unwrap_or(goodput_bps),
            origin: match beyond {
                Some(_) => format!("{by}; rate of the interfaces, because the path was never full"),
                None if by == at => by,
                None => format!("{by}, {at}"),
            },
        })
    }
}

fn keep_better(
    kept: &mut SourcedFigure,
    new: Option<u64>,
    id: &str,
    wins: impl Fn(u64, u64) -> bool,
) {
    let Some(new) = new.filter(|new| *new > 0) else {
        return;
    };
    if kept.as_ref().is_none_or(|(old, _)| wins(new, *old)) {
        *kept = Some((new, id.to_owned()));
    }
}

/// Returns true for limiters between the hosts.
fn is_path_limiter(limiter: Limiter) -> bool {
    matches!(limiter, Limiter::PathCapacity | Limiter::Shaper | Limiter::Policer | Limiter::Loss)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(id: &str, far: &str, limited_by: Limiter, goodput_bps: u64) -> ThroughputReport {
        let text = include_str!("../../../../../fixtures/reports/slac-daresbury-window.json");
        let mut run: ThroughputReport =
            serde_json::from_str(text).expect("the fixture is a report");
        run.run.id = id.to_owned();
        run.run.responder.host = far.to_owned();
        run.analysis.limited_by = limited_by;
        run.analysis.goodput_bps = Some(goodput_bps);
        run
    }

    #[test]
    fn a_path_has_the_rate_of_its_best_run_when_it_was_full_once() {
        let runs = [
            run("3", "far", Limiter::ReceiveWindow, 3_000_000),
            run("2", "far", Limiter::PathCapacity, 9_000_000),
            run("1", "other", Limiter::PathCapacity, 5_000_000),
        ];
        let known = collect_audit_paths(&runs);
        let rates: Vec<(&str, u64)> =
            known.paths.iter().map(|path| (path.name.as_str(), path.rate_bps)).collect();
        assert_eq!(rates, [("far", 9_000_000), ("other", 5_000_000)]);
        assert_eq!(known.paths[0].origin, "3, 2");
        assert!(known.latest.is_some());
    }

    #[test]
    fn a_path_that_was_never_full_has_the_rate_of_the_interfaces() {
        let mut only = run("1", "far", Limiter::ReceiveWindow, 3_000_000);
        for end in [&mut only.observation.ends.sender, &mut only.observation.ends.receiver] {
            end.host.interface.get_or_insert_default().speed_bps = Some(1_000_000_000);
        }
        let known = collect_audit_paths(&[only]);
        assert_eq!(known.paths[0].rate_bps, 1_000_000_000);
        assert!(known.paths[0].origin.contains("never full"));
    }

    #[test]
    fn no_more_far_ends_than_a_person_has_in_mind() {
        let runs: Vec<ThroughputReport> = (0..30)
            .map(|n| run(&n.to_string(), &format!("far{n}"), Limiter::Loss, 1_000_000))
            .collect();
        assert_eq!(collect_audit_paths(&runs).paths.len(), MAX_PEERS);
        assert!(collect_audit_paths(&[]).paths.is_empty());
    }
}
