//! Everything that a user can print without a network, compared with reviewed files: the help of
//! every command, and every report fixture as text and as JSON.

use crate::support::{Folder, fixture, golden, longhaul, reported};
use longhaul_model::report::v1::AnyReport;
use longhaul_store::{Archive, archived_report};
use std::path::Path;

/// Returns what a command prints that must succeed.
fn stdout_of(words: &[&str]) -> String {
    let assert = longhaul().args(words).assert().success();
    String::from_utf8(assert.get_output().stdout.clone()).expect("UTF-8")
}

/// Lists the subcommands that a help text names, under one heading or several.
fn subcommands(help: &str) -> Vec<String> {
    let list = help.split("\nOptions:\n").next().unwrap_or_default();
    list.lines()
        .filter_map(|line| line.strip_prefix("  "))
        .filter(|line| line.starts_with(|c: char| c.is_ascii_lowercase()))
        .filter_map(|line| line.split_whitespace().next())
        .filter(|name| *name != "help")
        .map(str::to_owned)
        .collect()
}

/// The lines of two screens of a terminal with 24.
const TWO_SCREENS: usize = 48;

fn check_help(command: &[&str]) {
    let help = stdout_of(&[command, &["--help"]].concat());
    let name = [&["help"], command].concat().join("-");
    for line in help.lines() {
        assert!(line.chars().count() <= 80, "{name}: {line}");
    }
    golden(&format!("{name}.txt"), &help);
    let has_short = help.contains("(see a summary with '-h')");
    let short = if has_short { stdout_of(&[command, &["-h"]].concat()) } else { help.clone() };
    assert!(short.lines().count() <= TWO_SCREENS, "{name}: {}", short.lines().count());
    if has_short {
        golden(&format!("{name}-short.txt"), &short);
    }
    for subcommand in subcommands(&help) {
        check_help(&[command, &[subcommand.as_str()]].concat());
    }
}

#[test]
fn the_help_of_every_command_is_as_reviewed() {
    check_help(&[]);
}

fn append(file: &Path, report: AnyReport) {
    let mut archive = Archive::open(file).expect("a new archive");
    let appended = match report {
        AnyReport::Throughput(report) => archive.append(&*report),
        AnyReport::Scan(report) => archive.append(&*report),
        AnyReport::Host(report) => archive.append(&*report),
        AnyReport::Predict(report) => archive.append(&*report),
        AnyReport::Path(report) => archive.append(&*report),
        AnyReport::Available(report) => archive.append(&*report),
        AnyReport::Load(report) => archive.append(&*report),
        AnyReport::Imported(report) => archive.append(&*report),
        AnyReport::Copy(report) => archive.append(&*report),
        AnyReport::Flows(report) => archive.append(&*report),
        AnyReport::Latency(report) => archive.append(&*report),
    };
    appended.expect("appended");
}

fn parse_fixture(name: &str) -> AnyReport {
    archived_report::parse_report(name, &fixture(&format!("{name}.json"))).expect("a report")
}

/// Checks that a command would end with the answer, and would not scroll it away.
fn check_answer(name: &str, report: &AnyReport) {
    let mut document = longhaul_report::build_document(report);
    document.answer_command("details", "longhaul report show 20261126T100000Z-abcdef");
    let answer = document.answer_text();
    assert!((2..=6).contains(&answer.lines().count()), "{name}: {answer}");
    let most = if matches!(report, AnyReport::Throughput(_)) { 14 } else { 25 };
    let brief = document.brief_text(most);
    assert!(brief.lines().count() <= most, "{name}: {brief}");
    assert!(brief.ends_with(&answer), "{name}: {brief}");
    golden(&format!("brief-{name}.txt"), &anstream::adapter::strip_str(&brief).to_string());
}

#[test]
fn every_report_fixture_is_shown_as_reviewed_and_printed_as_it_was_read() {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/reports");
    let mut count = 0;
    for entry in fixtures.read_dir().expect("the fixtures") {
        let file = entry.expect("a fixture").path();
        let name = file.file_stem().and_then(|it| it.to_str()).expect("UTF-8");
        let text = fixture(&format!("{name}.json"));
        let folder = Folder::new(&format!("golden_{name}"));
        let archive = folder.file("archive.sqlite3");
        append(&archive, parse_fixture(name));
        let shown = reported(&archive, &["show", "last"], 0);
        for line in shown.lines() {
            // A command that is to be copied stays on one line.
            let command = ["sysctl", "net."].iter().any(|word| line.trim_start().starts_with(word));
            assert!(command || line.chars().count() <= 80, "{name}: {line}");
            assert!(!line.contains('\u{1b}'), "{name}: {line:?}");
        }
        golden(&format!("{name}.txt"), &shown);
        check_answer(name, &parse_fixture(name));
        let json = reported(&archive, &["show", "last", "--json"], 0);
        let value = |text: &str| serde_json::from_str::<serde_json::Value>(text).expect("JSON");
        assert!(value(&json) == value(&text), "{name}: a field was lost or added");
        count += 1;
    }
    assert!(count > 0, "there are fixtures");
}
