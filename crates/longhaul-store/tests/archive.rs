//! What an archive keeps, and what it says when it cannot.

use longhaul_model::report::v1::{AnyReport, ParentRun, ThroughputReport, scan};
use longhaul_model::splitmix::SplitMix64;
use longhaul_store::{AppendOutcome, Archive, StoreError, UnfinishedScan};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// A folder of this test's own, gone when it ends.
struct Folder(PathBuf);

impl Folder {
    fn new(test: &str) -> Self {
        let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(test);
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).expect("the target folder can be written");
        Folder(path)
    }

    fn file(&self) -> PathBuf {
        self.0.join("archive.sqlite3")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

const GENEVA: &str = include_str!("../../../fixtures/reports/la-geneva-9-streams.json");
const DARESBURY: &str = include_str!("../../../fixtures/reports/slac-daresbury-window.json");

fn report(text: &str) -> ThroughputReport {
    serde_json::from_str(text).expect("the fixture is a report")
}

#[test]
fn an_appended_run_reads_back_as_it_was() {
    let folder = Folder::new("reads_back");
    let run = report(GENEVA);
    let mut archive = Archive::open(&folder.file()).unwrap();
    assert_eq!(archive.append(&run).unwrap(), AppendOutcome::New);
    drop(archive);
    let archive = Archive::open_existing(&folder.file()).unwrap().unwrap();
    let run = AnyReport::Throughput(Box::new(run.clone()));
    assert_eq!(archive.find("20261121T2156").unwrap(), run);
    assert_eq!(archive.find("last").unwrap(), run);
}

#[test]
fn the_same_run_twice_is_one_entry_and_another_under_its_id_is_refused() {
    let folder = Folder::new("idempotent");
    let mut archive = Archive::open(&folder.file()).unwrap();
    let mut run = report(GENEVA);
    archive.append(&run).unwrap();
    assert_eq!(archive.append(&run).unwrap(), AppendOutcome::AlreadyStored);
    run.analysis.goodput_bps = Some(1);
    assert!(matches!(archive.append(&run), Err(StoreError::IdTaken { .. })));
    assert_eq!(archive.list(10).unwrap().len(), 1);
}

#[test]
fn the_list_runs_from_the_newest_and_carries_the_derived_columns() {
    let folder = Folder::new("list");
    let mut archive = Archive::open(&folder.file()).unwrap();
    archive.append(&report(GENEVA)).unwrap();
    archive.append(&report(DARESBURY)).unwrap();
    let entries = archive.list(10).unwrap();
    assert_eq!(entries[0].limited_by.as_deref(), Some("receive_window"));
    assert_eq!(entries[1].streams, Some(9));
    assert_eq!(entries[1].goodput_bps, Some(6_178_000_000));
    assert_eq!(entries[1].responder_address.as_deref(), Some("192.0.2.7"));
    assert_eq!(archive.list(1).unwrap().len(), 1);
}

#[test]
fn a_name_that_fits_no_run_or_several_is_said_so() {
    let folder = Folder::new("names");
    let mut archive = Archive::open(&folder.file()).unwrap();
    assert!(matches!(archive.find("last"), Err(StoreError::NoSuchRun { .. })));
    archive.append(&report(GENEVA)).unwrap();
    archive.append(&report(DARESBURY)).unwrap();
    assert!(matches!(archive.find("2026"), Err(StoreError::Ambiguous { count: 2, .. })));
    for nobody in ["%", "", "2027"] {
        assert!(matches!(archive.find(nobody), Err(StoreError::NoSuchRun { .. })), "{nobody}");
    }
}

#[test]
fn no_file_is_no_archive_and_is_not_made_by_looking() {
    let folder = Folder::new("absent");
    assert!(Archive::open_existing(&folder.file()).unwrap().is_none());
    assert!(!folder.file().exists());
}

#[test]
fn a_file_that_is_not_ours_is_left_alone() {
    let folder = Folder::new("damaged");
    fs::write(folder.file(), vec![b'x'; 8192]).unwrap();
    let error = Archive::open(&folder.file()).unwrap_err();
    assert!(matches!(error, StoreError::Damaged { .. }), "{error:?}");
    assert!(error.hint().unwrap().contains("archive.sqlite3"));
    assert_eq!(fs::read(folder.file()).unwrap(), vec![b'x'; 8192]);
    println!("attack: tried 1");
}

#[test]
fn a_file_with_its_middle_overwritten_is_named_damaged() {
    let folder = Folder::new("torn");
    let mut archive = Archive::open(&folder.file()).unwrap();
    archive.append(&report(GENEVA)).unwrap();
    drop(archive);
    let mut bytes = fs::read(folder.file()).unwrap();
    let end = bytes.len();
    bytes[4096..end].fill(0xA5);
    fs::write(folder.file(), bytes).unwrap();
    let error = Archive::open(&folder.file())
        .and_then(|mut archive| archive.append(&report(DARESBURY)))
        .unwrap_err();
    assert!(matches!(error, StoreError::Damaged { .. }), "{error:?}");
    println!("attack: tried 1");
}

/// Cuts the file, or changes bytes or pages of it.
fn damage_file(whole: &[u8], random: &mut SplitMix64) -> Vec<u8> {
    const PAGE_BYTES: usize = 4096;
    let mut bytes = whole.to_vec();
    let pages = bytes.len() / PAGE_BYTES;
    let page = |random: &mut SplitMix64| random.below(pages) * PAGE_BYTES;
    match random.below(4) {
        0 => bytes.truncate(random.below(whole.len())),
        1 => {
            for _ in 0..=random.below(64) {
                let place = random.below(bytes.len());
                bytes[place] = random.next_u64() as u8;
            }
        }
        2 => {
            let begin = page(random);
            bytes[begin..begin + PAGE_BYTES].fill(random.next_u64() as u8);
        }
        _ => {
            let (from, to) = (page(random), page(random));
            bytes.copy_within(from..from + PAGE_BYTES, to);
        }
    }
    bytes
}

#[test]
fn a_damaged_archive_gives_its_runs_or_a_named_error() {
    const FILES: u64 = 300;
    let folder = Folder::new("mutated");
    let mut archive = Archive::open(&folder.file()).unwrap();
    archive.append(&report(GENEVA)).unwrap();
    archive.append(&report(DARESBURY)).unwrap();
    drop(archive);
    let whole = fs::read(folder.file()).unwrap();
    let mut refused = 0;
    for seed in 0..FILES {
        let _ = fs::remove_dir_all(&folder.0);
        fs::create_dir_all(&folder.0).unwrap();
        fs::write(folder.file(), damage_file(&whole, &mut SplitMix64::new(seed))).unwrap();
        let used = Archive::open(&folder.file()).and_then(|mut archive| {
            archive.list(10)?;
            archive.find("last")?;
            archive.append(&report(GENEVA))
        });
        if let Err(error) = used {
            assert!(!error.to_string().is_empty(), "{error:?}");
            refused += 1;
        }
    }
    assert!(refused > FILES / 4 && refused < FILES, "{refused}");
    println!("attack: tried {FILES}");
}

#[test]
fn the_database_of_another_program_is_refused() {
    let folder = Folder::new("foreign");
    let other = rusqlite::Connection::open(folder.file()).unwrap();
    other.execute_batch("CREATE TABLE cookies (a)").unwrap();
    let error = Archive::open(&folder.file()).unwrap_err();
    assert!(matches!(error, StoreError::Foreign { .. }), "{error:?}");
    println!("attack: tried 1");
}

#[test]
fn an_archive_from_the_future_is_refused() {
    let folder = Folder::new("newer");
    drop(Archive::open(&folder.file()).unwrap());
    let other = rusqlite::Connection::open(folder.file()).unwrap();
    other.pragma_update(None, "user_version", 99).unwrap();
    let error = Archive::open(&folder.file()).unwrap_err();
    assert!(error.to_string().contains("schema 99, this longhaul supports"), "{error}");
    println!("attack: tried 1");
}

#[test]
fn a_report_of_a_later_schema_is_named_as_such() {
    let folder = Folder::new("later_report");
    let mut archive = Archive::open(&folder.file()).unwrap();
    let mut run = report(GENEVA);
    run.schema = "longhaul.report/2".to_owned();
    archive.append(&run).unwrap();
    assert!(matches!(archive.find("last"), Err(StoreError::UnknownReport { .. })));
    println!("attack: tried 1");
}

#[test]
fn a_folder_that_cannot_hold_the_file_is_named() {
    let folder = Folder::new("no_folder");
    fs::write(folder.0.join("file"), "not a folder").unwrap();
    let error = Archive::open(&folder.0.join("file/archive.sqlite3")).unwrap_err();
    assert!(matches!(error, StoreError::Open { .. }), "{error:?}");
    // A folder in the place of the file fails for root as well, whom permissions do not stop.
    let error = Archive::open(&folder.0).unwrap_err();
    assert!(matches!(error, StoreError::Open { .. }), "{error:?}");
    println!("attack: tried 1");
}

/// A row as another program, or an earlier longhaul, may have left it there.
fn put(database: &rusqlite::Connection, id: &str, kind: &str, text: &str) {
    database
        .execute(
            "INSERT INTO run (id, started_at, kind, initiator_host, responder_host, \
             analysis_version, report) VALUES (?1, '', ?2, '', '', 1, ?3)",
            rusqlite::params![id, kind, text],
        )
        .unwrap();
}

#[test]
fn every_fixture_of_an_earlier_day_still_reads() {
    let folder = Folder::new("fixtures");
    let archive = Archive::open(&folder.file()).unwrap();
    let database = rusqlite::Connection::open(folder.file()).unwrap();
    let fixtures = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/reports");
    let mut kinds = std::collections::BTreeSet::new();
    for file in fs::read_dir(fixtures).unwrap() {
        let path = file.unwrap().path();
        if path.extension().is_some_and(|e| e == "json") {
            let text = fs::read_to_string(&path).unwrap();
            let value: serde_json::Value = serde_json::from_str(&text).unwrap();
            let kind = value["kind"].as_str().unwrap().to_owned();
            let id = path.file_stem().unwrap().to_str().unwrap();
            put(&database, id, &kind, &text);
            let found = archive.find(id).unwrap_or_else(|e| panic!("{path:?}: {e}"));
            let again = serde_json::to_value(&found).unwrap();
            assert_eq!(again["run"], value["run"], "{path:?}");
            kinds.insert(kind);
        }
    }
    let known = ["host", "scan", "throughput"].map(String::from);
    assert!(known.iter().all(|kind| kinds.contains(kind)), "{kinds:?}");
}

fn scan_plan(seed: u64) -> scan::ScanPlan {
    scan::ScanPlan {
        search: scan::SearchMode::Grid,
        direction: longhaul_model::report::v1::plan::RunDirection::Forward,
        windows_bytes: vec![None, Some(65_536)],
        streams: vec![1, 8],
        congestion_controls: vec![None],
        repeats: 2,
        seed,
        present: None,
        budget: scan::ScanBudget { probes: 8, time_us: 1, bytes: None },
        probe: longhaul_model::report::v1::plan::ThroughputPlan::default(),
    }
}

#[test]
fn a_scan_that_was_cut_off_is_found_again_with_its_probes_until_its_report_is_there() {
    let folder = Folder::new("cut_off");
    let mut archive = Archive::open(&folder.file()).unwrap();
    let begun = UnfinishedScan {
        id: String::from("20261122T000000Z-000001"),
        started_at: String::from("2026-11-22T00:00:00Z"),
    };
    archive.begin_scan(&begun, "far:5201", &scan_plan(1)).unwrap();
    for index in [1, 0] {
        let mut run = report(GENEVA);
        run.run.id = format!("20261122T00000{index}Z-00000a");
        run.run.part_of = Some(ParentRun { id: begun.id.clone(), index });
        archive.append(&run).unwrap();
    }
    drop(archive);
    let archive = Archive::open(&folder.file()).unwrap();
    let since = "2026-11-21T00:00:00Z";
    let found = archive.find_unfinished_scan("far:5201", &scan_plan(1), since);
    assert_eq!(found.unwrap(), Some(begun.clone()));
    for (target, plan, since) in [
        ("other:5201", scan_plan(1), since),
        ("far:5201", scan_plan(2), since),
        ("far:5201", scan_plan(1), "2026-11-23T00:00:00Z"),
    ] {
        assert_eq!(archive.find_unfinished_scan(target, &plan, since).unwrap(), None);
    }
    let parts = archive.throughput_parts(&begun.id).unwrap();
    let places: Vec<u32> =
        parts.iter().map(|run| run.run.part_of.as_ref().unwrap().index).collect();
    assert_eq!(places, [0, 1]);
    // The scan has no report, so its probes are listed themselves.
    assert_eq!(archive.list(10).unwrap().len(), 2);
}

#[test]
fn an_archive_of_the_first_shape_keeps_its_runs() {
    let folder = Folder::new("first_shape");
    let run = report(GENEVA);
    let old = rusqlite::Connection::open(folder.file()).unwrap();
    old.execute_batch(include_str!("../schema/0001-runs.sql")).unwrap();
    old.execute(
        "INSERT INTO run VALUES (?1, ?2, 'throughput', 'a', 'b', NULL, 9, 1, 'loss', 1, ?3)",
        rusqlite::params![run.run.id, run.run.started_at, GENEVA],
    )
    .unwrap();
    old.execute(
        "INSERT INTO run VALUES ('own', '2000-01-01T00:00:00Z', 'throughput', 'a', 'b', '127.0.0.1', 9, \
         1, 'loss', 1, ?1)",
        [GENEVA],
    )
    .unwrap();
    old.pragma_update(None, "application_id", longhaul_store::archive::APPLICATION_ID).unwrap();
    old.pragma_update(None, "user_version", 1).unwrap();
    drop(old);
    let archive = Archive::open(&folder.file()).unwrap();
    let found = archive.find("last").unwrap();
    assert_eq!(found, AnyReport::Throughput(Box::new(run)));
    let environments = archive.list(10).unwrap().into_iter().map(|entry| entry.environment);
    assert_eq!(environments.collect::<Vec<_>>(), [None, Some("loopback".to_owned())]);
}

/// The modes of the archive and of the files and the folder around it.
fn modes(file: &Path) -> Vec<(String, u32)> {
    let folder = file.parent().expect("a folder");
    let entries = fs::read_dir(folder).expect("a list").map(|entry| entry.expect("read").path());
    let mut paths: Vec<PathBuf> = entries.filter(|path| path.is_file()).collect();
    paths.sort();
    paths.push(folder.to_owned());
    let name = |path: &Path| path.file_name().expect("a name").to_string_lossy().into_owned();
    let mode = |path: &Path| fs::metadata(path).expect("there").permissions().mode() & 0o777;
    paths.iter().map(|path| (name(path), mode(path))).collect()
}

#[test]
fn only_the_owner_may_use_a_new_archive_its_log_its_folder_and_its_backup() {
    let folder = Folder::new("private");
    let file = folder.0.join("new/archive.sqlite3");
    let mut archive = Archive::open(&file).unwrap();
    archive.append(&report(GENEVA)).unwrap();
    archive.back_up(&folder.0.join("new/backup.sqlite3")).unwrap();
    let expected = [
        ("archive.sqlite3", 0o600),
        ("archive.sqlite3-shm", 0o600),
        ("archive.sqlite3-wal", 0o600),
        ("backup.sqlite3", 0o600),
        ("new", 0o700),
    ];
    assert_eq!(modes(&file), expected.map(|(name, mode)| (name.to_owned(), mode)));
}

#[test]
fn an_archive_that_everybody_may_read_is_taken_from_them_by_the_next_writer() {
    let folder = Folder::new("tightened");
    let file = folder.file();
    let reader = Archive::open(&file).unwrap();
    let with_mode = |mode| {
        for suffix in ["", "-wal", "-shm"] {
            let path = folder.0.join(format!("archive.sqlite3{suffix}"));
            fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
        }
        Archive::open(&file).unwrap().append(&report(GENEVA)).unwrap();
        modes(&file).into_iter().map(|(_, mode)| mode).take(3).collect::<Vec<u32>>()
    };
    assert_eq!(with_mode(0o644), [0o600; 3]);
    assert_eq!(with_mode(0o640), [0o640; 3], "a group that the owner chose");
    drop(reader);
}
