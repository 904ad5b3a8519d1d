//! Converts a received report into a run for the archive.
//!
//! Series values are not sent. They are derived from the report here, so that an agent cannot claim
//! a value that its report does not contain.

use super::batch_wire::ReportedRun;
use jiff::Timestamp;
use longhaul_history::change_detection::report_points::extract_points;
use longhaul_model::report::v1::series::HostPair;
use longhaul_store::history_store::{IncomingRun, SeriesReading};

/// Both directions of one pair of hosts; a run never covers more.
const MAX_PAIRS: usize = 2;

/// Returns the run with its values; `near` is the host that started it.
pub fn build_run(came: ReportedRun, near: &str) -> Result<IncomingRun, String> {
    let far = find_far_end(&came.pairs, near)?.map(str::to_owned);
    let (mut run, report) = IncomingRun::parse_json(came.report, 0)
        .map_err(|error| super::format_error_chain(&error))?;
    let began = &run.run.started_at;
    let began: Timestamp = began.parse().map_err(|_| {
        let began: String = began.chars().take(40).collect();
        format!("the report has an invalid start time: {began:?}")
    })?;
    run.at_us = began.as_microsecond();
    run.readings = match &far {
        Some(far) => extract_points(&report, Some(near), Some(far))
            .into_iter()
            .map(|(pair, quantity, point)| SeriesReading { pair, quantity, point })
            .collect(),
        None => Vec::new(),
    };
    run.pairs = came.pairs;
    run.near = Some(near.to_owned());
    Ok(run)
}

/// Returns the other host of a run that `near` started, or `None` if the run concerns one host.
fn find_far_end<'a>(pairs: &'a [HostPair], near: &str) -> Result<Option<&'a str>, String> {
    if pairs.len() > MAX_PAIRS {
        return Err(format!("the run has {} pairs; at most 2 are allowed", pairs.len()));
    }
    let mut far = None;
    for pair in pairs {
        let other = find_other_end(pair, near)?;
        if far.is_some_and(|far| far != other) {
            return Err("the pairs of the run have different peers".to_owned());
        }
        far = Some(other);
    }
    Ok(far)
}

/// Returns the host of the pair that is not `near`.
pub fn find_other_end<'a>(pair: &'a HostPair, near: &str) -> Result<&'a str, String> {
    match (pair.from == near, pair.to == near) {
        (true, false) => Ok(&pair.to),
        (false, true) => Ok(&pair.from),
        (true, true) => Err("both ends of the pair are the same host".to_owned()),
        (false, false) => {
            let near: String = near.chars().take(40).collect();
            Err(format!("{near:?} is neither end of the pair"))
        }
    }
}
