//! A disk without room: what is finished still lands, nothing new begins, and it goes on by itself
//! when there is room again.

use crate::stage::*;
use longhaul_sys::signal::Signal;
use serde_json::Value;
use std::fs::File;
use std::io::Write;
use std::path::PathBuf;
use std::process::Command;

/// Room for the archive, and little more.
const DISK: &str = "12m";

/// The agent on a small disk that only it and its shell see; what is left of it is copied out at
/// the end.
fn agent_on_small_disk(folder: &Folder) -> Agent {
    let (disk, kept) = (folder.file("disk"), folder.file("kept"));
    std::fs::create_dir_all(&disk).expect("a folder");
    let script = format!(
        "mount -t tmpfs -o size={DISK} tmpfs {disk} && cp {file} {disk}/watch.toml && \
         trap '' TERM && {program} watch {disk}/watch.toml \"$@\"; rm -f {disk}/filler; \
         cp -r {disk} {kept}",
        disk = disk.display(),
        kept = kept.display(),
        file = folder.file("watch.toml").display(),
        program = program()
    );
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user", "--mount", "sh", "-c"]);
    command.arg(script).arg("sh");
    Agent::of(command, &folder.file("stderr.txt"))
}

/// The number of the agent's own process: the child of the shell.
fn agent_of(shell: u32) -> Option<u32> {
    let children = format!("/proc/{shell}/task/{shell}/children");
    let text = std::fs::read_to_string(children).ok()?;
    text.split_whitespace().next()?.parse().ok()
}

/// Fills the disk to the last byte.
fn fill(path: &PathBuf) {
    let mut file = File::create(path).expect("the disk is there");
    for piece in [1 << 20, 1 << 12, 1] {
        let bytes = vec![b'x'; piece];
        while file.write_all(&bytes).is_ok() {}
    }
}

#[test]
fn a_full_disk_loses_no_finished_result() {
    let far = FarEnd::start(&[]);
    let folder = Folder::new("full");
    let bulk = "[[measure]]\nname = \"bulk\"\nkind = \"throughput\"\ntime = \"4 s\"\n\
                rate = \"5 Mbit/s\"\nevery = \"10 s\"\ndirections = \"forward\"\n";
    folder.write("watch.toml", &file(far.port, &format!("{LOOKS}{bulk}")));
    let mut agent = agent_on_small_disk(&folder);
    agent.wait_for("watching");
    agent.wait_for("run");
    let own = agent_of(agent.child.id()).expect("the shell has started it");
    let seen = PathBuf::from(format!("/proc/{own}/root{}", folder.file("disk").display()));
    let bulk = wait_for_bulk(&seen);
    fill(&seen.join("filler"));
    // The bulk run was under way when the disk filled up: its result waits in the spool.
    agent.wait_for_words("stays in the spool");
    let missed = agent.next(|it| it["event"] == "missed" && it["reason"] == "disk_full");
    assert!(missed.is_some(), "nothing new begins");
    std::fs::remove_file(seen.join("filler")).expect("it is there");
    agent.wait_for_words("disk space is available again");
    agent.wait_for_words("from the spool");
    let again = agent.wait_for("run");
    longhaul_sys::signal::send_signal(own, Signal::SIGTERM).expect("it is there");
    assert!(agent.ended().success());
    check(&folder, &bulk, &again);
}

/// The planned run that a bulk run is for, once one has begun.
fn wait_for_bulk(seen: &std::path::Path) -> String {
    let spool = seen.join("archive.sqlite3.agent/spool");
    let until = std::time::Instant::now() + DEADLINE;
    let bulk = |path: PathBuf| {
        let text = std::fs::read_to_string(path).ok()?;
        let owner: Value = serde_json::from_str(&text).ok()?;
        let planned = owner["planned"].as_str()?.to_owned();
        (owner["measure"] == "bulk").then_some(planned)
    };
    loop {
        let entries = std::fs::read_dir(&spool).into_iter().flatten().flatten();
        if let Some(planned) = entries.map(|it| it.path()).find_map(bulk) {
            return planned;
        }
        assert!(std::time::Instant::now() < until, "no bulk run began");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

fn check(folder: &Folder, bulk: &str, again: &Value) {
    let kept = Folder(folder.file("kept"));
    let archive = archive(&kept);
    assert_all_ended(&archive);
    let rows = planned(&archive);
    let bulk = rows.iter().find(|row| row.id == bulk).and_then(run_of);
    for id in [bulk, again["run"].as_str()] {
        let id = id.expect("an id");
        assert!(archive.report(id).expect("readable").is_some(), "{id}");
        assert!(rows.iter().any(|row| run_of(row) == Some(id)), "{id}");
    }
}
