//! An agent that is killed again and again, at points of chance: no finished result is lost, none
//! is there twice, and every planned run has an end.

use crate::stage::*;
use longhaul_model::report::v1::HostPair;
use longhaul_model::report::v1::quantity::PathQuantity;
use longhaul_store::history_store::{RunFilter, TimeRange};
use std::collections::{BTreeSet, HashSet};
use std::time::Duration;

const KILLS: u64 = 50;
/// So many lives last until a run is there.
const FRUITFUL: u64 = 10;

#[test]
fn fifty_kills_lose_no_result_and_double_none() {
    let far = FarEnd::start(&[]);
    let folder = Folder::new("killed");
    folder.write("watch.toml", &file(far.port, LOOKS));
    let mut said = BTreeSet::new();
    let mut chance = 7_u64;
    for life in 0..KILLS {
        let mut agent = Agent::start(&folder);
        if life < FRUITFUL {
            said.extend(runs_said(&[agent.wait_for("run")]));
        }
        // From before its first word to some runs later.
        chance = chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        std::thread::sleep(Duration::from_millis((chance >> 33) % 500));
        agent.child.kill().expect("it was alive");
        agent.child.wait().expect("its end");
        said.extend(runs_said(&agent.rest()));
    }
    let mut agent = Agent::start(&folder);
    let last = agent.wait_for("run");
    said.insert(last["run"].as_str().expect("an id").to_owned());
    said.extend(runs_said(&agent.stop()));
    check(&folder, &said);
    println!("attack: tried {KILLS}");
}

fn runs_said(lines: &[serde_json::Value]) -> Vec<String> {
    let runs = lines.iter().filter(|it| it["event"] == "run");
    runs.filter_map(|it| it["run"].as_str().map(str::to_owned)).collect()
}

fn check(folder: &Folder, said: &BTreeSet<String>) {
    let archive = archive(folder);
    assert_all_ended(&archive);
    let rows = planned(&archive);
    let done: Vec<&str> = rows.iter().filter_map(run_of).collect();
    let once: HashSet<&str> = done.iter().copied().collect();
    assert_eq!(once.len(), done.len(), "a run settles one planned run");
    for run in said {
        assert!(once.contains(run.as_str()), "{run} was said and is lost");
    }
    // What its own process filed is watched too: none is without its planned run.
    let runs = archive.runs(&RunFilter::newest(100_000));
    let filed: HashSet<String> = runs.expect("rows").into_iter().map(|run| run.id).collect();
    let lost: Vec<&String> = filed.iter().filter(|id| !once.contains(id.as_str())).collect();
    assert!(lost.is_empty(), "filed, and nobody knows: {lost:?}");
    let pair = HostPair { from: "near".to_owned(), to: "far".to_owned() };
    let series = archive.series(&pair, PathQuantity::RttFloor, TimeRange::ALL, 100_000);
    let points = series.expect("readable").points.len();
    // A run begins in a second of its own, or shares its value's place with another.
    assert!(points > 0 && points <= done.len(), "{points} of {}", done.len());
    assert!(done.len() as u64 > FRUITFUL, "{} results", done.len());
}
