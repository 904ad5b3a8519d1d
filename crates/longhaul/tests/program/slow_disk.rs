//! `longhaul explain` on a download whose disk is slow. Needs root, for the disk and its limit.

use crate::support::{Folder, longhaul};
use longhaul_model::report::v1::FlowsReport;
use longhaul_model::report::v1::analysis::Limiter;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command};
use std::thread;
use std::time::{Duration, Instant};

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/program/slow_disk.sh");
/// Of a setup that fails.
const SETUP_LIMIT: Duration = Duration::from_secs(60);

/// A download to a slow disk, which ends with the test.
struct SlowDownload {
    curl: Child,
    group: String,
}

impl SlowDownload {
    /// Starts curl, and waits until a server of zeros has sent it something.
    fn start(folder: &Path) -> SlowDownload {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("http://{}/", listener.local_addr().expect("an address"));
        listener.set_nonblocking(true).expect("set");
        let group = format!("longhaul-slow-disk-{}", std::process::id());
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", SCRIPT]).arg(folder).args([&group, &url]);
        let mut download = SlowDownload { curl: command.spawn().expect("unshare starts"), group };
        let started = Instant::now();
        let mut connection = loop {
            if let Ok((connection, _)) = listener.accept() {
                break connection;
            }
            let ended = download.curl.try_wait().expect("a child");
            assert!(
                ended.is_none(),
                "this test needs root, loop devices and the limits of cgroups"
            );
            assert!(started.elapsed() < SETUP_LIMIT, "curl does not connect");
            thread::sleep(Duration::from_millis(50));
        };
        connection.set_nonblocking(false).expect("set");
        let mut request = [0; 4096];
        assert!(connection.read(&mut request).expect("a request") > 0);
        connection.write_all(b"HTTP/1.0 200 OK\r\n\r\n").expect("written");
        // Until curl ends.
        thread::spawn(move || while connection.write_all(&[0; 16 * 1024]).is_ok() {});
        download
    }
}

impl Drop for SlowDownload {
    fn drop(&mut self) {
        let _ = self.curl.kill();
        let _ = self.curl.wait();
        for root in ["blkio", "unified", ""].map(|it| Path::new("/sys/fs/cgroup").join(it)) {
            let _ = std::fs::remove_dir(root.join(&self.group));
        }
    }
}

#[test]
fn a_download_to_a_slow_disk_is_limited_by_the_disk() {
    let folder = Folder::new("slow-disk");
    let download = SlowDownload::start(&folder.0);
    let mut explain = longhaul();
    explain.args(["explain", &download.curl.id().to_string()]);
    explain.args(["--for", "8s", "--no-save", "--json"]);
    let explained = explain.assert().success();
    let report: FlowsReport =
        serde_json::from_slice(&explained.get_output().stdout).expect("a report");
    let [transfer] = &report.analysis.transfers[..] else { panic!("{report:?}") };
    assert_eq!(transfer.run.limited_by, Limiter::Application);
    let causes: Vec<_> = report.findings.iter().map(|found| found.cause.as_str()).collect();
    assert!(causes.contains(&"slow_disk"), "{:?}", report.findings);
    let activity = report.observation.transfers[0].activity.expect("a process");
    assert!(activity.disk_write_bytes.is_some_and(|bytes| bytes > 0), "{activity:?}");
    // Unless the kernel counts no pressure. It counts only a part: waits for the journal are none.
    assert!(activity.io_stall_us.is_none_or(|us| us > 0), "{activity:?}");
}
