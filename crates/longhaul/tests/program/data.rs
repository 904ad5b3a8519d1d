//! `longhaul data`: databases are imported, and refused when they are damaged.

use crate::support::{Folder, longhaul};
use assert_cmd::assert::Assert;

/// Made by `mmdb_writer`: 192.0.2.0/24 and 2001:db8::/32, of AS64500, in Lulea.
const DATABASE: &[u8] = include_bytes!("../../../../fixtures/address-data/test-net.mmdb");

fn data(folder: &Folder, arguments: &[&str]) -> Assert {
    longhaul()
        .arg("data")
        .args(arguments)
        .arg("--archive")
        .arg(folder.file("archive.sqlite3"))
        .assert()
}

fn stdout_of(assert: &Assert) -> String {
    String::from_utf8_lossy(&assert.get_output().stdout).into_owned()
}

fn file(folder: &Folder, name: &str, bytes: &[u8]) -> String {
    let path = folder.file(name);
    std::fs::write(&path, bytes).expect("write");
    path.to_str().expect("UTF-8").to_owned()
}

/// The databases that are kept next to the archive, whatever a damaged one leaves behind.
fn kept(folder: &Folder) -> Vec<String> {
    let entries = std::fs::read_dir(folder.file("address-data")).expect("the folder");
    let mut names: Vec<String> = entries
        .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

#[test]
fn a_database_is_imported_and_replaces_the_one_of_its_name() {
    let folder = Folder::new("data_good");
    let database = file(&folder, "net.mmdb", DATABASE);
    for _ in 0..2 {
        let imported = stdout_of(&data(&folder, &["import", &database]).success());
        assert!(imported.contains("net: Test-Net, built 20"), "{imported}");
    }
    assert_eq!(kept(&folder), ["net.mmdb"]);
}

#[test]
fn a_damaged_file_is_refused_and_the_database_before_it_stays() {
    let folder = Folder::new("data_bad");
    let good = file(&folder, "net.mmdb", DATABASE);
    data(&folder, &["import", &good]).success();
    let half = &DATABASE[..DATABASE.len() / 2];
    for bytes in [&b""[..], b"192.0.2.0,192.0.2.255,64500,Net\n", half] {
        let bad = file(&folder, "net.mmdb", bytes);
        let assert = data(&folder, &["import", &bad]).code(2);
        let text = String::from_utf8_lossy(&assert.get_output().stderr).into_owned();
        assert!(text.starts_with("error: cannot import "), "{text}");
        assert!(text.contains("\nhint: "), "{text}");
    }
    assert_eq!(kept(&folder), ["net.mmdb"]);
    let there = std::fs::read(folder.file("address-data/net.mmdb")).expect("the database");
    assert!(there == DATABASE, "it was replaced");
}

#[test]
fn a_damaged_database_in_the_folder_is_a_caveat_of_a_path() {
    let folder = Folder::new("data_damaged");
    let good = file(&folder, "net.mmdb", DATABASE);
    data(&folder, &["import", &good]).success();
    std::fs::write(folder.file("address-data/old.mmdb"), "nothing").expect("write");
    let assert = longhaul()
        .args(["path", "127.0.0.1", "-p", "9", "--udp", "-c", "1", "--no-names", "--no-save"])
        .args(["--json", "--archive"])
        .arg(folder.file("archive.sqlite3"))
        .assert()
        .success();
    let report: serde_json::Value = serde_json::from_str(&stdout_of(&assert)).expect("JSON");
    let caveats = report["caveats"].to_string();
    assert!(caveats.contains("address database old"), "{caveats}");
}
