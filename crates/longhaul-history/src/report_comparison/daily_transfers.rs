//! Sums the bytes of transfers by day, name and peer, and by what limited them.
//!
//! Source: reports of kind `flows`. Units: bytes, UTC days. Error: that of the verdicts.
//! Wrong when: a schedule watches only part of the day; its bytes are those of the watched time.

use crate::change_detection::transfer_points::transfer_pair;
use jiff::{Timestamp, ToSpan};
use longhaul_model::report::v1::analysis::Limiter;
use longhaul_model::report::v1::flows::{
    DailyTransfers, LimitedBytes, LimitedTransfers, TransferIdentity,
};
use longhaul_model::report::v1::{FlowsReport, HostPair};
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// The transfers of many reports. Its size is bounded by the days, names and peers in them.
#[derive(Debug, Default)]
pub struct DailyTransferSums(BTreeMap<(String, HostPair), TransferSum>);

#[derive(Debug, Default)]
struct TransferSum {
    transfers: u64,
    bytes: BTreeMap<Limiter, u64>,
}

impl DailyTransferSums {
    pub fn add_transfers(&mut self, added: LimitedTransfers) {
        let sum = self.0.entry((added.day, added.pair)).or_default();
        sum.transfers += added.transfers;
        let limited = sum.bytes.entry(added.limiter).or_default();
        *limited = limited.saturating_add(added.bytes);
    }

    /// Returns the number of sums.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the earliest day of the sums.
    pub fn first_day(&self) -> Option<&str> {
        self.0.first_key_value().map(|((day, _), _)| day.as_str())
    }

    /// Returns the sums, the latest day first, and of each day the most bytes first.
    pub fn finish(self) -> Vec<DailyTransfers> {
        let rows = self.0.into_iter().filter_map(|((day, pair), sum)| sum.describe(day, &pair));
        let mut rows: Vec<DailyTransfers> = rows.collect();
        rows.sort_by(|a, b| b.day.cmp(&a.day).then(b.bytes.cmp(&a.bytes)));
        rows
    }
}

impl TransferSum {
    fn describe(self, day: String, pair: &HostPair) -> Option<DailyTransfers> {
        let TransferIdentity { host, program, peer, sends } = TransferIdentity::of_pair(pair)?;
        let bytes = self.bytes.values().fold(0_u64, |sum, bytes| sum.saturating_add(*bytes));
        let share = |part: u64| part as f64 / bytes as f64;
        let limits = self.bytes.into_iter().map(|(limiter, bytes)| LimitedBytes {
            limiter,
            bytes,
            share_ratio: share(bytes),
        });
        let mut limits: Vec<LimitedBytes> = limits.collect();
        limits.sort_by_key(|it| Reverse(it.bytes));
        Some(DailyTransfers {
            day,
            host: host.to_owned(),
            program: program.to_owned(),
            peer: peer.to_owned(),
            sends,
            transfers: self.transfers,
            bytes,
            limits,
        })
    }
}

/// Returns the transfers with payload in a report of a host; nothing if the time of the report is invalid.
pub fn list_daily_transfers(report: &FlowsReport, host: &str) -> Vec<LimitedTransfers> {
    let Some(day) = find_end_day(report) else { return Vec::new() };
    let transfers = report.observation.transfers.iter().zip(&report.analysis.transfers);
    let transfers = transfers.map(|(seen, judged)| LimitedTransfers {
        day: day.clone(),
        pair: transfer_pair(host, seen),
        limiter: judged.run.limited_by,
        transfers: 1,
        bytes: seen.run.ends.receiver.bytes,
    });
    transfers.filter(|it| it.bytes > 0).collect()
}

/// Returns the day on which the transfers of a report ended.
fn find_end_day(report: &FlowsReport) -> Option<String> {
    let started: Timestamp = report.run.started_at.parse().ok()?;
    let duration_us = i64::try_from(report.run.duration_us).ok()?;
    let ended = started.checked_add(duration_us.microseconds()).ok()?;
    Some(ended.strftime("%Y-%m-%d").to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A report of one transfer of this many bytes, which ended at this time.
    fn report(ended_at: &str, bytes: u64, limited_by: Limiter) -> FlowsReport {
        let mut report: FlowsReport =
            serde_json::from_str(include_str!("../../../../fixtures/reports/flows-rclone.json"))
                .expect("a report");
        report.run.started_at = ended_at.to_owned();
        report.run.duration_us = 0;
        report.observation.transfers[0].run.ends.receiver.bytes = bytes;
        report.analysis.transfers[0].run.limited_by = limited_by;
        report
    }

    fn sum_reports(reports: &[FlowsReport]) -> Vec<DailyTransfers> {
        let mut sums = DailyTransferSums::default();
        for transfers in reports.iter().flat_map(|it| list_daily_transfers(it, "dtn")) {
            sums.add_transfers(transfers);
        }
        sums.finish()
    }

    #[test]
    fn bytes_are_shared_out_by_the_limiters_of_their_transfers() {
        let days = sum_reports(&[
            report("2026-11-27T10:00:00Z", 600, Limiter::ReceiveWindow),
            report("2026-11-27T11:00:00Z", 300, Limiter::Loss),
            report("2026-11-27T12:00:00Z", 300, Limiter::ReceiveWindow),
            report("2026-11-27T13:00:00Z", 0, Limiter::Unknown),
        ]);
        let [day] = &days[..] else { panic!("{days:?}") };
        assert_eq!((day.day.as_str(), day.transfers, day.bytes), ("2026-11-27", 3, 1200));
        assert_eq!((day.host.as_str(), day.program.as_str()), ("dtn", "rclone"));
        assert_eq!((day.peer.as_str(), day.sends), ("10.77.0.2", true));
        let limits: Vec<_> = day.limits.iter().map(|it| (it.limiter, it.share_ratio)).collect();
        assert_eq!(limits, [(Limiter::ReceiveWindow, 0.75), (Limiter::Loss, 0.25)]);
    }

    #[test]
    fn a_transfer_counts_on_the_day_on_which_it_ended() {
        let mut over_midnight = report("2026-11-27T23:59:00Z", 5, Limiter::Loss);
        over_midnight.run.duration_us = 120_000_000;
        let days = sum_reports(&[over_midnight, report("2026-11-27T23:59:59Z", 7, Limiter::Loss)]);
        let days: Vec<_> = days.iter().map(|it| (it.day.as_str(), it.bytes)).collect();
        assert_eq!(days, [("2026-11-28", 5), ("2026-11-27", 7)]);
    }
}
