//! Tests of every way in which a run can end: its exit code, and no leftovers.

use crate::harness::{Lab, Test, children_of, kill, until};
use longhaul_lab::lab_runtime::LabBackend;
use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};

pub const TESTS: &[Test] = &[
    ("the exit code is the command's", exit_codes),
    ("no process is left in the hosts", nothing_left),
    ("a signal to the lab reaches the command", signals),
    ("a far command that fails is told with its words", far_fails),
    ("sysctls of the machine come back after SIGKILL", sysctls_after_kill),
    ("sysctls come back though the guard was killed", sysctls_after_guard),
    ("a path that needs them is refused without root", refused),
];

const RMEM_MAX: &str = "/proc/sys/net/core/rmem_max";

const PLAIN: Lab<'static> =
    Lab { path: "plain.toml", far_fails: false, backend: LabBackend::Tun, unprivileged: false };

/// It clips socket buffers of the whole machine.
const DARESBURY: Lab<'static> = Lab { path: "slac-daresbury", ..PLAIN };

fn exit_codes() {
    let cases = [("exit 0", 0), ("exit 7", 7), ("kill -TERM $$", 143), ("kill -KILL $$", 137)];
    for (script, code) in cases {
        let outcome = PLAIN.run(&["sh", "-c", script]);
        assert_eq!(outcome.code, code, "{script}: {}", outcome.err);
    }
    let outcome = PLAIN.run(&["no-such-command"]);
    assert!(outcome.err.contains("cannot start `no-such-command`"), "{}", outcome.err);
}

/// Returns the processes in the network namespace of this name, `net:[…]`.
fn processes_in(namespace: &str) -> Vec<String> {
    let entries = std::fs::read_dir("/proc").expect("/proc").flatten();
    let inside = entries.filter(|entry| {
        let link = std::fs::read_link(entry.path().join("ns/net"));
        link.is_ok_and(|link| link.to_str() == Some(namespace))
    });
    inside.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

fn nothing_left() {
    for unprivileged in [false, true] {
        let backend = if unprivileged { LabBackend::Packet } else { LabBackend::Tun };
        let lab = Lab { backend, unprivileged, ..PLAIN };
        let script = "setsid sleep 1000 & sleep 1000 & readlink /proc/self/ns/net";
        let outcome = lab.run(&["sh", "-c", script]);
        let namespace = outcome.out.trim();
        assert!(namespace.starts_with("net:["), "{} {}", outcome.out, outcome.err);
        assert_eq!(processes_in(namespace), Vec::<String>::new());
    }
}

/// Starts a lab whose command prints one line and keeps running; returns the line.
fn start(lab: &Lab<'_>, script: &str) -> (Child, String) {
    let mut command = lab.command(&["sh", "-c", script]);
    let mut child = command.stdout(Stdio::piped()).spawn().expect("the lab");
    let mut line = String::new();
    let out = child.stdout.take().expect("its output");
    BufReader::new(out).read_line(&mut line).expect("a line");
    (child, line.trim().to_owned())
}

fn signals() {
    let (mut lab, _) =
        start(&PLAIN, "trap 'exit 9' TERM; echo ready; while :; do sleep 0.01; done");
    kill(lab.id(), "TERM");
    let status = lab.wait().expect("the lab's end");
    assert_eq!(status.code(), Some(9));
}

fn far_fails() {
    let lab = Lab { far_fails: true, ..PLAIN };
    let outcome = lab.run(&["true"]);
    assert_eq!(outcome.code, 99);
    let expected =
        ["the far command ended (exit status: 2) before it listened", "nothing to serve"];
    for text in expected {
        assert!(outcome.err.contains(text), "{text} is missing in {}", outcome.err);
    }
}

fn rmem_max() -> String {
    std::fs::read_to_string(RMEM_MAX).expect(RMEM_MAX).trim().to_owned()
}

const SAY_AND_STAY: &str =
    "echo $(cat /proc/sys/net/core/rmem_max) $(readlink /proc/self/ns/net); exec sleep 1000";

fn sysctls_after_kill() {
    let before = rmem_max();
    assert_ne!(before, "65536", "left by something else");
    let (mut lab, inside) = start(&DARESBURY, SAY_AND_STAY);
    let (value, namespace) = inside.split_once(' ').expect("value and namespace");
    assert_eq!((value, rmem_max().as_str()), ("65536", "65536"));
    kill(lab.id(), "KILL");
    lab.wait().expect("the lab's end");
    until("rmem_max is restored", || rmem_max() == before);
    until("the commands have ended", || processes_in(namespace).is_empty());
}

fn sysctls_after_guard() {
    let before = rmem_max();
    let (mut lab, _) = start(&DARESBURY, SAY_AND_STAY);
    // The guard is the child that was given the state file.
    let is_guard = |pid: &u32| {
        let words = std::fs::read_to_string(format!("/proc/{pid}/cmdline"));
        words.is_ok_and(|words| words.contains("machine.state"))
    };
    let guards = children_of(lab.id()).into_iter().filter(is_guard);
    let guards: Vec<u32> = guards.collect();
    assert_eq!(guards.len(), 1, "{guards:?}");
    kill(guards[0], "KILL");
    kill(lab.id(), "KILL");
    lab.wait().expect("the lab's end");
    assert_eq!(rmem_max(), "65536", "nobody was there to restore it");
    let outcome = DARESBURY.run(&["true"]);
    assert_eq!(outcome.code, 0, "{}", outcome.err);
    until("rmem_max is restored", || rmem_max() == before);
}

fn refused() {
    let lab = Lab { unprivileged: true, backend: LabBackend::Packet, ..DARESBURY };
    let outcome = lab.run(&["true"]);
    assert_eq!(outcome.code, 99, "{}", outcome.err);
    let expected = ["net.core.rmem_max = 65536", "run as root", "Unavailable"];
    for text in expected {
        assert!(outcome.err.contains(text), "{text} is missing in {}", outcome.err);
    }
    let outcome = Lab { path: "la-geneva", ..lab }.run(&["true"]);
    assert_eq!(outcome.code, 0, "{}", outcome.err);
    assert!(outcome.err.contains("caveat: not root"), "{}", outcome.err);
}
