//! Converts a received report into a run for the archive.
//!
//! Series values are not sent. They are derived from the report here, so that an agent cannot claim
//! a value that its report does not contain.

use crate::agent::finished_run;
use longhaul_history::change_detection::transfer_points::MAX_SERIES_TRANSFERS;
use longhaul_model::report::v1::HostPair;
use longhaul_model::report::v1::flows::TransferIdentity;
use longhaul_store::history_store::{self, IncomingRun};
use longhaul_store::sqlite::outbox::OutgoingRun;

/// Both directions of one pair of hosts; a run never covers more.
const MAX_PAIRS: usize = 2;

/// Returns the run with its values, within the limits of the archive; `near` is the host that started it.
pub fn build_run(came: OutgoingRun, near: &str) -> Result<IncomingRun, String> {
    let is_transfers = !came.pairs.is_empty() && are_transfers(&came.pairs, near);
    let far = if is_transfers { None } else { find_far_end(&came.pairs, near)?.map(str::to_owned) };
    let (mut run, report) = IncomingRun::parse_json(came.report, 0)
        .map_err(|error| super::format_error_chain(&error))?;
    finished_run::fill_run(&mut run, &report, near, far.as_deref())
        .map_err(|error| error.to_string())?;
    if is_transfers {
        // The agent bounds its series of transfers.
        run.readings.retain(|it| came.pairs.contains(&it.pair));
    } else if far.is_none() {
        run.readings.clear();
    }
    run.pairs = came.pairs;
    run.near = Some(near.to_owned());
    history_store::check_run(&run).map_err(|error| super::format_error_chain(&error))?;
    Ok(run)
}

/// Returns whether all pairs are series of transfers on that host, as many as one report may have.
fn are_transfers(pairs: &[HostPair], near: &str) -> bool {
    pairs.len() <= MAX_SERIES_TRANSFERS
        && pairs
            .iter()
            .all(|pair| TransferIdentity::of_pair(pair).is_some_and(|it| it.host == near))
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

/// Checks that `near` is an end of the pair.
pub fn check_end(pair: &HostPair, near: &str) -> Result<(), String> {
    if are_transfers(std::slice::from_ref(pair), near) {
        return Ok(());
    }
    find_other_end(pair, near).map(drop)
}

/// Returns the host of the pair that is not `near`.
fn find_other_end<'a>(pair: &'a HostPair, near: &str) -> Result<&'a str, String> {
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
