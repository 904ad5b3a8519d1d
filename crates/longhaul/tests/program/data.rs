//! Databases about addresses in the folder next to the archive.

use crate::support::{Folder, longhaul};

/// Made by `mmdb_writer`: 192.0.2.0/24 and 2001:db8::/32, of AS64500, in Lulea.
const DATABASE: &[u8] = include_bytes!("../../../../fixtures/address-data/test-net.mmdb");

#[test]
fn a_damaged_database_in_the_folder_is_a_caveat_of_a_path() {
    let folder = Folder::new("data_damaged");
    std::fs::create_dir(folder.file("address-data")).expect("a folder");
    let half = &DATABASE[..DATABASE.len() / 2];
    for (name, bytes) in [("net", DATABASE), ("old", b"nothing"), ("short", half)] {
        std::fs::write(folder.file(&format!("address-data/{name}.mmdb")), bytes).expect("write");
    }
    let assert = longhaul()
        .args(["path", "127.0.0.1", "-p", "9", "--udp", "-c", "1", "--no-names", "--no-save"])
        .args(["--json", "--archive"])
        .arg(folder.file("archive.sqlite3"))
        .assert()
        .success();
    let text = String::from_utf8_lossy(&assert.get_output().stdout).into_owned();
    let report: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let caveats = report["caveats"].to_string();
    for name in ["old", "short"] {
        assert!(caveats.contains(&format!("address database {name}")), "{caveats}");
    }
    assert!(!caveats.contains("address database net"), "{caveats}");
}
