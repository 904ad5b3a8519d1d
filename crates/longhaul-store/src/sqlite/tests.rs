use crate::archive::Archive;
use crate::history_store::{IncomingRun, RunFilter};
use crate::store_error::StoreError;
use longhaul_model::report::v1::AnyReport;
use std::path::PathBuf;

const FIXTURE: &str = include_str!("../../../../fixtures/reports/path-balanced-v6.json");

fn run(number: u32) -> IncomingRun {
    let AnyReport::Path(mut report) =
        crate::archived_report::parse_report("fixture", FIXTURE).unwrap()
    else {
        panic!("the fixture is a path report");
    };
    report.run.id = format!("run-{number:06}");
    let report = AnyReport::Path(report);
    IncomingRun::from_report(&report, i64::from(number)).unwrap()
}

fn file(test: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("longhaul-store-{test}-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    folder.join("archive.sqlite3")
}

fn stored(archive: &Archive) -> usize {
    let filter = RunFilter::newest(10_000);
    archive.runs(&filter).unwrap().len()
}

#[test]
fn a_full_disk_refuses_a_batch_and_leaves_the_earlier_ones() {
    let path = file("full");
    let mut archive = Archive::open(&path).unwrap();
    let batch = |from: u32| (from..from + 10).map(run).collect::<Vec<_>>();
    archive.append_runs(&batch(0)).unwrap();
    let pages: i64 =
        archive.connection.query_row("PRAGMA page_count", [], |row| row.get(0)).unwrap();
    archive.connection.pragma_update(None, "max_page_count", pages + 30).unwrap();
    let mut done = 10;
    let error = loop {
        match archive.append_runs(&batch(done)) {
            Ok(landed) => done += landed.new as u32,
            Err(error) => break error,
        }
    };
    assert!(matches!(error, StoreError::Full { .. }), "{error:?}");
    assert!(error.hint().unwrap().contains("free space"));
    assert_eq!(stored(&archive), done as usize);
    // Room again: what was refused can be said again.
    archive.connection.pragma_update(None, "max_page_count", 1_000_000).unwrap();
    assert_eq!(archive.append_runs(&batch(done)).unwrap().new, 10);
    drop(archive);
    assert_eq!(stored(&Archive::open(&path).unwrap()), done as usize + 10);
    std::fs::remove_dir_all(path.parent().unwrap()).unwrap();
}

#[test]
fn a_commit_is_on_the_disk_and_readers_do_not_wait() {
    let path = file("durable");
    let archive = Archive::open(&path).unwrap();
    let text = |name: &str| -> String {
        let value: rusqlite::types::Value =
            archive.connection.query_row(&format!("PRAGMA {name}"), [], |row| row.get(0)).unwrap();
        format!("{value:?}")
    };
    assert_eq!(text("synchronous"), "Integer(2)");
    assert_eq!(text("journal_mode"), "Text(\"wal\")");
    std::fs::remove_dir_all(path.parent().unwrap()).unwrap();
}
