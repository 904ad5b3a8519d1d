//! `longhaul tune` as its user meets it: over loopback, cut off in the middle, and with nonsense.

use crate::support::{self, Folder, HUNG, fixture, longhaul};
use longhaul_model::report::v1::scan::{ScanCell, TransferSetting};
use longhaul_model::report::v1::{AnyReport, ScanReport, ThroughputReport};
use longhaul_store::Archive;
use longhaul_sys::signal::{Signal, send_signal};
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::net::{Shutdown, TcpListener, TcpStream, UdpSocket};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// A far end that grants strangers what these tests need; ended with the test.
struct FarEnd {
    child: Child,
    port: String,
}

impl FarEnd {
    fn start() -> FarEnd {
        let mut child = Command::new(env!("CARGO_BIN_EXE_longhaul"))
            .args(["serve", "-B", "127.0.0.1", "-p", "0", "--json", "--anonymous"])
            .env_remove("LONGHAUL_TOKEN")
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("start the far end");
        let mut log = BufReader::new(child.stderr.take().expect("its log"));
        let mut line = String::new();
        log.read_line(&mut line).expect("a line of the log");
        let first: serde_json::Value = serde_json::from_str(&line).expect("JSON");
        let address = first["addresses"][0].as_str().expect("an address");
        let port = address.rsplit(':').next().expect("a port").to_owned();
        // Its log is read to its end, so that it never waits for a reader.
        std::thread::spawn(move || std::io::copy(&mut log, &mut std::io::sink()));
        FarEnd { child, port }
    }

    fn tune(&self, archive: &Path, options: &[&str]) -> Command {
        FarEnd::tune_at(&self.port, archive, options)
    }

    fn tune_at(port: &str, archive: &Path, options: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_longhaul"));
        command
            .args(["tune", "127.0.0.1", "-p", port, "--json", "--archive"])
            .arg(archive)
            .args(options)
            .env_remove("LONGHAUL_TOKEN")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }
}

impl Drop for FarEnd {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

const SMALL_GRID: [&str; 7] = ["--grid", "-w", "64K,256K", "-P", "1,2", "-t", "500ms"];
/// It lasts for minutes, so that whatever ends it ends it in the middle.
const LARGE_GRID: [&str; 6] = ["--grid", "-w", "64K,256K", "--repeats", "100", "-t500ms"];

/// Stands before the far end and kills a scan, whose number it is told, at its third session: the
/// scan cannot go on before it is killed, however late that is. Gives its own port.
fn killer(far: &FarEnd, scan: Receiver<u32>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("bound").port().to_string();
    let to = format!("127.0.0.1:{}", far.port);
    std::thread::spawn(move || {
        let mut sessions = 0;
        for near in listener.incoming().map_while(Result::ok) {
            // A session begins with TLS, its streams do not.
            let mut first = [0];
            sessions += u32::from(near.peek(&mut first).is_ok() && first == [0x16]);
            if sessions == 3 {
                sessions += 1;
                send_signal(scan.recv().expect("it was started"), Signal::SIGKILL)
                    .expect("it is there");
                continue;
            }
            let far = TcpStream::connect(&to).expect("the far end");
            let ways = [(near.try_clone(), far.try_clone()), (Ok(far), Ok(near))];
            for (from, to) in ways {
                let (mut from, mut to) = (from.expect("a copy"), to.expect("a copy"));
                std::thread::spawn(move || {
                    let _ = std::io::copy(&mut from, &mut to);
                    let _ = to.shutdown(Shutdown::Write);
                });
            }
        }
    });
    port
}

/// Runs to its end; the report, the words on stderr and the exit code.
fn run(command: &mut Command) -> (Option<ScanReport>, String, i32) {
    let output = command.output().expect("run longhaul");
    let words = String::from_utf8(output.stderr).expect("UTF-8");
    let report = serde_json::from_slice(&output.stdout).ok();
    (report, words, output.status.code().unwrap_or(-1))
}

/// Probes of scans that are in the archive, by their scan and place. Opening it while a scan writes
/// is what any reader does.
fn parts(archive: &Path) -> Vec<(String, u32)> {
    let Ok(Some(archive)) = Archive::open_existing(archive) else {
        return Vec::new();
    };
    let runs = archive
        .recent_reports::<ThroughputReport>(&longhaul_store::PathSelector::default(), 1000)
        .expect("the runs");
    let parts = runs.into_iter().filter_map(|run| run.run.part_of);
    parts.map(|part| (part.id, part.index)).collect()
}

/// Waits until a probe is in the archive.
fn wait_for_parts(archive: &Path) {
    let deadline = Instant::now() + HUNG;
    while parts(archive).is_empty() {
        assert!(Instant::now() < deadline, "no probe is kept");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn settings(cells: &[ScanCell]) -> BTreeSet<(TransferSetting, u32)> {
    let key = |cell: &ScanCell| (cell.setting.clone(), cell.index);
    cells.iter().map(key).collect()
}

#[test]
fn a_guided_search_ends_and_its_report_is_whole() {
    let far = FarEnd::start();
    let folder = Folder::new("tune_guided");
    let archive = folder.file("archive.sqlite3");
    let csv = folder.file("scan.csv");
    let mut command = far.tune(&archive, &["-t", "1s", "--budget-probes", "3"]);
    let (report, words, code) = run(command.arg("--csv").arg(&csv));
    assert_eq!(code, 0, "{words}");
    assert!(words.starts_with("budget: up to 3 probes"), "{words}");
    let report = report.expect("a report");
    let direction = &report.analysis.directions[0];
    let cells = &report.observation.cells;
    let recommended = direction.recommended.as_ref();
    let recommended = recommended.unwrap_or_else(|| panic!("no recommendation: {cells:?}"));
    assert!(recommended.goodput_bps > 0);
    assert!(direction.default.is_some(), "the default stands beside it");
    assert!((1..=3).contains(&cells.len()), "{cells:?}");
    assert!(cells.iter().all(|cell| cell.why.is_some()), "{cells:?}");
    // A probe of more streams than strangers may open is refused, and kept as such.
    let ran = cells.iter().filter(|cell| cell.error.is_none()).count();
    assert_eq!(report.analysis.probes_run as usize, ran, "{cells:#?}");
    assert!(ran > 0, "{cells:#?}");
    // What was shown is what is kept, and its probes stand behind it.
    let kept = Archive::open_existing(&archive).expect("opens").expect("is there");
    let last = kept.find("last").expect("the scan");
    let AnyReport::Scan(scan) = last else {
        panic!("the last run is no scan: {last:?}");
    };
    assert_eq!(*scan, report);
    let behind = kept.throughput_parts(&report.run.id).expect("parts");
    assert_eq!(behind.len(), ran, "{cells:#?}");
    let table = std::fs::read_to_string(&csv).expect("the CSV");
    assert_eq!(table.matches("\r\n").count(), cells.len() + 1, "{table}");
}

#[test]
fn a_grid_killed_in_the_middle_is_taken_up_and_measures_no_cell_twice() {
    let far = FarEnd::start();
    let folder = Folder::new("tune_resume");
    let archive = folder.file("archive.sqlite3");
    let (tell, scan) = channel();
    let port = killer(&far, scan);
    let tune = |options: &[&str]| FarEnd::tune_at(&port, &archive, options);
    let mut first = tune(&SMALL_GRID).spawn().expect("start");
    tell.send(first.id()).expect("the killer waits");
    first.wait().expect("its end");
    let before: BTreeSet<_> = parts(&archive).into_iter().collect();
    assert!(!before.is_empty(), "it was killed in the middle");

    let (report, words, code) = run(&mut tune(&SMALL_GRID));
    assert_eq!(code, 0, "{words}");
    let report = report.expect("a report");
    assert_eq!(report.analysis.stopped_by, "grid_done");
    let all = parts(&archive);
    let distinct: BTreeSet<_> = all.iter().cloned().collect();
    assert_eq!(all.len(), distinct.len(), "a cell was measured twice: {all:?}");
    assert!(before.is_subset(&distinct));
    let cells = &report.observation.cells;
    // Of the scan that was killed, unless its path has another round trip now: loopback on a busy
    // machine may.
    let own = distinct.iter().filter(|(id, _)| *id == report.run.id);
    assert_eq!(cells.len(), own.count(), "{words}");
    assert!(cells.iter().map(|cell| cell.index).eq(0..cells.len() as u32));

    // An uninterrupted one has the same cells, in the same places.
    let fresh = SMALL_GRID.iter().chain(&["--fresh"]).copied().collect::<Vec<_>>();
    let (whole, words, code) = run(&mut tune(&fresh));
    assert_eq!(code, 0, "{words}");
    assert!(!words.contains("resuming"), "{words}");
    let whole = whole.expect("a report");
    assert_eq!(settings(cells), settings(&whole.observation.cells));
    let sentinels = |cells: &[ScanCell]| cells.iter().map(|c| c.sentinel).collect::<Vec<_>>();
    assert_eq!(sentinels(cells), sentinels(&whole.observation.cells));
}

#[test]
fn an_interrupt_shows_what_was_measured_and_ends_with_130() {
    let far = FarEnd::start();
    let folder = Folder::new("tune_interrupt");
    let archive = folder.file("archive.sqlite3");
    let scan = far.tune(&archive, &LARGE_GRID).spawn().expect("start");
    wait_for_parts(&archive);
    send_signal(scan.id(), Signal::SIGINT).expect("interrupt");
    let output = scan.wait_with_output().expect("its end");
    let words = String::from_utf8(output.stderr).expect("UTF-8");
    assert_eq!(output.status.code(), Some(130), "{words}");
    assert!(words.contains("run the same command again"), "{words}");
    let report: ScanReport = serde_json::from_slice(&output.stdout).expect("a report");
    assert_eq!(report.analysis.stopped_by, "interrupted");
    assert!(!report.observation.cells.is_empty());
}

#[test]
fn a_far_end_that_dies_in_mid_scan_ends_it_with_3_and_keeps_the_cells() {
    let mut far = FarEnd::start();
    let folder = Folder::new("tune_gone");
    let archive = folder.file("archive.sqlite3");
    let scan = far.tune(&archive, &LARGE_GRID).spawn().expect("start");
    wait_for_parts(&archive);
    far.child.kill().expect("kill the far end");
    let output = scan.wait_with_output().expect("its end");
    let words = String::from_utf8(output.stderr).expect("UTF-8");
    assert_eq!(output.status.code(), Some(3), "{words}");
    assert!(words.contains("hint: "), "{words}");
    let report: ScanReport = serde_json::from_slice(&output.stdout).expect("a report");
    assert_eq!(report.analysis.stopped_by, "far_end_gone");
    let measured = report.observation.cells.iter().filter(|c| c.run_id.is_some());
    assert_eq!(measured.count(), parts(&archive).len());
}

/// Options of `tune`, and what must be said of them.
const ABSURD: &[(&[&str], &str)] = &[
    (&["-w", "4M-64K"], "4M-64K: the range is backwards"),
    (&["-w", "64K-2G"], "must be 1 B to 1 GiB"),
    (&["-P", "0"], "must be 1 to 128"),
    (&["-P", "8-2"], "the range is backwards"),
    (&["-C", "no such"], "not the name"),
    (&["--budget-probes", "0"], "must be 1 to 1000"),
    (&["--budget-time", "2s"], "shorter than one probe"),
    (&["--repeats", "2"], "--grid"),
    (&["--grid", "--repeats", "0"], "must be 1 to 100"),
    (&["--grid", "-w", "64K-64M/64K", "-P", "1-128/1"], "the grid is too large"),
    (&["--plot", "heat.png"], "ends in .svg"),
    (&["-R", "--bidir"], "cannot be used with"),
];

#[test]
fn impossible_lists_and_ranges_are_refused_before_anything_is_sent() {
    for (options, message) in ABSURD {
        let mut command = longhaul();
        let assert = command.args(["tune", "far.invalid"]).args(*options).assert().code(2);
        let output = assert.get_output();
        assert!(output.stdout.is_empty(), "{options:?}");
        let text = String::from_utf8(output.stderr.clone()).expect("UTF-8");
        assert!(support::skip_lab_warning(&text).starts_with("error: "), "{options:?}: {text}");
        assert!(text.contains(message), "{options:?}: {text}");
    }
}

#[test]
fn a_far_end_that_is_not_there_is_named_before_the_budget() {
    let taken = UdpSocket::bind("127.0.0.1:0").expect("a port");
    let port = taken.local_addr().expect("its number").port().to_string();
    for (arguments, message) in [
        (&["no-such-host.invalid"][..], "error: cannot resolve "),
        (&["127.0.0.1", "-p", &port], "error: cannot connect to 127.0.0.1"),
    ] {
        let mut command = longhaul();
        let assert = command.arg("tune").args(arguments).assert().code(3);
        let text = String::from_utf8(assert.get_output().stderr.clone()).expect("UTF-8");
        assert!(text.starts_with(message), "{text}");
        assert!(text.contains("\nhint: "), "{text}");
    }
}

fn stored(name: &str) -> ScanReport {
    serde_json::from_str(&fixture(&format!("{name}.json"))).expect("the fixture is a report")
}

/// An archive that holds this one scan.
fn archived(name: &str, test: &str) -> (Folder, std::path::PathBuf) {
    let folder = Folder::new(&format!("{test}_{name}"));
    let file = folder.file("archive.sqlite3");
    let mut archive = Archive::open(&file).expect("a new archive");
    archive.append(&stored(name)).expect("append");
    (folder, file)
}

#[test]
fn a_stored_scan_is_written_as_csv_and_pictures() {
    let (folder, file) = archived("scan-grid", "scan_files");
    let (csv, heat) = (folder.file("scan.csv"), folder.file("heat.svg"));
    let mut command = longhaul();
    command.args(["report", "show", "last", "--csv"]).arg(&csv);
    command.arg("--plot").arg(&heat).arg("--archive").arg(&file);
    command.assert().success();
    let table = std::fs::read_to_string(&csv).expect("the CSV");
    let lines: Vec<&str> = table.split_terminator("\r\n").collect();
    let columns = lines[0].split(',').count();
    let cells = stored("scan-grid").observation.cells;
    assert_eq!(lines.len(), 1 + cells.len());
    for (line, cell) in lines[1..].iter().zip(&cells) {
        assert_eq!(line.split(',').count(), columns, "{line}");
        let goodput = cell.goodput_bps.map_or_else(String::new, |bps| bps.to_string());
        assert!(line.contains(&goodput), "{line}");
    }
    let drawn = std::fs::read_to_string(&heat).expect("the heat map");
    assert!(drawn.contains("<svg"), "{drawn}");
}

#[test]
fn a_run_that_is_no_scan_cannot_be_written_as_one() {
    let folder = Folder::new("scan_files_of_a_run");
    let file = folder.file("archive.sqlite3");
    let run: ThroughputReport =
        serde_json::from_str(&fixture("udp-reverse.json")).expect("a report");
    let mut archive = Archive::open(&file).expect("a new archive");
    archive.append(&run).expect("append");
    let mut command = longhaul();
    command.args(["report", "show", "last", "--csv"]).arg(folder.file("scan.csv"));
    let assert = command.arg("--archive").arg(&file).assert().code(2);
    let text = String::from_utf8(assert.get_output().stderr.clone()).expect("UTF-8");
    assert!(text.contains("this run is not a scan"), "{text}");
    assert!(!folder.file("scan.csv").exists());
}
