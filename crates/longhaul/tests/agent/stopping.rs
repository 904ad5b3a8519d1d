//! The end: in order, at once, and of what an earlier agent left.

use crate::stage::*;
use longhaul_sys::signal::Signal;
use serde_json::Value;

/// One long run after the other.
const LONG: &str = "[[measure]]\nname = \"bulk\"\nkind = \"throughput\"\ntime = \"5 s\"\n\
                    rate = \"5 Mbit/s\"\nevery = \"11 s\"\ndirections = \"forward\"\n";

/// Waits until the agent has started the process of a run. The files in the spool are older than
/// the process, so they do not show that one is there.
fn wait_for_run_process(agent: &Agent) {
    let until = std::time::Instant::now() + DEADLINE;
    while !agent.has_child_process() {
        assert!(std::time::Instant::now() < until, "no run began");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

/// True if it then waits for its run, which may have been quicker than the signal.
fn waits_after(agent: &mut Agent, signal: Signal) -> bool {
    agent.signal(signal);
    let waits = |line: &Value| {
        let text = line["text"].as_str();
        text.is_some_and(|it| it.contains("waiting for 1 run"))
    };
    let line = agent.next(|line| waits(line) || line["event"] == "run");
    waits(&line.expect("the run, or that it is waited for"))
}

#[test]
fn an_agent_that_is_told_to_stop_waits_for_its_run() {
    let far = FarEnd::start(&[]);
    let folder = Folder::new("stop");
    folder.write("watch.toml", &file(far.port, LONG));
    let mut agent = Agent::start(&folder);
    agent.wait_for("watching");
    wait_for_run_process(&agent);
    if waits_after(&mut agent, Signal::SIGTERM) {
        agent.wait_for("run");
    }
    assert_eq!(agent.ended().code(), Some(0));
    let archive = archive(&folder);
    assert_all_ended(&archive);
    assert!(planned(&archive).iter().any(|row| run_of(row).is_some()));
}

#[test]
fn told_twice_it_ends_at_once_and_says_what_was_not_made() {
    let far = FarEnd::start(&[]);
    let folder = Folder::new("stop-twice");
    folder.write("watch.toml", &file(far.port, LONG));
    let mut agent = Agent::start(&folder);
    agent.wait_for("watching");
    wait_for_run_process(&agent);
    waits_after(&mut agent, Signal::SIGINT);
    agent.signal(Signal::SIGINT);
    assert_eq!(agent.ended().code(), Some(0));
    let archive = archive(&folder);
    assert_all_ended(&archive);
    // Unless the run was quicker than the second signal.
    let ends = planned(&archive);
    let ends: Vec<_> = ends.iter().map(|row| (run_of(row).is_some(), reason_of(row))).collect();
    let fine = |end: &(bool, Option<&str>)| end.0 || end.1 == Some("stopping");
    assert!(ends.iter().all(fine), "{ends:?}");
}

#[test]
fn a_run_that_outlives_its_agent_is_taken_up_by_the_next_one() {
    let far = FarEnd::start(&[]);
    let folder = Folder::new("orphan");
    folder.write("watch.toml", &file(far.port, LONG));
    let mut agent = Agent::start(&folder);
    agent.wait_for("watching");
    wait_for_run_process(&agent);
    agent.kill();
    let mut agent = Agent::start(&folder);
    let begun = agent.wait_for("watching");
    // Unless the run was quicker than the kill.
    if begun["spool"] != 0 {
        agent.wait_for_words("from the spool");
    }
    agent.stop();
    let archive = archive(&folder);
    assert_all_ended(&archive);
    assert!(planned(&archive).iter().any(|row| run_of(row).is_some()));
}
