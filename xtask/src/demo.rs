//! The README's two commands, on the path of the 2004 record.
//!
//! One default stream over `la-geneva`, then the setting that fills the path; both reports are
//! printed whole, and at the end the two results stand beside each other.

pub mod watch;

use crate::Outcome;
use crate::needs::{self, is_root};
use crate::process::{self, words};
use serde_json::Value;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// Long enough to pass the ramp of 13 to 14 round trips of 172 ms.
const SECONDS: &str = "15";
/// A run, its set-up and its tear-down.
const LIMIT: Duration = Duration::from_secs(90);
/// 9 streams, as in the record; 16 MiB each holds the 134 MB that the path can hold.
const STREAMS: &str = "9";
const WINDOW: &str = "16M";

/// One measurement of the demonstration.
struct Show {
    title: &'static str,
    lab: Vec<&'static str>,
    test: Vec<&'static str>,
}

/// Runs the demonstration.
pub fn run() -> Outcome {
    needs::namespaces()?;
    let longhaul = process::longhaul()?;
    let archive = std::env::temp_dir().join(format!("longhaul-demo-{}.sqlite", std::process::id()));
    let shown = shows()
        .iter()
        .map(|show| measure(&longhaul, &archive, show))
        .collect::<Result<Vec<_>, _>>();
    // The archive of the demonstration is nobody's history.
    let _ = std::fs::remove_file(&archive);
    let shown = shown?;
    println!("\n{}", "-".repeat(72));
    for (show, line) in shows().iter().zip(shown) {
        println!("{:<34} {line}", show.title);
    }
    Ok(())
}

fn shows() -> [Show; 2] {
    let tuned = if is_root() {
        Show {
            title: "9 streams, window 16 MiB each",
            lab: vec![],
            test: vec!["-P", STREAMS, "--window", WINDOW, "-t", SECONDS],
        }
    } else {
        // Without root the kernel clips an asked buffer at net.core.*mem_max; its own sizing,
        // allowed to go far enough in the two namespaces, does not. 32 MiB is about 21 MiB of window:
        // nine of them fill path and queue and do not overflow them.
        Show {
            title: "9 streams, buffers allowed to grow",
            lab: vec![
                "--set",
                "far.sysctl.net.ipv4.tcp_rmem=4096 131072 33554432",
                "--set",
                "near.sysctl.net.ipv4.tcp_wmem=4096 65536 33554432",
            ],
            test: vec!["-P", STREAMS, "-t", SECONDS],
        }
    };
    [
        Show {
            title: "one default stream",
            lab: vec![],
            test: vec!["-t", SECONDS],
        },
        tuned,
    ]
}

/// Runs one measurement, shows its report and gives its line of the comparison.
fn measure(longhaul: &Path, archive: &Path, show: &Show) -> Result<String, String> {
    let archive = archive.to_string_lossy();
    let mut lab = Command::new(longhaul);
    lab.args(["lab", "run", "la-geneva"])
        .args(&show.lab)
        .arg("--")
        .arg(longhaul);
    lab.args(["test", "far"])
        .args(&show.test)
        .args(["--archive", &archive]);
    println!(
        "\n$ {}",
        words(&lab).replace(&*longhaul.to_string_lossy(), "longhaul")
    );
    print!("{}", process::stdout_of(&mut lab, LIMIT)?);
    let mut newest = Command::new(longhaul);
    newest.args(["report", "show", "last", "--json", "--archive", &archive]);
    let text = process::stdout_of(&mut newest, Duration::from_secs(10))?;
    let report: Value =
        serde_json::from_str(&text).map_err(|e| format!("the report cannot be read: {e}"))?;
    Ok(line(&report))
}

fn line(report: &Value) -> String {
    let analysis = &report["analysis"];
    let rate = analysis["goodput_bps"]
        .as_f64()
        .or_else(|| analysis["mean_goodput_bps"].as_f64());
    let rate = rate.map_or_else(
        || "no goodput".to_owned(),
        |bps| format!("{:.3} Gbit/s", bps / 1e9),
    );
    let limit = analysis["limited_by"].as_str().unwrap_or("unknown");
    format!("{rate:>14}   limited by {limit}")
}
