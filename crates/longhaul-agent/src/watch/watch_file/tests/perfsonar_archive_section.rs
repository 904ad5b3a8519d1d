//! The tables `[[perfsonar_archive]]`.

use super::{read, small};
use crate::watch::watch_file::ArchiveMethod;

const MEASURE: &str = "[[measure]]\nname = \"m\"\nkind = \"path\"\nevery = \"1 h\"\n";
const ARCHIVE: &str = "[[perfsonar_archive]]\nurl = \"https://archive.example.net/logstash\"\n";

#[test]
fn an_archive_is_used_if_results_have_no_other_destination() {
    let file = read(&small(&format!("{MEASURE}{ARCHIVE}"))).expect("a file");
    let archive = file.perfsonar_archive().expect("an archive");
    assert_eq!((archive.method, archive.verify_certificate), (ArchiveMethod::Post, true));
    assert!(file.notes.is_empty(), "{:?}", file.notes);
    for (more, used) in [(ARCHIVE, true), ("[collector]\nurl = \"https://c\"\n", false)] {
        let file = read(&small(&format!("{MEASURE}{ARCHIVE}{more}"))).expect("a file");
        assert_eq!(file.perfsonar_archive().is_some(), used);
        let note = "no results are sent to https://archive.example.net/logstash: they go to one destination";
        assert_eq!(file.notes, [note]);
    }
}

#[test]
fn secrets_and_headers_of_an_archive_are_checked() {
    for (lines, part) in [
        ("url = \"https://me:hunter2@a/\"", "put user and password into a token file"),
        (
            "url = \"http://a/\"\nauthorization_file = \"x\"",
            "use https, or remove authorization_file",
        ),
        ("url = \"https://a/\"\nheaders = { \"a b\" = \"c\" }", "write at most 32 headers"),
        ("url = \"https://a/\"\nheaders = { a = \"c\\n\" }", "write at most 32 headers"),
        ("method = \"put\"", "write the URL of the archive"),
    ] {
        let problems = read(&small(&format!("[[perfsonar_archive]]\n{lines}\n")));
        let text = problems.expect_err("wrong").join("\n");
        assert!(text.contains(part), "{part} in {text}");
        assert!(!text.contains("hunter2"), "{text}");
    }
}
