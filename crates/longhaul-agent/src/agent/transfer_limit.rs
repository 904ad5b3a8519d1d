//! Limits the number of series of transfers. Others choose the names of programs and the addresses of
//! peers, and could fill the archive with series.

use super::finished_run::list_reading_pairs;
use longhaul_model::report::v1::flows::TransferIdentity;
use longhaul_model::report::v1::quantity::PathQuantity;
use longhaul_model::report::v1::{HostPair, ReportKind};
use longhaul_store::history_store::IncomingRun;
use longhaul_store::{Archive, StoreError};
use std::collections::HashSet;

/// The maximum number of transfers of a host that have a place among the series.
pub const MAX_TRANSFERS: usize = 64;
/// A transfer that was not seen for this time loses its place.
const PLACE_TIME_US: i64 = 7 * 86_400_000_000;

/// Returns whether the transfer has a place.
fn is_placed(newest_us: Option<i64>, now_us: i64) -> bool {
    newest_us.is_some_and(|at_us| at_us >= now_us.saturating_sub(PLACE_TIME_US))
}

/// Removes transfers that had no place any more when the newest one was seen; `key` returns the pair
/// of an item and the time of its newest value. Paths stay.
pub fn remove_past_transfers<T>(items: &mut Vec<T>, key: impl Fn(&T) -> (&HostPair, Option<i64>)) {
    let is_transfer = |it: &T| TransferIdentity::of_pair(key(it).0).is_some();
    let newest = items.iter().filter(|it| is_transfer(it)).filter_map(|it| key(it).1).max();
    items
        .retain(|it| !is_transfer(it) || newest.is_some_and(|newest| is_placed(key(it).1, newest)));
}

/// Removes the values of transfers that have no place, and returns their number.
pub fn limit_transfers(archive: &Archive, run: &mut IncomingRun) -> Result<usize, StoreError> {
    let named = run.readings.first().and_then(|it| TransferIdentity::of_pair(&it.pair));
    let Some(host) = named.filter(|_| run.kind == ReportKind::Flows).map(|it| it.host.to_owned())
    else {
        return Ok(0);
    };
    let of_host =
        |pair: &HostPair| TransferIdentity::of_pair(pair).is_some_and(|it| it.host == host);
    let cells = archive.grid(PathQuantity::Goodput)?.into_iter();
    let cells = cells.filter(|it| of_host(&it.pair) && is_placed(it.at_us, run.at_us));
    let mut placed: HashSet<HostPair> = cells.map(|it| it.pair).collect();
    // The busiest come first.
    for reading in &run.readings {
        if placed.len() < MAX_TRANSFERS {
            placed.insert(reading.pair.clone());
        }
    }
    let transfers = run.pairs.len();
    run.readings.retain(|it| placed.contains(&it.pair));
    run.pairs = list_reading_pairs(&run.readings);
    Ok(transfers - run.pairs.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::flows_test_builder::{ArchiveFolder, build_run};
    use longhaul_model::report::v1::FlowsReport;

    const DAY_US: i64 = 86_400_000_000;

    /// Makes the transfer one of each of these programs.
    fn name_programs(report: &mut FlowsReport, programs: &[String]) {
        let (seen, judged) = (&mut report.observation.transfers, &mut report.analysis.transfers);
        let (transfer, analysis) = (seen.remove(0), judged.remove(0));
        for program in programs {
            let mut transfer = transfer.clone();
            transfer.process.as_mut().expect("a process").name.clone_from(program);
            seen.push(transfer);
            judged.push(analysis.clone());
        }
    }

    #[test]
    fn strangers_names_take_no_more_than_all_places_and_leave_them_after_a_week() {
        let folder = ArchiveFolder::new("transfers");
        let mut archive = folder.open();
        let begin_us = 1_700_000_000_000_000;
        let mut number = 0;
        let mut store = |at_us: i64, programs: &[String]| {
            number += 1;
            let mut run = build_run(number, at_us, |report| name_programs(report, programs));
            let left_out = limit_transfers(&archive, &mut run).expect("the archive answers");
            let pairs = run.pairs.len();
            archive.append_runs(&[run]).expect("stored");
            (pairs, left_out)
        };
        assert_eq!(store(begin_us, &["rclone".to_owned()]), (1, 0));
        let turns = (0..10).map(|turn| {
            let names: Vec<String> = (0..16).map(|it| format!("p{}", 16 * turn + it)).collect();
            store(begin_us + turn, &names).0
        });
        assert_eq!(turns.sum::<usize>(), MAX_TRANSFERS - 1);
        let known_and_new = ["rclone".to_owned(), "late".to_owned()];
        assert_eq!(store(begin_us + DAY_US, &known_and_new), (1, 1));
        assert_eq!(store(begin_us + 8 * DAY_US, &known_and_new), (2, 0));
    }
}
