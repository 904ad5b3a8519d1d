//! The queue under load, and the share that a scavenger leaves to others.

use super::path_site::{PathSite, PathTestbed, find_forward_link, format_percent, make_hop};
use crate::BenchOutcome;
use crate::markdown_table::MarkdownTable;
use serde_json::Value;
use std::time::Duration;

/// The tolerance, as a share of the highest queue that the lab saw.
const QUEUE_MAX: f64 = 0.05;
const KEPT_MIN: f64 = 0.90;
const QUEUE_BYTES: &str = "4 MB";
const LIMIT: Duration = Duration::from_secs(120);

fn make_site(ground: &PathTestbed, queue: &str) -> Result<PathSite, String> {
    let narrow = make_hop("narrow", &[("delay", "9 ms"), ("rate", "100 Mbit/s"), ("queue", queue)]);
    let wide = |name| make_hop(name, &[("delay", "1 ms"), ("rate", "10 Gbit/s")]);
    ground.site("load", vec![wide("access"), narrow, wide("far")], &[])
}

pub fn judge_loads(ground: &PathTestbed) -> BenchOutcome {
    let mut outcome = BenchOutcome::default();
    for (name, part) in [("queue", judge_queue(ground)), ("scavenger", judge_scavenger(ground))] {
        match part {
            Ok(part) => outcome.add(part),
            Err(why) => outcome.missed.push(format!("{name}: {why}")),
        }
    }
    outcome
}

fn judge_queue(ground: &PathTestbed) -> Result<BenchOutcome, String> {
    let words = "load far -t 10s --idle 2s";
    let seen = ground.run_reports(&make_site(ground, QUEUE_BYTES)?, words, 1, LIMIT)?;
    let truth = find_forward_link(&seen.truth, 2)["queue_peak_bytes"].as_f64();
    let truth = truth.ok_or("the truth has no queue")?;
    let step = &seen.reports[0]["analysis"]["steps"][0];
    let found = step["queue_bytes"].as_f64().ok_or("no queue in the report")?;
    let columns = "queue, MB | found, MB | off by | median rise, ms | round trips per minute";
    let mut table = MarkdownTable::new("The queue under load", columns);
    let off = found / truth - 1.0;
    table.row(vec![
        format!("{:.2}", truth / 1e6),
        format!("{:.2}", found / 1e6),
        format_percent(off),
        format!("{:.0}", step["rise_ns"].as_f64().unwrap_or(0.0) / 1e6),
        step["round_trips_per_minute"].to_string(),
    ]);
    let missed =
        (off.abs() > QUEUE_MAX).then(|| format!("the queue is off by {}", format_percent(off)));
    Ok(BenchOutcome::new(&[table], missed.into_iter().collect()))
}

fn judge_scavenger(ground: &PathTestbed) -> Result<BenchOutcome, String> {
    let words = "load far -t 8s --idle 2s --scavenger --competitor";
    let seen = ground.run_reports(&make_site(ground, "1 MB")?, words, 1, LIMIT)?;
    let it = &seen.reports[0]["analysis"]["scavenger"];
    let share = |key: &str| -> Result<f64, String> {
        let ratio: &Value = &it[key];
        ratio.as_f64().ok_or_else(|| format!("no {key} in the report"))
    };
    let kept = share("competitor_kept_yielding_ratio")?;
    let plain = share("competitor_kept_plain_ratio")?;
    let columns = "load | competitor keeps";
    let mut table = MarkdownTable::new("What a competing stream keeps", columns);
    table.row(vec!["plain".to_owned(), format_percent(plain)]);
    table.row(vec!["yielding".to_owned(), format_percent(kept)]);
    let missed = (kept < KEPT_MIN)
        .then(|| format!("the competitor keeps {}; at least 90 %", format_percent(kept)));
    Ok(BenchOutcome::new(&[table], missed.into_iter().collect()))
}
