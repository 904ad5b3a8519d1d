//! The narrow link at every position of a path of eight hops.

use super::path_site::{PathTestbed, format_percent, make_hop};
use crate::BenchOutcome;
use crate::markdown_table::MarkdownTable;
use std::time::Duration;
use toml::Table as Hop;

const HOPS: usize = 8;
const REPEATS: u32 = 2;
const RIGHT_MIN: f64 = 0.95;
const LIMIT: Duration = Duration::from_secs(60);

/// Returns hops of 3 ms, of which number `narrow` has a twentieth of the others' rate.
fn list_hops(narrow: usize) -> Vec<Hop> {
    let hop = |k: usize| {
        let (name, rate) = (
            if k == HOPS { "far".to_owned() } else { format!("r{k}") },
            if k == narrow { "50 Mbit/s" } else { "1 Gbit/s" },
        );
        make_hop(&name, &[("delay", "3 ms"), ("rate", rate), ("queue", "60 ms")])
    };
    (1..=HOPS).map(hop).collect()
}

pub fn judge_narrow_link(ground: &PathTestbed) -> BenchOutcome {
    let columns = "narrow hop | right | said";
    let mut table = MarkdownTable::new("The narrow link by its place", columns);
    let (mut missed, mut right, mut runs) = (vec![], 0, 0);
    for narrow in 1..=HOPS {
        let words = "path far --load=6s --no-mtu --no-reverse --no-names";
        let site = ground.site("narrow", list_hops(narrow), &[]);
        let seen = site.and_then(|site| ground.run_reports(&site, words, REPEATS, LIMIT));
        let seen = match seen {
            Ok(seen) => seen,
            Err(why) => {
                missed.push(format!("hop {narrow}: {why}"));
                continue;
            }
        };
        let mut said = Vec::new();
        let mut own = 0;
        for report in &seen.reports {
            let link = &report["analysis"]["narrow_link"];
            let is_right =
                link["verdict"] == "link" && link["before_ttl"].as_u64() == Some(narrow as u64);
            own += u32::from(is_right);
            said.push(
                format!("{} before {}", link["verdict"], link["before_ttl"]).replace('"', ""),
            );
        }
        runs += seen.reports.len() as u32;
        right += own;
        table.row(vec![
            narrow.to_string(),
            format!("{own} of {}", seen.reports.len()),
            said.join("; "),
        ]);
    }
    let share = f64::from(right) / f64::from(runs.max(1));
    if share < RIGHT_MIN {
        missed.push(format!("right in {} of {runs} runs; at least 95 %", format_percent(share)));
    }
    BenchOutcome::new(&[table], missed)
}
