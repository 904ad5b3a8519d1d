//! `longhaul predict`: what it prints, keeps and refuses.

use crate::support::{Folder, longhaul};
use longhaul_model::report::v1::{AnyReport, PredictionReport};
use longhaul_store::Archive;

const PATH: [&str; 5] = ["predict", "--rtt", "160ms", "--rate", "100M"];

#[test]
fn a_prediction_is_printed_filed_and_drawn() {
    let folder = Folder::new("predict");
    let (archive, figure) = (folder.file("archive.sqlite3"), folder.file("figure.svg"));
    let output = longhaul()
        .args(PATH)
        .args(["-w", "64K-4M", "-P", "1,2,8", "-C", "cubic,bbr", "--json"])
        .arg("--archive")
        .arg(&archive)
        .arg("--plot")
        .arg(&figure)
        .assert()
        .success()
        .get_output()
        .stdout
        .clone();
    let printed: PredictionReport = serde_json::from_slice(&output).expect("a report");
    assert_eq!(printed.analysis.cells.len(), 7 * 3 * 2);
    let first = &printed.analysis.cells[0];
    // 64 KiB in each 160 ms.
    assert!((first.goodput_bps as f64 / 3_276_800.0 - 1.0).abs() < 0.02);

    let filed = Archive::open(&archive).expect("the archive");
    let AnyReport::Predict(kept) = filed.find("last").expect("the run") else {
        panic!("another kind was filed");
    };
    assert_eq!(*kept, printed);
    let drawn = std::fs::read_to_string(&figure).expect("the figure");
    assert!(drawn.contains("<svg"));
}

#[test]
fn the_page_of_a_prediction_fits_80_columns() {
    let folder = Folder::new("predict_page");
    let output = longhaul()
        .args(PATH)
        .args(["--loss", "0,1e-4"])
        .arg("--archive")
        .arg(folder.file("archive.sqlite3"))
        .assert()
        .success()
        .get_output()
        .stdout
        .clone();
    let text = String::from_utf8(output).expect("UTF-8");
    assert!(text.contains("cubic, no loss") && text.contains("0.0100 % loss"), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
}

#[test]
fn what_cannot_be_predicted_is_refused_with_the_reason() {
    let folder = Folder::new("predict_refused");
    let cases: [(&[&str], u8, &str); 7] = [
        (&["--rtt", "0s", "--rate", "1G"], 2, "must be 10 µs"),
        (&["--rtt", "10ms"], 2, "--rate"),
        (&["--rtt", "10ms", "--rate", "1G", "-w", "4M-64K"], 2, "backwards"),
        (
            &["--rtt", "10ms", "--rate", "1G", "-C", "vegas"],
            2,
            "[possible values: reno, cubic, bbr]",
        ),
        (&["--rtt", "10ms", "--rate", "1G", "--loss", "0.9"], 2, "must be 0 to 0.5"),
        (&["--rtt", "10ms", "--rate", "1G", "-w", "1K-1M/1K", "-P", "1-128"], 2, "at most 4096"),
        (&["--scan", "last"], 6, "cannot find the archive"),
    ];
    for (options, code, told) in cases {
        let output = longhaul()
            .arg("predict")
            .args(options)
            .arg("--archive")
            .arg(folder.file("none.sqlite3"))
            .assert()
            .code(i32::from(code))
            .get_output()
            .stderr
            .clone();
        let text = String::from_utf8_lossy(&output);
        assert!(text.contains(told), "{options:?}: {text}");
    }
}
