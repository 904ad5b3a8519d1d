//! The paths that this host is audited for: the one given by options, or those in the archive.

use crate::cli::args::{EnvironmentArgs, HostArgs};
use crate::cli::command_output;
use crate::command_failure::CommandFailure;
use longhaul_model::report::v1::analysis::{Limiter, ThroughputAnalysis};
use longhaul_model::report::v1::host::AuditPath;
use longhaul_model::report::v1::observation::ThroughputObservation;
use longhaul_model::report::v1::{RunParty, ThroughputReport};
use longhaul_store::PathSelector;
use std::cmp::Reverse;
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
            name: args.prove.as_ref().map_or("as given", |it| &it.host).to_owned(),
            rtt_us,
            rate_bps,
            origin: String::from(OPTION_ORIGIN),
        };
        return Ok(AuditPaths { paths: vec![path], latest: None });
    }
    // Without an archive there are no paths yet.
    let environment = EnvironmentArgs { environment: args.environment.clone() }.filter();
    let all = PathSelector { environment: environment.as_deref(), ..PathSelector::default() };
    match command_output::open_archive(&args.output.archive)? {
        Some(archive) => Ok(collect_audit_paths(&archive.recent_reports(&all, MAX_RUNS)?)),
        None => Ok(AuditPaths::default()),
    }
}

/// Collects the paths to each peer from the runs, newest first.
fn collect_audit_paths(runs: &[ThroughputReport]) -> AuditPaths {
    let mut peers: Vec<&RunParty> = Vec::new();
    for run in runs {
        let peer = &run.run.responder;
        if peers.len() < MAX_PEERS && !peers.iter().any(|it| is_same_server(it, peer)) {
            peers.push(peer);
        }
    }
    let is_ambiguous =
        |peer: &RunParty| peers.iter().filter(|other| other.host == peer.host).count() > 1;
    let paths = peers.iter().filter_map(|peer| {
        let name = match &peer.address {
            Some(address) if is_ambiguous(peer) => format!("{} ({address})", peer.host),
            _ => peer.host.clone(),
        };
        let runs = runs.iter().filter(|run| is_same_server(&run.run.responder, peer));
        summarize_peer(name, runs)
    });
    let latest = runs.first().and_then(|run| run.run.responder.address.as_deref());
    AuditPaths { paths: paths.collect(), latest: latest.and_then(|address| address.parse().ok()) }
}

/// Returns true if two servers are one by name and address.
fn is_same_server(one: &RunParty, other: &RunParty) -> bool {
    one.host == other.host && one.address == other.address
}

/// One direction of a run, with the id of the run.
struct MeasuredDirection<'a> {
    id: &'a str,
    observation: &'a ThroughputObservation,
    analysis: &'a ThroughputAnalysis,
}

impl MeasuredDirection<'_> {
    fn rtt_us(&self) -> Option<u64> {
        let loaded = || self.analysis.rtt_us.map(|rtt| rtt.min);
        self.observation.idle_rtt_us.or_else(loaded).filter(|us| *us > 0)
    }

    fn goodput_bps(&self) -> Option<u64> {
        self.analysis.goodput_bps.filter(|bps| *bps > 0)
    }

    /// Returns the interface speed of the slower host.
    fn interface_bps(&self) -> Option<u64> {
        let ends = [&self.observation.ends.sender, &self.observation.ends.receiver];
        ends.into_iter().filter_map(|end| end.host.interface.as_ref()?.speed_bps).min()
    }
}

/// Returns the path to a peer, with the minimum RTT and the maximum goodput of all runs.
fn summarize_peer<'r>(
    name: String,
    runs: impl Iterator<Item = &'r ThroughputReport>,
) -> Option<AuditPath> {
    let measured: Vec<MeasuredDirection> = runs
        .flat_map(|run| {
            let (seen, found) = (&run.observation, &run.analysis);
            let reverse = seen.reverse.as_deref().zip(found.reverse.as_deref());
            [Some((seen, found)), reverse].into_iter().flatten().map(|(observation, analysis)| {
                MeasuredDirection { id: &run.run.id, observation, analysis }
            })
        })
        .collect();
    let rtts = measured.iter().filter_map(|it| Some((it.rtt_us()?, it.id)));
    let (rtt_us, by) = rtts.min_by_key(|(us, _)| *us)?;
    let goodputs = measured.iter().filter_map(|it| Some((it.goodput_bps()?, it.id)));
    let (goodput_bps, at) = goodputs.min_by_key(|(bps, _)| Reverse(*bps))?;
    // A run limited by a window says nothing about the capacity of the path.
    let was_full = measured.iter().any(|it| is_path_limiter(it.analysis.limited_by));
    let speed = measured.iter().find_map(MeasuredDirection::interface_bps);
    let beyond = speed.filter(|bps| !was_full && *bps > goodput_bps);
    Some(AuditPath {
        name,
        rtt_us,
        rate_bps: beyond.unwrap_or(goodput_bps),
        origin: match beyond {
            Some(_) => format!("{by}; rate of the interfaces, because the path was never full"),
            None if by == at => by.to_owned(),
            None => format!("{by}, {at}"),
        },
    })
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
