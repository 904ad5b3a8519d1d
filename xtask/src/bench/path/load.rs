//! The queue under load, and the share that a scavenger leaves to others.

use super::Part;
use super::site::{Ground, Site, forward_link, hop, percent};
use crate::bench::table::Table;
use serde_json::Value;
use std::time::Duration;

/// The tolerance, as a share of the highest queue that the lab saw.
const QUEUE_MAX: f64 = 0.05;
const KEPT_MIN: f64 = 0.90;
const QUEUE_BYTES: &str = "4 MB";
const LIMIT: Duration = Duration::from_secs(120);

fn site(ground: &Ground, queue: &str) -> Result<Site, String> {
    let narrow = hop(
        "narrow",
        &[("delay", "9 ms"), ("rate", "100 Mbit/s"), ("queue", queue)],
    );
    let wide = |name| hop(name, &[("delay", "1 ms"), ("rate", "10 Gbit/s")]);
    ground.site("load", vec![wide("access"), narrow, wide("far")], &[])
}

pub fn verdict(ground: &Ground) -> Part {
    let (queue, mut missed) = match queue(ground) {
        Ok(part) => part,
        Err(why) => (vec![], vec![format!("queue: {why}")]),
    };
    let (scavenger, more) = match scavenger(ground) {
        Ok(part) => part,
        Err(why) => (vec![], vec![format!("scavenger: {why}")]),
    };
    missed.extend(more);
    (queue.into_iter().chain(scavenger).collect(), missed)
}

fn queue(ground: &Ground) -> Result<Part, String> {
    let words = ["load", "far", "-t", "10s", "--idle", "2s"];
    let seen = ground.see(&site(ground, QUEUE_BYTES)?, &words, 1, LIMIT)?;
    let truth = forward_link(&seen.truth, 2)["queue_peak_bytes"].as_f64();
    let truth = truth.ok_or("the truth has no queue")?;
    let step = &seen.reports[0]["analysis"]["steps"][0];
    let found = step["queue_bytes"]
        .as_f64()
        .ok_or("no queue in the report")?;
    let columns = [
        "queue, MB",
        "found, MB",
        "off by",
        "median rise, ms",
        "round trips per minute",
    ];
    let mut table = Table::new("The queue under load", &columns);
    let off = found / truth - 1.0;
    table.row(vec![
        format!("{:.2}", truth / 1e6),
        format!("{:.2}", found / 1e6),
        percent(off),
        format!("{:.0}", step["rise_ns"].as_f64().unwrap_or(0.0) / 1e6),
        step["round_trips_per_minute"].to_string(),
    ]);
    let missed = (off.abs() > QUEUE_MAX).then(|| format!("the queue is off by {}", percent(off)));
    Ok((vec![table], missed.into_iter().collect()))
}

fn scavenger(ground: &Ground) -> Result<Part, String> {
    let words = [
        "load",
        "far",
        "-t",
        "8s",
        "--idle",
        "2s",
        "--scavenger",
        "--competitor",
    ];
    let seen = ground.see(&site(ground, "1 MB")?, &words, 1, LIMIT)?;
    let it = &seen.reports[0]["analysis"]["scavenger"];
    let share = |key: &str| -> Result<f64, String> {
        let ratio: &Value = &it[key];
        ratio
            .as_f64()
            .ok_or_else(|| format!("no {key} in the report"))
    };
    let kept = share("competitor_kept_yielding_ratio")?;
    let plain = share("competitor_kept_plain_ratio")?;
    let columns = ["load", "competitor keeps"];
    let mut table = Table::new("What a competing stream keeps", &columns);
    table.row(vec!["plain".to_owned(), percent(plain)]);
    table.row(vec!["yielding".to_owned(), percent(kept)]);
    let missed =
        (kept < KEPT_MIN).then(|| format!("the competitor keeps {}; at least 90 %", percent(kept)));
    Ok((vec![table], missed.into_iter().collect()))
}
