//! The rate of route changes of a pair in the last month, and how many of them affected throughput.

use crate::agent::clocks;
use crate::path_traces::{self, parse_time_us};
use crate::watch::watch_file::WatchFile;
use longhaul_history::event::RouteChangeBaseRate;
use longhaul_model::report::v1::event::EventState;
use longhaul_model::report::v1::quantity::PathQuantity;
use longhaul_model::report::v1::series::HostPair;
use longhaul_store::history_store::{EventFilter, TimeRange};
use longhaul_store::{Archive, StoreError};

const MONTH_US: i64 = 30 * 86_400_000_000;
/// A throughput change within this time of a route change counts as its effect.
const EFFECT_WINDOW_US: i64 = 3_600_000_000;
const EVENTS_MAX: u32 = 500;

/// Returns `None` if the traces of the last month show no change.
pub fn count_route_changes(
    archive: &Archive,
    file: &WatchFile,
    pair: &HostPair,
) -> Result<Option<RouteChangeBaseRate>, StoreError> {
    let range = TimeRange { begin_us: clocks::read_wall_us() - MONTH_US, end_us: i64::MAX };
    let traces = path_traces::read_traces(archive, file, pair, range)?;
    let changes = traces.windows(2).filter(|two| {
        let [before, after] = [0, 1].map(|index| two[index].observation.route.as_ref());
        before.zip(after).is_some_and(|(before, after)| path_traces::is_other_route(after, before))
    });
    let times: Vec<i64> = changes.filter_map(|two| parse_time_us(&two[1].run.started_at)).collect();
    if times.is_empty() {
        return Ok(None);
    }
    let mut events = archive.events(&EventFilter {
        range,
        pair: Some(pair.clone()),
        state: None,
        limit: EVENTS_MAX,
    })?;
    events.retain(|event| {
        let sure = matches!(event.state, EventState::Confirmed | EventState::Recovered);
        sure && event.quantity == PathQuantity::Goodput
    });
    let felt = times.iter().filter(|at| {
        let near = |[begin, end]: [i64; 2]| {
            **at > begin - EFFECT_WINDOW_US && **at < end + EFFECT_WINDOW_US
        };
        events.iter().any(|event| near(event.between_us))
    });
    Ok(Some(RouteChangeBaseRate {
        with_effect: felt.count() as u32,
        route_changes: times.len() as u32,
    }))
}
