//! The three parameters of a shaper, estimated from a few packets and from megabytes.

use super::path_site::{PathSite, PathTestbed, format_mbps, format_percent, make_hop};
use crate::BenchOutcome;
use crate::bench_cases::read_cases;
use crate::markdown_table::MarkdownTable;
use serde::Deserialize;
use serde_json::Value;
use std::time::Duration;

const RATE_MAX: f64 = 0.03;
const BURST_MAX: f64 = 0.05;
const REPEATS: u32 = 3;
const LIMIT: Duration = Duration::from_secs(60);

#[derive(Deserialize)]
struct ShaperCase {
    name: String,
    peak: f64,
    sustained: f64,
    burst: f64,
    overhead: f64,
    #[serde(default)]
    large: bool,
}

impl ShaperCase {
    fn site(&self, ground: &PathTestbed) -> Result<PathSite, String> {
        if self.overhead > 38.0 {
            return Ok(PathSite {
                path: "slac-in2p3".to_owned(),
                begin_at: Some("61 s".to_owned()),
                ..PathSite::default()
            });
        }
        let mut shaped = make_hop("shaped", &[("delay", "9 ms"), ("rate", "1 Gbit/s")]);
        shaped.insert("queue".to_owned(), "2 MB".into());
        let mut shaper = toml::Table::new();
        for (key, value) in
            [("peak", self.peak), ("sustained", self.sustained), ("burst", self.burst)]
        {
            shaper.insert(key.to_owned(), (value as i64).into());
        }
        shaped.insert("shaper".to_owned(), shaper.into());
        let wide = |name| make_hop(name, &[("delay", "0.5 ms"), ("rate", "10 Gbit/s")]);
        ground.site("bucket", vec![wide("access"), shaped, wide("far")], &[])
    }

    /// Returns peak rate, sustained rate and burst in terms of IP.
    fn truth(&self) -> [f64; 3] {
        [self.peak, self.sustained, self.burst].map(|it| it * 1500.0 / (1500.0 + self.overhead))
    }
}

pub fn judge_shapers(ground: &PathTestbed) -> BenchOutcome {
    let columns = "shaper | found | peak, Mbit/s | off by | sustained, Mbit/s | off by | \
         burst, kB | off by";
    let mut table = MarkdownTable::new("Shapers on emulated paths", columns);
    let mut missed = Vec::new();
    let cases = match read_cases::<ShaperCase>("shaper") {
        Ok(cases) => cases,
        Err(why) => return BenchOutcome::new(&[], vec![why]),
    };
    for case in cases {
        let words = if case.large {
            "available far --forward --shaper=15s"
        } else {
            "available far --forward"
        };
        let seen =
            case.site(ground).and_then(|site| ground.run_reports(&site, words, REPEATS, LIMIT));
        match seen {
            Err(why) => missed.push(format!("{}: {why}", case.name)),
            Ok(seen) => {
                for report in &seen.reports {
                    let bucket = &report["analysis"]["forward"]["bucket"];
                    missed.extend(describe_miss(&case, bucket));
                    table.row(format_row(&case, bucket));
                }
            }
        }
    }
    BenchOutcome::new(&[table], missed)
}

fn read_parameters(bucket: &Value) -> Option<[f64; 3]> {
    let number = |key: &str| bucket[key].as_f64();
    Some([number("peak_bps")?, number("sustained_bps")?, number("burst_bytes")?])
}

fn describe_miss(case: &ShaperCase, bucket: &Value) -> Option<String> {
    let Some(found) = read_parameters(bucket) else {
        return Some(format!("{}: no shaper found", case.name));
    };
    if bucket["kind"] != "shaper" {
        return Some(format!("{}: it is called a {}", case.name, bucket["kind"]));
    }
    let truth = case.truth();
    let limits = [RATE_MAX, RATE_MAX, BURST_MAX];
    let names = ["peak", "sustained rate", "burst"];
    let off = (0..3).find(|k| (found[*k] / truth[*k] - 1.0).abs() > limits[*k])?;
    let (name, by) = (names[off], format_percent(found[off] / truth[off] - 1.0));
    Some(format!("{}: {name} is off by {by}", case.name))
}

fn format_row(case: &ShaperCase, bucket: &Value) -> Vec<String> {
    let mut cells = vec![case.name.clone()];
    let Some(found) = read_parameters(bucket) else {
        cells.push("no".to_owned());
        cells.resize(8, "–".to_owned());
        return cells;
    };
    cells.push(bucket["kind"].as_str().unwrap_or("yes").to_owned());
    for (k, (found, truth)) in found.into_iter().zip(case.truth()).enumerate() {
        cells.push(if k < 2 { format_mbps(found) } else { format!("{:.1}", found / 1e3) });
        cells.push(format_percent(found / truth - 1.0));
    }
    cells
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shapers_are_read() {
        let cases = read_cases::<ShaperCase>("shaper").expect("shapers");
        assert_eq!(cases.iter().filter(|case| case.large).count(), 1);
    }
}
