//! Converts a received report into a run for the archive.
//!
//! Series values are not sent. They are derived from the report here, so that an agent cannot claim
//! a value that its report does not contain.

use super::wire::CameRun;
use jiff::Timestamp;
use longhaul_analysis::detect::points::points_of;
use longhaul_model::report::v1::series::Pair;
use longhaul_store::watched::{Reading, WatchedRun};

/// Both directions of one pair of hosts; a run never covers more.
const PAIRS_MAX: usize = 2;

/// Returns the run with its values; `near` is the host that started it.
pub fn run(came: CameRun, near: &str) -> Result<WatchedRun, String> {
    let far = far_of(&came.pairs, near)?.map(str::to_owned);
    let (mut run, report) =
        WatchedRun::with_report(came.report, 0).map_err(|error| super::chain(&error))?;
    let began = &run.run.started_at;
    let began: Timestamp = began.parse().map_err(|_| {
        let began: String = began.chars().take(40).collect();
        format!("its report says that it began at {began:?}, which is no time")
    })?;
    run.at_us = began.as_microsecond();
    run.readings = match &far {
        Some(far) => points_of(&report, Some(near), Some(far))
            .into_iter()
            .map(|(pair, quantity, point)| Reading {
                pair,
                quantity,
                point,
            })
            .collect(),
        None => Vec::new(),
    };
    run.pairs = came.pairs;
    run.near = Some(near.to_owned());
    Ok(run)
}

/// Returns the other host of a run that `near` started, or `None` if the run concerns one host.
fn far_of<'a>(pairs: &'a [Pair], near: &str) -> Result<Option<&'a str>, String> {
    if pairs.len() > PAIRS_MAX {
        return Err(format!("it is of {} pairs; at most 2", pairs.len()));
    }
    let mut far = None;
    for pair in pairs {
        let other = other_end(pair, near)?;
        if far.is_some_and(|far| far != other) {
            return Err("its pairs have different far ends".to_owned());
        }
        far = Some(other);
    }
    Ok(far)
}

/// Returns the host of the pair that is not `near`.
pub fn other_end<'a>(pair: &'a Pair, near: &str) -> Result<&'a str, String> {
    match (pair.from == near, pair.to == near) {
        (true, false) => Ok(&pair.to),
        (false, true) => Ok(&pair.from),
        (true, true) => Err("it is of a host and itself".to_owned()),
        (false, false) => {
            let near: String = near.chars().take(40).collect();
            Err(format!("{near:?} is neither end of it"))
        }
    }
}
