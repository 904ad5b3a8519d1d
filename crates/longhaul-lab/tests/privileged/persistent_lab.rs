//! Tests of a persistent lab: set up, used, queried and taken down.

use crate::harness::{Outcome, Test, kill, own_executable, own_path, until};

pub const TESTS: &[Test] = &[
    ("a standing lab is used by commands and taken down", stands),
    ("a lab that was killed does not stand any more", killed),
];

fn standing(words: &[&str], unprivileged: bool) -> Outcome {
    let mut command = own_executable(unprivileged);
    command.arg("as-standing").args(words);
    Outcome::of(command.env_remove("XDG_RUNTIME_DIR"))
}

fn stands() {
    for unprivileged in [false, true] {
        let path = own_path("plain.toml");
        let up = standing(&["up", &path], unprivileged);
        assert_eq!(up.code, 0, "{}", up.err);
        let again = standing(&["up", &path], unprivileged);
        assert!(again.err.contains("lab plain is already running"), "{}", again.err);
        let listed = standing(&["list"], unprivileged);
        assert!(listed.out.contains("plain"), "{}", listed.out);
        // Pings until an answer arrives, however late.
        let until = ["-i", "0.2", "-c", "1", "-w", "120"];
        let ping = standing(&[&["near", "ping", "far"][..], &until].concat(), unprivileged);
        assert_eq!(ping.code, 0, "{} {}", ping.out, ping.err);
        let there = standing(&[&["far", "ping", "near"][..], &until].concat(), unprivileged);
        assert_eq!(there.code, 0, "{} {}", there.out, there.err);
        assert_eq!(standing(&["far", "sh", "-c", "exit 3"], unprivileged).code, 3);
        let truth = standing(&["truth"], unprivileged);
        assert!(truth.out.contains("\"goodput_limit_bps\""), "{} {}", truth.out, truth.err);
        assert_eq!(standing(&["down"], unprivileged).code, 0);
        let gone = standing(&["down"], unprivileged);
        assert!(gone.err.contains("lab plain is not running"), "{}", gone.err);
    }
}

fn killed() {
    let up = standing(&["up", &own_path("plain.toml")], false);
    let pid: u32 = up.out.trim().parse().unwrap_or_else(|_| panic!("{} {}", up.out, up.err));
    kill(pid, "KILL");
    until("the lab is gone", || standing(&["list"], false).out.trim().is_empty());
    let near = standing(&["near", "true"], false);
    assert!(near.err.contains("lab plain is not running"), "{}", near.err);
}
