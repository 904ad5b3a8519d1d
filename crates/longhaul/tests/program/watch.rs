//! `longhaul watch --check`: the summary of a file that is right, and all that is wrong with others.

use crate::support::{Folder, golden, longhaul};
use serde_json::Value;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

fn example() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../contrib/watch.toml")
}

/// Standard output and standard error of a check that ends with `code`.
fn checked(file: &Path, more: &[&str], code: i32) -> (String, String) {
    let assert = longhaul().args(["watch", "--check"]).arg(file).args(more).assert().code(code);
    let output = assert.get_output();
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("UTF-8");
    (text(&output.stdout), text(&output.stderr))
}

/// What is said of a file with this text; the folder's name is left out of it.
fn refused(test: &str, text: &str) -> String {
    let folder = Folder::new(test);
    let file = folder.file("watch.toml");
    fs::write(&file, text).expect("write");
    let (out, err) = checked(&file, &[], 2);
    assert_eq!(out, "", "a wrong file has no summary");
    let at = format!("{}/", folder.0.display());
    err.replace(&at, "")
}

#[test]
fn the_example_is_right_and_its_summary_is_as_reviewed() {
    let (out, err) = checked(&example(), &[], 0);
    assert_eq!(err, "");
    assert!(out.lines().all(|line| line.chars().count() <= 80), "{out}");
    golden("watch-check.txt", &out);
}

#[test]
fn the_summary_as_json_has_the_same_figures() {
    let (out, _) = checked(&example(), &["--json"], 0);
    let json: Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!(json["problems"], Value::Array(Vec::new()));
    assert_eq!((&json["targets"], &json["pairs"]), (&3.into(), &6.into()));
    let measures = json["measures"].as_array().expect("a list");
    let bulk = measures.iter().find(|it| it["name"] == "bulk");
    let bulk = bulk.expect("bulk");
    // Three hosts, both ways, sixteen times a day, 10 s at 1 Gbit/s.
    assert_eq!(bulk["runs_per_day"].as_f64(), Some(96.0));
    assert_eq!(bulk["bytes_per_day"].as_u64(), Some(96 * 1_250_000_000));
    let longest = &json["longest_round"];
    assert_eq!(longest["measure"], "tune");
}

#[test]
fn everything_that_is_wrong_is_told_at_once_with_line_and_key() {
    let text = refused("watch_wrong", include_str!("../golden/watch-wrong.toml"));
    assert!(text.lines().all(|line| !line.contains("panicked")), "{text}");
    golden("watch-wrong.txt", &text);
}

#[test]
fn wrong_syntax_is_told_with_its_line() {
    let text = refused("watch_syntax", "[agent]\nname =\n\n[[host]]\nname = 3 4\n");
    assert!(text.contains("watch.toml:2: "), "{text}");
    assert!(text.contains("watch.toml:5: "), "{text}");
}

#[test]
fn a_secret_must_be_readable_and_only_for_its_owner_and_is_never_shown() {
    let folder = Folder::new("watch_secrets");
    let secret = "hunter2-hunter2";
    let write = |name: &str, text: &str, mode: u32| {
        let path = folder.file(name);
        fs::write(&path, text).expect("write");
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("chmod");
    };
    write("kept", secret, 0o600);
    write("open", secret, 0o644);
    write("empty", "\n", 0o600);
    let file = folder.file("watch.toml");
    let text = |token: &str| {
        format!(
            "[agent]\nname = \"a\"\n[[host]]\nname = \"b\"\ntoken_file = \"{token}\"\n\
             [[target]]\nhost = \"b\"\n[[measure]]\nname = \"m\"\nkind = \"path\"\n\
             every = \"1 h\"\n"
        )
    };
    for (token, told) in [
        ("open", "other users (mode 644); run `chmod 600 open`"),
        ("empty", "is empty"),
        ("none", "cannot read"),
        (".", "not a file"),
    ] {
        fs::write(&file, text(token)).expect("write");
        let (_, err) = checked(&file, &[], 2);
        assert!(err.contains(told), "{token}: {err}");
        assert!(err.contains("watch.toml:5: host.b.token_file: "), "{err}");
        assert!(!err.contains(secret), "{err}");
    }
    fs::write(&file, text("kept")).expect("write");
    let (out, err) = checked(&file, &["--json"], 0);
    assert!(!out.contains(secret) && err.is_empty(), "{out}{err}");
}

#[test]
fn problems_as_json_are_on_standard_output() {
    let folder = Folder::new("watch_problems_json");
    let file = folder.file("watch.toml");
    fs::write(&file, "[agent]\nname = \"a\"\nlistn = \"127.0.0.1:1\"\n").expect("write");
    let (out, err) = checked(&file, &["--json"], 2);
    assert_eq!(err, "");
    let json: Value = serde_json::from_str(&out).expect("JSON");
    let first = &json["problems"][0];
    assert_eq!((&first["line"], &first["key"]), (&3.into(), &"agent.listn".into()));
    assert!(first["advice"].as_str().expect("advice").contains("`listen`"));
}

#[test]
fn one_file_serves_every_agent_of_a_mesh() {
    let folder = Folder::new("watch_mesh");
    let file = folder.file("watch.toml");
    let hosts = (0..8)
        .map(|n| format!("[[host]]\nname = \"h{n}\"\ngroups = [\"all\"]\n"))
        .collect::<Vec<_>>()
        .concat();
    let text = format!(
        "[agent]\n{hosts}[[mesh]]\nname = \"all\"\n[[measure]]\nname = \"bulk\"\n\
         kind = \"throughput\"\nevery = \"1 h\"\n"
    );
    fs::write(&file, text).expect("write");
    let (_, err) = checked(&file, &[], 2);
    assert!(err.contains("--agent NAME"), "{err}");
    let mut targets = 0;
    for n in 0..8 {
        let name = format!("h{n}");
        let (out, _) = checked(&file, &["--agent", &name, "--json"], 0);
        let json: Value = serde_json::from_str(&out).expect("JSON");
        assert_eq!(json["mesh"]["rounds"], 7);
        targets += json["targets"].as_u64().expect("a number");
    }
    assert_eq!(targets, 8 * 7 / 2, "each pair is measured by one of its ends");
    let (_, err) = checked(&file, &["--agent", "hx"], 2);
    assert!(err.contains("unknown host `hx` in --agent; did you mean"), "{err}");
}

#[test]
fn a_file_that_cannot_be_read_is_named() {
    let folder = Folder::new("watch_unreadable");
    let (_, err) = checked(&folder.file("none.toml"), &[], 2);
    assert!(err.contains("none.toml") && err.contains("hint:"), "{err}");
    let (_, err) = checked(&folder.0, &[], 2);
    assert!(err.contains("cannot read"), "{err}");
    let binary = folder.file("binary.toml");
    fs::write(&binary, [0xff, 0xfe, 0]).expect("write");
    let (_, err) = checked(&binary, &[], 2);
    assert!(err.contains("not UTF-8"), "{err}");
}

#[test]
fn a_file_that_is_wrong_starts_no_agent() {
    let folder = Folder::new("watch_no_agent");
    let file = folder.file("watch.toml");
    fs::write(&file, "[agent]\nnme = \"a\"\n").expect("write");
    let assert = longhaul().arg("watch").arg(&file).assert().code(2);
    let told = String::from_utf8(assert.get_output().stderr.clone()).expect("UTF-8");
    assert!(told.contains("did you mean `name`?"), "{told}");
    let left: Vec<_> = fs::read_dir(&folder.0).expect("a folder").collect();
    assert_eq!(left.len(), 1, "neither archive nor folder: {left:?}");
}
