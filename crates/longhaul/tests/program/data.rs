//! `longhaul data`: sets of address ranges in, found again, refused when they are wrong.

use crate::support::{Folder, longhaul};
use assert_cmd::assert::Assert;

const GOOD: &str = "\
192.0.2.0,192.0.2.255,64500,\"Example, Inc.\"
198.51.100.0,198.51.100.127,64501,Other Net
2001:db8::,2001:db8:ffff:ffff:ffff:ffff:ffff:ffff,64502,Six
";

fn data(folder: &Folder, arguments: &[&str]) -> Assert {
    longhaul()
        .arg("data")
        .args(arguments)
        .arg("--archive")
        .arg(folder.file("archive.sqlite3"))
        .assert()
}

fn said(assert: &Assert) -> String {
    String::from_utf8_lossy(&assert.get_output().stdout).into_owned()
}

fn file(folder: &Folder, name: &str, text: &[u8]) -> String {
    let path = folder.file(name);
    std::fs::write(&path, text).expect("write");
    path.to_str().expect("UTF-8").to_owned()
}

#[test]
fn a_set_is_imported_found_listed_with_its_licence_and_removed() {
    let folder = Folder::new("data_good");
    file(&folder, "LICENSE.txt", b"Made up, for tests only.\n");
    let set = file(&folder, "asn.csv", GOOD.as_bytes());
    let told = said(&data(&folder, &["import", &set]).success());
    assert!(told.contains("asn: 3 ranges"), "{told}");
    let found = said(&data(&folder, &["find", "192.0.2.77"]).success());
    assert!(found.contains("AS64500, Example, Inc."), "{found}");
    let found = said(&data(&folder, &["find", "2001:db8::5"]).success());
    assert!(found.contains("AS64502, Six"), "{found}");
    let found = said(&data(&folder, &["find", "198.51.100.128"]).success());
    assert!(found.contains("no imported set says anything"), "{found}");
    let list = said(&data(&folder, &["list"]).success());
    assert!(list.contains("asn.csv, imported 20"), "{list}");
    assert!(list.contains("Made up, for tests only."), "{list}");
    let list = said(&data(&folder, &["list", "--json"]).success());
    let list: serde_json::Value = serde_json::from_str(&list).expect("JSON");
    assert_eq!(list[0]["ranges"], 3);
    data(&folder, &["remove", "asn"]).success();
    data(&folder, &["remove", "asn"]).code(2);
    data(&folder, &["remove", "../asn"]).code(2);
    let list = said(&data(&folder, &["list"]).success());
    assert!(list.contains("no set is imported"), "{list}");
}

#[test]
fn a_file_that_is_wrong_is_refused_with_its_line_and_the_set_before_it_stays() {
    let folder = Folder::new("data_bad");
    let set = file(&folder, "asn.csv", GOOD.as_bytes());
    data(&folder, &["import", &set]).success();
    let wrong = |line: &str| format!("{GOOD}{line}\n").into_bytes();
    for (name, bytes, why) in [
        (
            "asn.csv",
            wrong("192.0.3.0,nowhere,1,x"),
            "line 4: `nowhere` is not",
        ),
        (
            "asn.csv",
            wrong("192.0.3.9,192.0.3.0,1,x"),
            "line 4: the range ends",
        ),
        ("asn.csv", wrong("one,two"), "line 4: "),
        ("asn.csv", Vec::new(), "no range of addresses"),
        ("asn.csv", vec![0x1f, 0x8b, 8, 0], "it is packed"),
        ("asn.csv", vec![0xff; 50], "line 1: it is not text"),
        ("asn.mmdb", wrong(""), "not in MaxMind's format"),
    ] {
        let path = file(&folder, name, &bytes);
        let assert = data(&folder, &["import", &path]).code(2);
        let text = String::from_utf8_lossy(&assert.get_output().stderr).into_owned();
        assert!(text.starts_with("error: cannot import "), "{why}: {text}");
        assert!(text.contains(why), "{why}: {text}");
        assert!(text.contains("\nhint: "), "{why}: {text}");
    }
    let found = said(&data(&folder, &["find", "192.0.2.77"]).success());
    assert!(found.contains("AS64500"), "{found}");
    let absent = folder.file("absent.csv");
    data(&folder, &["import", absent.to_str().expect("UTF-8")]).code(2);
}

#[test]
fn a_damaged_set_is_told_and_costs_nothing_else() {
    let folder = Folder::new("data_damaged");
    let sets = folder.file("address-data");
    std::fs::create_dir_all(&sets).expect("a folder");
    std::fs::write(sets.join("old.ranges"), "LHRANGE1 and then nothing").expect("write");
    let list = said(&data(&folder, &["list"]).success());
    assert!(list.contains("unusable"), "{list}");
    let found = said(&data(&folder, &["find", "192.0.2.77"]).success());
    assert!(found.contains("imported set old: it is damaged"), "{found}");
}
