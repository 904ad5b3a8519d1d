//! Creates the header of a run: its id and its times.

use jiff::Timestamp;
use longhaul_model::report::v1::{RunInfo, RunParty};
use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

/// Returns the header of a run with a new id, and without an environment.
pub fn create_run_header(
    started: Timestamp,
    duration: Duration,
    initiator: RunParty,
    responder: RunParty,
) -> RunInfo {
    RunInfo {
        id: generate_run_id(started),
        started_at: format_rfc3339(started),
        duration_us: u64::try_from(duration.as_micros()).unwrap_or(u64::MAX),
        longhaul: env!("CARGO_PKG_VERSION").to_owned(),
        initiator,
        responder,
        part_of: None,
        environment: None,
    }
}

/// Formats a time in UTC, to the second.
pub fn format_rfc3339(moment: Timestamp) -> String {
    moment.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// Creates a run id: the start time to the second, so that ids sort by time, and 48 random bits, because
/// a thousand hosts may start a run in the same second.
pub fn generate_run_id(started: Timestamp) -> String {
    // The hasher's keys are kernel random numbers.
    let random = RandomState::new().hash_one(started.as_nanosecond());
    format!("{}-{:012x}", started.strftime("%Y%m%dT%H%M%SZ"), random >> 16)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn twenty_thousand_runs_of_one_second_have_different_ids() {
        let ids = (0..20_000).map(|_| generate_run_id(Timestamp::UNIX_EPOCH));
        assert_eq!(ids.collect::<HashSet<String>>().len(), 20_000);
        assert!(generate_run_id(Timestamp::UNIX_EPOCH).starts_with("19700101T000000Z-"));
    }
}
