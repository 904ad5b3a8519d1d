//! Agents of one mesh, each with its own schedule, on one virtual time.

use super::play::read;
use crate::watch::SECOND_US;
use crate::watch::hash_random::draw_number;
use crate::watch::measure_jobs::MeshTurns;
use crate::watch::mesh_rounds::{assign_rounds, choose_initiator, list_agents, list_pairs};
use crate::watch::path_resources::{PathResource, ResourceTable};
use crate::watch::run_schedule::{AttemptOutcome, ClockTimes, RunId, RunSchedule};
use crate::watch::watch_file::WatchFile;
use proptest::prelude::*;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, HashSet};

const BEGIN_US: i64 = 1_790_000_000 * SECOND_US;

fn mesh(hosts: usize, extra: &str) -> String {
    let each = (0..hosts)
        .map(|n| format!("[[host]]\nname = \"h{n}\"\ngroups = [\"all\"]\n"))
        .collect::<Vec<_>>()
        .concat();
    format!("[agent]\n{each}[[mesh]]\nname = \"all\"\n{extra}")
}

fn files(hosts: usize, extra: &str) -> Vec<WatchFile> {
    let text = mesh(hosts, extra);
    (0..hosts).map(|n| read(&text, Some(&format!("h{n}"))).expect("the file is right")).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn in_a_round_nothing_is_needed_twice_and_whole_meshes_take_the_least_rounds(hosts in 2_usize..40) {
        let file = &files(hosts, "[[measure]]\nname = \"m\"\nkind = \"throughput\"\nevery = \"7 d\"\n")[0];
        let parts = ResourceTable::new(file);
        let rounds = assign_rounds(&list_pairs(file, &[0], &list_agents(file)), &parts);
        prop_assert_eq!(rounds.pair_rounds().count(), hosts * (hosts - 1) / 2);
        let mut seen = HashSet::new();
        for ((one, other), round) in rounds.pair_rounds() {
            prop_assert!(seen.insert((one, round)) && seen.insert((other, round)));
        }
        let least = if hosts.is_multiple_of(2) { hosts - 1 } else { hosts };
        prop_assert_eq!(rounds.count as usize, least);
    }

    #[test]
    fn shared_links_and_targets_have_rounds_too(seed in any::<u64>(), hosts in 3_usize..16) {
        let mut text = mesh(hosts, "[[link]]\nname = \"l\"\n[[host]]\nname = \"t\"\n[[target]]\nhost = \"t\"\n[[measure]]\nname = \"m\"\nkind = \"throughput\"\nevery = \"7 d\"\n");
        for host in 0..hosts {
            if draw_number(seed, &[host as u64]).is_multiple_of(3) {
                let name = format!("name = \"h{host}\"\n");
                text = text.replacen(&name, &format!("{name}links = [\"l\"]\n"), 1);
            }
        }
        let file = read(&text, Some("h0")).expect("the file is right");
        let parts = ResourceTable::new(&file);
        let all = list_pairs(&file, &[0, 1], &list_agents(&file));
        let rounds = assign_rounds(&all, &parts);
        prop_assert_eq!(rounds.pair_rounds().count(), hosts * (hosts - 1) / 2 + hosts);
        let mut seen = HashSet::new();
        for ((one, other), round) in rounds.pair_rounds() {
            for need in parts.pair_resources(one, other) {
                prop_assert!(seen.insert((need, round)), "{} twice", parts.resource(need));
            }
        }
        prop_assert!(rounds.count >= rounds.min_count);
        prop_assert!(rounds.count <= 3 * rounds.min_count, "{} {}", rounds.count, rounds.min_count);
    }
}

#[test]
fn the_agents_share_the_pairs_evenly() {
    for host in 0..100 {
        let begun =
            (0..100).filter(|other| *other != host && choose_initiator(host, *other) == host);
        assert!((49..=50).contains(&begun.count()));
    }
}

/// Agents whose clocks are off by up to `off_us`; heavy runs are checked against all that go on.
fn play(files: &[WatchFile], off_us: i64, until_us: i64) -> HashMap<(String, String), usize> {
    let turns = MeshTurns::from_file(&files[0]);
    let mut agents: Vec<RunSchedule> = files
        .iter()
        .enumerate()
        .map(|(n, file)| RunSchedule::with_turns(file, turns.as_ref(), n as u64))
        .collect();
    let off = |n: usize| draw_number(9, &[n as u64]) as i64 % (off_us + 1);
    let now = |n: usize, us: i64| ClockTimes { wall_us: BEGIN_US + us + off(n), steady_us: us };
    let mut agenda: BinaryHeap<Reverse<(i64, usize, Option<RunId>)>> =
        (0..agents.len()).map(|n| Reverse((0, n, None))).collect();
    let mut held: HashMap<PathResource, RunId> = HashMap::new();
    let mut runs = HashMap::new();
    while let Some(Reverse((us, n, ended))) = agenda.pop().filter(|it| it.0.0 <= until_us) {
        if let Some(id) = ended {
            held.retain(|_, holder| *holder != id);
            let done = AttemptOutcome::Done { sent_bytes: 1 };
            assert!(agents[n].finish_run(&id, done, now(n, us)));
        }
        for start in agents[n].start_due(now(n, us)) {
            for need in &start.job.exclusive {
                let before = held.insert(need.clone(), start.id.clone());
                assert_eq!(before, None, "{need} is in use at {us}");
            }
            let key = &start.job.key;
            *runs.entry((key.from.to_string(), key.to.to_string())).or_insert(0) += 1;
            agenda.push(Reverse((us + start.job.max_duration_us, n, Some(start.id))));
        }
        if let Some(next) = agents[n].next_at() {
            agenda.push(Reverse((next - BEGIN_US - off(n), n, None)));
        }
        agents[n].take_notes();
    }
    let missed: u64 = agents.iter().map(|it| it.run_counts().missed).sum();
    assert_eq!(missed, 0, "in a mesh with its turns nothing is missed");
    runs
}

#[test]
fn twelve_agents_with_clocks_that_differ_never_meet_and_measure_every_pair_both_ways() {
    let measure = "[[measure]]\nname = \"bulk\"\nkind = \"throughput\"\nevery = \"10 min\"\n";
    let runs = play(&files(12, measure), 1_900_000, 3600 * SECOND_US);
    assert_eq!(runs.len(), 12 * 11);
    assert!(runs.values().all(|runs| (5..=7).contains(runs)), "{runs:?}");
}

#[test]
fn two_heavy_measurements_of_a_mesh_share_the_turns() {
    let measures = "[[measure]]\nname = \"bulk\"\nkind = \"throughput\"\nevery = \"1 h\"\n\
                    [[measure]]\nname = \"load\"\nkind = \"load\"\nevery = \"2 h\"\n";
    let runs = play(&files(7, measures), 0, 6 * 3600 * SECOND_US);
    assert_eq!(runs.len(), 7 * 6);
    assert!(runs.values().all(|runs| (7..=11).contains(runs)), "{runs:?}");
}
