//! A host that clips its windows is mended by `longhaul host --apply --prove`, and then put back bit
//! for bit. Needs root: the path clips buffers for the whole machine while it stands.

use longhaul_bench::bench_lab::{self, BenchLab};
use longhaul_sys::signal::{Signal, send_signal};
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use xtask::program_runner;

crate::virtual_tests!(a_host_that_clips_its_windows_is_mended_proven_and_put_back,);

const PATH: &str = "slac-daresbury";
/// Four runs of six seconds each way, and what is around them; and others that hold the lab.
const PROOF_LIMIT: Duration = Duration::from_secs(150);
const MOMENT: Duration = Duration::from_secs(30);
/// The path carries 10 Mbit/s; a buffer of 128 KiB in each 160 ms is less, whatever its overhead.
const CLIPPED_BPS: f64 = 131_072.0 * 8.0 / 0.160;
/// Every setting that could be written, with its value.
const SETTINGS: &str = "cd /proc/sys/net && grep -s '' core/* ipv4/tcp_*";

/// A standing lab, its responder at the near host, and a folder; all gone at the end.
struct Lab {
    longhaul: PathBuf,
    folder: PathBuf,
    responder: Option<Child>,
    path: BenchLab,
}

impl Lab {
    fn up() -> Lab {
        let longhaul = program_runner::build_longhaul_for_tests().expect("the program builds");
        let folder = std::env::temp_dir().join(format!("longhaul-host-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder for journal and archive");
        let path = BenchLab::set_up(&longhaul, PATH).expect("the lab stands");
        let mut lab = Lab { longhaul, folder, responder: None, path };
        lab.serve();
        lab
    }

    /// A responder at the near host, once it listens.
    fn serve(&mut self) {
        let mut serve = self.program(self.path.near);
        serve.args(["serve", "--anonymous", "--json"]);
        serve.stdin(Stdio::null()).stderr(Stdio::piped());
        let mut child = serve.spawn().expect("the responder starts");
        let log = child.stderr.take().expect("its log is piped");
        self.responder = Some(child);
        let mut line = String::new();
        let mut log = BufReader::new(log);
        log.read_line(&mut line).expect("its log can be read");
        assert!(line.contains("serving"), "{line}");
        // A log that nobody reads would stop it.
        std::thread::spawn(move || log.lines().map_while(Result::ok).for_each(drop));
    }

    /// A command of longhaul at the host of this process.
    fn program(&self, host: u32) -> Command {
        bench_lab::command_at_host(host, &[&self.longhaul])
    }

    /// `longhaul host` at the far host, with a journal and an archive of this test.
    fn host(&self, options: &[&str]) -> Value {
        let mut command = self.program(self.path.far);
        command.arg("host").args(options).arg("--json");
        command.env("LONGHAUL_JOURNAL", self.folder.join("journal.json"));
        command.env("LONGHAUL_ARCHIVE", self.folder.join("archive.sqlite3"));
        let text = program_runner::capture_stdout(&mut command, PROOF_LIMIT).expect("it ends well");
        serde_json::from_str(&text).expect("JSON")
    }

    fn settings(&self) -> String {
        let words = ["sh", "-c", SETTINGS];
        let mut command = bench_lab::command_at_host(self.path.far, &words);
        // Some files may not be read; grep says so by its exit code.
        let settings = program_runner::capture_output(&mut command, MOMENT).expect("grep runs");
        assert!(settings.stdout.contains("tcp_rmem"), "{}", settings.stderr);
        settings.stdout
    }

    /// The list of this test's archive.
    fn archived(&self) -> Value {
        let mut list = Command::new(&self.longhaul);
        list.args(["report", "list", "--json", "--archive"]);
        list.arg(self.folder.join("archive.sqlite3"));
        let text = program_runner::capture_stdout(&mut list, MOMENT).expect("the archive is there");
        serde_json::from_str(&text).expect("JSON")
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        if let Some(mut child) = self.responder.take() {
            let _ = send_signal(child.id(), Signal::SIGTERM);
            let _ = program_runner::wait_with_limit(&mut child, MOMENT);
        }
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn change<'a>(report: &'a Value, name: &str) -> &'a Value {
    let changes = report["observation"]["changes"].as_array();
    let mut changes = changes.expect("changes").iter();
    changes
        .find(|change| change["name"] == name)
        .unwrap_or_else(|| panic!("{name} is not among the changes: {report:#}"))
}

fn a_host_that_clips_its_windows_is_mended_proven_and_put_back() {
    let lab = Lab::up();
    let before = lab.settings();
    let asked = ["--rtt", "160ms", "--rate", "10M"];
    let proof = ["--apply", "--prove", "near", "--time", "6s"];
    let report = lab.host(&[&asked[..], &proof[..]].concat());
    the_limit_is_gone(&report);
    what_could_not_be_written_is_told(&report);
    let after = lab.settings();
    assert_ne!(before, after, "nothing is in force");
    lab.host(&["--revert"]);
    assert_eq!(before, lab.settings());
    let again = lab.host(&["--revert"]);
    assert_eq!(again["reverted"], Value::Array(Vec::new()));
    // The audit, and behind it each run of its proof.
    let trials = report["observation"]["trials"].as_array().map_or(0, Vec::len);
    let entry = &lab.archived()[0];
    assert_eq!(entry["id"], report["run"]["id"]);
    assert_eq!(entry["parts"], trials);
}

/// Receiving was held by a window of 64 KiB, and is not any more.
fn the_limit_is_gone(report: &Value) {
    let directions = report["analysis"]["proof"]["directions"].as_array();
    let receiving = directions
        .into_iter()
        .flatten()
        .find(|effect| effect["forward"] == false)
        .unwrap_or_else(|| panic!("receiving was not measured: {report:#}"));
    let bps = |name: &str| receiving[name].as_f64().expect("a rate");
    let (before, after) = (bps("before_bps"), bps("after_bps"));
    assert!(before < CLIPPED_BPS, "{receiving:#}");
    assert!(after >= 1.5 * before, "{receiving:#}");
    assert_eq!(receiving["limited_by_before"], "receive_window", "{receiving:#}");
    assert_ne!(receiving["limited_by_after"], "receive_window", "{receiving:#}");
    assert_eq!(report["analysis"]["proof"]["kept"], true);
    let kept = change(report, "net.ipv4.tcp_rmem");
    assert_eq!(kept["reverted"], false, "{kept:#}");
}

/// The greatest buffers are of the whole machine: a namespace reads them and cannot write them.
fn what_could_not_be_written_is_told(report: &Value) {
    let refused = change(report, "net.core.rmem_max");
    assert!(refused["error"].is_string(), "{refused:#}");
    let caveats = report["caveats"].as_array().expect("caveats");
    let told = caveats
        .iter()
        .find(|caveat| caveat["code"] == "not_written")
        .and_then(|caveat| caveat["text"].as_str())
        .unwrap_or_else(|| panic!("no word of it: {report:#}"));
    assert!(told.contains("net.core.rmem_max"), "{told}");
    let verdicts = report["analysis"]["verdicts"].as_array().expect("verdicts");
    let how = verdicts
        .iter()
        .filter(|verdict| verdict["rule"] == "receive_buffer_max")
        .flat_map(|verdict| verdict["remedies"].as_array().into_iter().flatten())
        .find_map(|remedy| remedy["command"].as_str());
    assert!(how.is_some_and(|how| how.starts_with("sysctl -w net.core.rmem_max=")));
}
