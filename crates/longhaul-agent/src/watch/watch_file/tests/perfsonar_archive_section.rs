//! The tables `[[perfsonar_archive]]`.

use super::{read, small};
use crate::watch::watch_file::ArchiveMethod;

const MEASURE: &str = "[[measure]]\nname = \"m\"\nkind = \"path\"\nevery = \"1 h\"\n";
const ARCHIVE: &str = "[[perfsonar_archive]]\nurl = \"https://archive.example.net/logstash\"\n";

#[test]
fn archives_are_used_once_each_beside_another_destination() {
    let second = ARCHIVE.replace("example.net", "example.org");
    let more = format!("{ARCHIVE}[collector]\nurl = \"https://c\"\n");
    let file = read(&small(&format!("{MEASURE}{ARCHIVE}{second}{more}"))).expect("a file");
    let [archive, other] = &file.perfsonar_archives[..] else {
        panic!("{:?}", file.perfsonar_archives);
    };
    assert_eq!((archive.method, archive.verify_certificate), (ArchiveMethod::Post, true));
    assert_eq!(other.url, "https://archive.example.org/logstash");
    assert!(file.collector.is_some());
    let note = "no results are sent to this entry of https://archive.example.net/logstash: it is named twice";
    assert_eq!(file.notes, [note]);
}

#[test]
fn at_most_16_archives_get_results() {
    let archives: String = (0..18).map(|n| ARCHIVE.replace("logstash", &n.to_string())).collect();
    let file = read(&small(&format!("{MEASURE}{archives}"))).expect("a file");
    assert_eq!((file.perfsonar_archives.len(), file.notes.len()), (16, 2));
    assert!(file.notes[0].ends_with("/16: there are 16 archives"), "{:?}", file.notes);
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
