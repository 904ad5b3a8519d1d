//! A path file, and longhaul on it.

use crate::scratch_folder::ScratchFolder;
use crate::verdict_bench::find_error_line;
use serde_json::Value;
use std::path::Path;
use std::process::Command;
use std::time::Duration;
use toml::Table;
use xtask::program_runner;

/// The time for setting up a path and connecting, in addition to the runs.
const MARGIN: Duration = Duration::from_secs(60);

/// The program, and the folder for the bench's files.
#[derive(Debug)]
pub struct PathTestbed<'a> {
    pub longhaul: &'a Path,
    scratch: ScratchFolder,
}

/// A path to run on: a shipped path or a file, and its seed if it is not that of the file.
#[derive(Debug, Clone, Default)]
pub struct PathSite {
    pub path: String,
    pub seed: Option<u32>,
}

/// The reports of consecutive runs on one path, and the path's truth.
#[derive(Debug, Default)]
pub struct SiteReports {
    pub reports: Vec<Value>,
    pub truth: Value,
}

impl<'a> PathTestbed<'a> {
    pub fn new(longhaul: &'a Path) -> Result<Self, String> {
        Ok(PathTestbed { longhaul, scratch: ScratchFolder::new("path")? })
    }

    /// Returns a path of `hops`, each a table as in a path file, between hosts with large buffers.
    pub fn site(&self, name: &str, hops: Vec<Table>) -> Result<PathSite, String> {
        let mut file = Table::new();
        file.insert("name".to_owned(), name.into());
        file.insert("hops".to_owned(), hops.into());
        let mut sysctl = Table::new();
        for (key, value) in [
            ("net.ipv4.tcp_congestion_control", "cubic"),
            ("net.ipv4.tcp_rmem", "4096 131072 33554432"),
            ("net.ipv4.tcp_wmem", "4096 65536 33554432"),
        ] {
            sysctl.insert(key.to_owned(), value.into());
        }
        for host in ["near", "far"] {
            let mut table = Table::new();
            table.insert("sysctl".to_owned(), sysctl.clone().into());
            file.insert(host.to_owned(), table.into());
        }
        let text =
            toml::to_string(&file).map_err(|e| format!("cannot write the path file: {e}"))?;
        let file = self.scratch.write("path.toml", &text)?;
        Ok(PathSite { path: file.display().to_string(), seed: None })
    }

    /// Runs longhaul with `words`, none of which contains spaces, `times` times, each for at most
    /// `time`.
    pub fn run_reports(
        &self,
        site: &PathSite,
        words: &str,
        times: u32,
        time: Duration,
    ) -> Result<SiteReports, String> {
        let truth = self.scratch.path("truth.json");
        let mut lab = self.lab(site);
        lab.arg("--truth").arg(&truth).arg("--");
        // No word contains spaces.
        let again = "n=$0; while [ \"$n\" -gt 0 ]; do \"$@\" || exit; n=$((n-1)); done";
        lab.args(["sh", "-c", again, &times.to_string()]).arg(self.longhaul);
        lab.args(words.split(' ')).args(["--json", "--no-save", "--quiet"]);
        let output = program_runner::capture_output(&mut lab, time * times + MARGIN)?;
        let reports: Result<Vec<Value>, _> =
            serde_json::Deserializer::from_str(&output.stdout).into_iter().collect();
        let reports = reports.map_err(|_| find_error_line(&output.stderr))?;
        if reports.is_empty() {
            return Err(find_error_line(&output.stderr));
        }
        let text = std::fs::read_to_string(&truth).map_err(|e| format!("no truth: {e}"))?;
        let truth = serde_json::from_str(&text).map_err(|e| format!("no truth: {e}"))?;
        Ok(SiteReports { reports, truth })
    }

    /// Returns the output of another program at the near end.
    pub fn stdout_of(
        &self,
        site: &PathSite,
        words: &[&str],
        time: Duration,
    ) -> Result<String, String> {
        let mut lab = self.lab(site);
        lab.arg("--").args(words);
        program_runner::capture_stdout(&mut lab, time + MARGIN)
    }

    fn lab(&self, site: &PathSite) -> Command {
        let mut lab = Command::new(self.longhaul);
        lab.args(["lab", "run", &site.path]);
        lab.args(site.seed.iter().flat_map(|seed| ["--set".to_owned(), format!("seed={seed}")]));
        lab
    }
}

/// Returns a hop of a path file.
pub fn make_hop(name: &str, keys: &[(&str, &str)]) -> Table {
    let keys = keys.iter().map(|(key, value)| ((*key).to_owned(), toml::Value::from(*value)));
    let mut hop: Table = keys.collect();
    hop.insert("name".to_owned(), name.into());
    hop
}

/// Returns one forward link of a truth file by its hop number, from 1, on the active route.
pub fn find_forward_link(truth: &Value, hop: usize) -> &Value {
    let routes = truth["routes"].as_array().map_or(&[][..], Vec::as_slice);
    let active = routes.iter().find(|route| route["active"] == true);
    active.map_or(&Value::Null, |route| &route["hops"][hop - 1]["forward"])
}

/// Formats `12.3 %`.
pub fn format_percent(ratio: f64) -> String {
    format!("{:.1} %", 100.0 * ratio)
}

/// Formats megabits per second.
pub fn format_mbps(bps: f64) -> String {
    format!("{:.1}", bps / 1e6)
}
