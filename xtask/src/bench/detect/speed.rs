//! The time of one analysis of a series.

use crate::bench::table::{Table, median, number, quantile};
use longhaul_analysis::detect::synthetic::{CADENCES, cases};
use longhaul_analysis::detect::{Options, steps};
use longhaul_model::report::v1::quantity::Quantity;
use std::hint::black_box;
use std::time::Instant;

const SERIES: usize = 40;
const LOOKS: usize = 5;
const SEED: u64 = 9;

/// Uses the minimum of a few analyses of each series, which excludes other load.
pub fn table() -> Table {
    let kind = if cfg!(debug_assertions) {
        "a build for development: not to be quoted"
    } else {
        "a release build"
    };
    let title = format!("Time of one look, ms ({kind})");
    let mut table = Table::new(title, &["series", "samples", "median", "most"]);
    for cadence in &CADENCES {
        let all = cases(cadence, SERIES, SEED);
        let times: Vec<f64> = all
            .iter()
            .map(|case| {
                let looks = (0..LOOKS).map(|_| {
                    let begin = Instant::now();
                    black_box(steps(&case.points, Quantity::Goodput, &Options::default()));
                    begin.elapsed().as_secs_f64() * 1e3
                });
                looks.fold(f64::MAX, f64::min)
            })
            .collect();
        table.row(vec![
            cadence.title.to_owned(),
            all[0].points.len().to_string(),
            number(median(&times), 2),
            number(quantile(&times, 1.0), 2),
        ]);
    }
    table
}
