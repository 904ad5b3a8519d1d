//! `longhaul data`: databases are imported, found again, and refused when they are damaged.

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

#[test]
fn a_database_is_imported_found_listed_and_removed() {
    let folder = Folder::new("data_good");
    let database = file(&folder, "net.mmdb", DATABASE);
    let imported = stdout_of(&data(&folder, &["import", &database]).success());
    assert!(imported.contains("net: Test-Net, built 20"), "{imported}");
    for address in ["192.0.2.77", "2001:db8::5"] {
        let found = stdout_of(&data(&folder, &["find", address]).success());
        assert!(found.contains("AS64500, Example, Inc."), "{found}");
        assert!(found.contains("Lulea, SE"), "{found}");
    }
    let found = stdout_of(&data(&folder, &["find", "198.51.100.128"]).success());
    assert!(found.contains("no database has 198.51.100.128"), "{found}");
    let list = stdout_of(&data(&folder, &["list", "--json"]).success());
    let list: serde_json::Value = serde_json::from_str(&list).expect("JSON");
    assert_eq!(list[0]["type"], "Test-Net");
    data(&folder, &["remove", "net"]).success();
    data(&folder, &["remove", "net"]).code(2);
    data(&folder, &["remove", "../net"]).code(2);
    let list = stdout_of(&data(&folder, &["list"]).success());
    assert!(list.contains("no database in"), "{list}");
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
    let found = stdout_of(&data(&folder, &["find", "192.0.2.77"]).success());
    assert!(found.contains("AS64500"), "{found}");
}

#[test]
fn a_damaged_database_in_the_folder_is_reported_and_costs_nothing_else() {
    let folder = Folder::new("data_damaged");
    let good = file(&folder, "net.mmdb", DATABASE);
    data(&folder, &["import", &good]).success();
    std::fs::write(folder.file("address-data/old.mmdb"), "nothing").expect("write");
    let list = stdout_of(&data(&folder, &["list"]).success());
    assert!(list.contains("unusable: address database old"), "{list}");
    let found = stdout_of(&data(&folder, &["find", "192.0.2.77"]).success());
    assert!(found.contains("caveat: address database old"), "{found}");
    assert!(found.contains("AS64500"), "{found}");
}
