//! Runs land with their values, and a new file costs none.

use crate::stage::*;
use longhaul_model::report::v1::latency::LatencyProtocol;
use longhaul_model::report::v1::quantity::PathQuantity;
use longhaul_model::report::v1::{AnyReport, HostPair};
use longhaul_store::history_store::TimeRange;
use longhaul_sys::signal::Signal;

fn pair(from: &str, to: &str) -> HostPair {
    HostPair { from: from.to_owned(), to: to.to_owned() }
}

#[test]
fn a_run_lands_with_its_values_and_settles_what_was_planned() {
    let far = FarEnd::start(&[]);
    let folder = Folder::new("lands");
    let bulk = "[[measure]]\nname = \"bulk\"\nkind = \"throughput\"\ntime = \"1 s\"\n\
                rate = \"20 Mbit/s\"\nevery = \"12 s\"\ndirections = \"reverse\"\n";
    folder.write("watch.toml", &file(far.port, &format!("{LOOKS}{bulk}")));
    let mut agent = Agent::start(&folder);
    let begun = agent.wait_for("watching");
    assert_eq!(begun["agent"], "near");
    assert!(begun["page"].as_str().is_some_and(|it| it.starts_with("http://127.0.0.1:")));
    let look = agent.next(|it| it["event"] == "run" && it["measurement"] == "look");
    let look = look.expect("a look at the path");
    let bulk = agent.next(|it| it["event"] == "run" && it["measurement"] == "bulk");
    let bulk = bulk.expect("a bulk run");
    assert_eq!((&bulk["from"], &bulk["to"]), (&"far".into(), &"near".into()));
    agent.stop();
    let archive = archive(&folder);
    for line in [&look, &bulk] {
        let rows = planned(&archive);
        let row = rows.iter().find(|row| line["planned"] == *row.id);
        let row = row.expect("it was planned");
        assert_eq!(run_of(row).map(Into::into), Some(line["run"].clone()));
        let run = line["run"].as_str().expect("an id");
        assert!(archive.report(run).expect("readable").is_some());
    }
    let values = |from, to, quantity| {
        let series = archive.series(&pair(from, to), quantity, TimeRange::ALL, 1000);
        series.expect("readable").points.len()
    };
    assert!(values("far", "near", PathQuantity::Goodput) >= 1);
    assert_eq!(values("near", "far", PathQuantity::Goodput), 0);
    assert!(values("near", "far", PathQuantity::RttFloor) >= 1);
    assert_all_ended(&archive);
    // Nothing is left of runs that ended.
    let spool = std::fs::read_dir(folder.file("archive.sqlite3.agent/spool")).expect("a folder");
    let names: Vec<_> = spool.map(|it| it.expect("an entry").file_name()).collect();
    assert!(names.is_empty(), "{names:?}");
}

#[test]
fn a_new_file_is_followed_while_a_run_goes_on_and_a_wrong_one_is_not() {
    let far = FarEnd::start(&[]);
    let folder = Folder::new("reload");
    let bulk = |name: &str| {
        format!(
            "[[measure]]\nname = \"{name}\"\nkind = \"throughput\"\ntime = \"3 s\"\n\
             rate = \"10 Mbit/s\"\nevery = \"10 s\"\ndirections = \"forward\"\n"
        )
    };
    folder.write("watch.toml", &file(far.port, &bulk("one")));
    let mut agent = Agent::start(&folder);
    agent.wait_for("watching");
    // Whenever it comes, it meets a run sooner or later: each lasts a third of the time.
    agent.wait_for("run");
    folder.write("watch.toml", &file(far.port, "[[measure]]\nnme = \"x\"\n"));
    agent.signal(Signal::SIGHUP);
    agent.wait_for_words("unknown key");
    agent.wait_for_words("keeping the previous one");
    let goes_on = agent.wait_for("run");
    assert_eq!(goes_on["measurement"], "one");
    folder.write("watch.toml", &file(far.port, &bulk("two")));
    agent.signal(Signal::SIGHUP);
    agent.wait_for_words("watch file reloaded");
    let new = agent.next(|it| it["event"] == "run" && it["measurement"] == "two");
    assert!(new.is_some(), "the new file is followed");
    agent.stop();
    let archive = archive(&folder);
    assert_all_ended(&archive);
    let rows = planned(&archive);
    let lost = rows.iter().filter(|row| reason_of(row) == Some("failed"));
    assert_eq!(lost.count(), 0, "{rows:?}");
}

#[test]
fn a_busy_far_end_is_tried_again_and_a_dead_one_fails_with_its_reason() {
    let far = FarEnd::start(&["--max-sessions", "1", "--anonymous-time", "1h"]);
    let folder = Folder::new("busy");
    // Somebody else has the only place until the agent has been refused.
    let mut other = std::process::Command::new(program())
        .args(["test", "127.0.0.1", "-t", "1h", "-b", "1M", "--no-save", "--quiet", "-p"])
        .arg(far.port.to_string())
        .stdout(std::process::Stdio::null())
        .spawn()
        .expect("start");
    far.wait_for("session_opened");
    let text = format!(
        "{}[[host]]\nname = \"dead\"\naddress = \"127.0.0.1\"\nport = 1\n[[target]]\n\
         host = \"dead\"\n[[measure]]\nname = \"bulk\"\nkind = \"throughput\"\ntime = \"1 s\"\n\
         rate = \"10 Mbit/s\"\nevery = \"13 s\"\ndirections = \"forward\"\n",
        file(far.port, "")
    );
    folder.write("watch.toml", &text);
    let mut agent = Agent::start(&folder);
    agent.wait_for("watching");
    let seen = std::cell::RefCell::new((None, None));
    agent.next(|it| {
        let why = it["why"].as_str().map(str::to_owned);
        match it["event"].as_str() {
            Some("failed") if it["to"] == "dead" => seen.borrow_mut().0 = why,
            Some("refused") => seen.borrow_mut().1 = why,
            _ => {}
        }
        let seen = seen.borrow();
        seen.0.is_some() && seen.1.is_some()
    });
    let _ = other.kill();
    let _ = other.wait();
    let (failed, refused) = seen.into_inner();
    assert!(failed.is_some_and(|it| it.contains("cannot connect")));
    assert!(refused.is_some_and(|it| it.contains("try again later")));
    agent.wait_for("run");
    agent.stop();
    let rows = planned(&archive(&folder));
    let dead = rows.iter().filter(|row| row.pair.as_ref().is_some_and(|pair| pair.to == "dead"));
    for row in dead {
        let reason = reason_of(row).expect("no result");
        assert!(["failed", "stopping"].contains(&reason), "{reason}");
    }
}

#[test]
fn an_archive_has_one_agent_and_a_port_one_page() {
    let far = FarEnd::start(&[]);
    let folder = Folder::new("one");
    folder.write("watch.toml", &file(far.port, LOOKS));
    let mut agent = Agent::start(&folder);
    let begun = agent.wait_for("watching");
    let second = |name: &str| {
        let output = std::process::Command::new(program())
            .arg("watch")
            .arg(folder.file(name))
            .output()
            .expect("it ends at once");
        (output.status.code(), String::from_utf8(output.stderr).expect("UTF-8"))
    };
    let (code, told) = second("watch.toml");
    assert_eq!(code, Some(6), "{told}");
    assert!(told.contains("another agent uses it"), "{told}");
    let page = begun["page"].as_str().expect("an address");
    let port = page.trim_end_matches('/').rsplit(':').next().expect("a port");
    let text = file(far.port, LOOKS)
        .replace("127.0.0.1:0", &format!("127.0.0.1:{port}"))
        .replace("archive.sqlite3", "other.sqlite3");
    folder.write("second.toml", &text);
    let (code, told) = second("second.toml");
    assert_eq!(code, Some(5), "{told}");
    assert!(told.contains("choose another `listen`"), "{told}");
    agent.stop();
}

#[test]
fn a_server_of_twamp_is_asked_for_a_session_for_each_run() {
    let folder = Folder::new("twamp");
    let keys = folder.write("joe.key", "joe a passphrase");
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("its address").port();
    drop(listener);
    let twamp = format!("--twamp={port}");
    let far = FarEnd::start(&[&twamp, "--twamp-keys", keys.to_str().expect("UTF-8")]);
    let delay = format!(
        "[[measure]]\nname = \"delay\"\nkind = \"latency\"\ncount = 5\nevery = \"2 s\"\n\
         twamp_control = {port}\nkey_file = \"joe.key\"\n"
    );
    folder.write("watch.toml", &file(far.port, &delay));
    let mut agent = Agent::start(&folder);
    let runs = [agent.wait_for("run"), agent.wait_for("run")];
    agent.stop();
    let archive = archive(&folder);
    for line in runs {
        let report = archive.report(line["run"].as_str().expect("an id")).expect("readable");
        let Some(AnyReport::Latency(report)) = report else { panic!("{report:?}") };
        let plan = &report.plan;
        assert!(plan.protocol == LatencyProtocol::Twamp && plan.authenticated);
        assert_eq!((plan.control_port, plan.port), (Some(port), port));
        assert_eq!(report.analysis.answered_packets, 5);
    }
    let losses = archive.series(&pair("near", "far"), PathQuantity::Loss, TimeRange::ALL, 1000);
    assert!(losses.expect("readable").points.len() >= 2);
}
