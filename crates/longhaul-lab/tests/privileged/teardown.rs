//! Tests of every way in which a run can end: its exit code, and no leftovers.

use crate::harness::{Lab, Test, children_of, kill, until};
use longhaul_lab::lab_runtime::LabBackend;
use longhaul_lab::sysctl_guard;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

pub const TESTS: &[Test] = &[
    ("the exit code is the command's", exit_codes),
    ("no process is left in the hosts", nothing_left),
    ("a signal to the lab reaches the command", signals),
    ("a far command that fails is told with its words", far_fails),
    ("sysctls of the machine come back after SIGKILL", sysctls_after_kill),
    ("sysctls come back though the guard was killed", sysctls_after_guard),
    ("a hundred kills at random moments leave nothing", killed),
    ("a killed lab without root leaves no process", killed_without_root),
    ("a path that needs them is refused without root", refused),
];

const RMEM_MAX: &str = "/proc/sys/net/core/rmem_max";

const PLAIN: Lab<'static> =
    Lab { path: "plain.toml", far_fails: false, backend: LabBackend::Tun, unprivileged: false };

/// It sets a limit of socket buffers for the whole machine, to one that hampers no test beside.
const MACHINE_LIMIT: Lab<'static> = Lab { path: "machine-limit.toml", ..PLAIN };
const LIMIT: &str = "8388608";

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

/// A lab that is killed at the latest with the test: a failed one leaves none.
struct StartedLab(Child);

impl Drop for StartedLab {
    fn drop(&mut self) {
        // Fails if it has already ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts a lab whose command prints one line and keeps running; returns the line.
fn start(lab: &Lab<'_>, script: &str) -> (StartedLab, String) {
    let mut command = lab.command(&["sh", "-c", script]);
    let mut lab = StartedLab(command.stdout(Stdio::piped()).spawn().expect("the lab"));
    let mut line = String::new();
    let out = lab.0.stdout.take().expect("its output");
    BufReader::new(out).read_line(&mut line).expect("a line");
    (lab, line.trim().to_owned())
}

fn signals() {
    let (mut lab, _) =
        start(&PLAIN, "trap 'exit 9' TERM; echo ready; while :; do sleep 0.01; done");
    kill(lab.0.id(), "TERM");
    let status = lab.0.wait().expect("the lab's end");
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
    assert_ne!(before, LIMIT, "left by something else");
    let (mut lab, inside) = start(&MACHINE_LIMIT, SAY_AND_STAY);
    let (value, namespace) = inside.split_once(' ').expect("value and namespace");
    assert_eq!((value, rmem_max().as_str()), (LIMIT, LIMIT));
    kill(lab.0.id(), "KILL");
    lab.0.wait().expect("the lab's end");
    until("rmem_max is restored", || rmem_max() == before);
    until("the commands have ended", || processes_in(namespace).is_empty());
}

/// Returns the guard of a lab: the child that was given the state file.
fn find_guard(lab: u32) -> Option<u32> {
    let is_guard = |pid: &u32| {
        let words = std::fs::read_to_string(format!("/proc/{pid}/cmdline"));
        words.is_ok_and(|words| words.contains("machine.state"))
    };
    children_of(lab).into_iter().find(is_guard)
}

fn sysctls_after_guard() {
    let before = rmem_max();
    let (mut lab, _) = start(&MACHINE_LIMIT, SAY_AND_STAY);
    kill(find_guard(lab.0.id()).expect("a guard"), "KILL");
    kill(lab.0.id(), "KILL");
    lab.0.wait().expect("the lab's end");
    assert_eq!(rmem_max(), LIMIT, "nobody was there to restore it");
    let stale = sysctl_guard::find_stale_sysctls();
    assert!(stale.iter().any(|left| left.originals.iter().any(|(_, value)| *value == before)));
    let outcome = MACHINE_LIMIT.run(&["true"]);
    assert_eq!(outcome.code, 0, "{}", outcome.err);
    until("rmem_max is restored", || rmem_max() == before);
    assert!(sysctl_guard::find_stale_sysctls().is_empty());
}

const KILLS: u64 = 100;

/// Returns whether a process has this word in its command line.
fn is_running(word: &str) -> bool {
    let entries = std::fs::read_dir("/proc").expect("/proc").flatten();
    let lines = entries.map(|entry| std::fs::read_to_string(entry.path().join("cmdline")));
    lines.flatten().any(|line| line.split('\0').any(|part| part == word))
}

/// Returns a script that leaves processes with this word in every way that a shell knows.
fn leave_processes(word: &str) -> String {
    format!("setsid sleep {word} & (sleep {word} &) ; sleep {word} & echo ready; exec sleep {word}")
}

/// Kills the lab, its guard, both, or the whole process group, from before the path is set up until
/// some time after its command has left processes in the background.
fn killed() {
    let before = rmem_max();
    let mut chance = 7_u64;
    for number in 0..KILLS {
        let word = format!("{}", 7_000_000 + number);
        let mut command = MACHINE_LIMIT.command(&["sh", "-c", &leave_processes(&word)]);
        let lab = command.process_group(0).stdout(Stdio::null()).spawn();
        let mut lab = StartedLab(lab.expect("the lab"));
        chance = chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        std::thread::sleep(Duration::from_millis((chance >> 33) % 700));
        let guard = find_guard(lab.0.id());
        if number % 4 > 0
            && let Some(guard) = guard
        {
            kill(guard, "KILL");
        }
        match number % 4 {
            1 => kill(lab.0.id(), "TERM"),
            3 => kill_group(lab.0.id()),
            _ => kill(lab.0.id(), "KILL"),
        }
        lab.0.wait().expect("the lab's end");
        until("its processes have ended", || !is_running(&word));
        until("rmem_max is restored", || {
            // Nothing is stale while the first process of the lab, which has its files, is ending.
            if number % 4 > 1 {
                let stale = sysctl_guard::find_stale_sysctls();
                sysctl_guard::restore_stale_sysctls(&stale).expect("root restores");
            }
            rmem_max() == before
        });
    }
    assert!(sysctl_guard::find_stale_sysctls().is_empty());
    println!("attack: tried {KILLS}");
}

fn killed_without_root() {
    let lab = Lab { unprivileged: true, backend: LabBackend::Packet, ..PLAIN };
    for number in 0..10 {
        let word = format!("{}", 8_000_000 + number);
        let (mut started, _) = start(&lab, &leave_processes(&word));
        // The shell speaks before its last process begins.
        until("its processes run", || is_running(&word));
        kill(started.0.id(), "KILL");
        started.0.wait().expect("the lab's end");
        until("its processes have ended", || !is_running(&word));
    }
}

fn kill_group(leader: u32) {
    let group = format!("-{leader}");
    let status = Command::new("kill").args(["-KILL", "--", &group]).status();
    assert!(status.expect("kill").success());
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
