//! Forecasts a transfer over an archived path: the finish time, and what would shorten it.
//!
//! The rate is that of the archive's goodput in this direction, in the setting of the newest test. If
//! a disk or CPU limited the newest copy, the transfer is not faster than that copy was.
//!
//! Source: as the module above. Units: bit/s, bytes, us since 1970.
//! Error: docs/benchmarks.md. Wrong when: the copy behind the limit read or wrote other disks.

use super::{FinishForecast, RateModel, forecast_from_series, simulate_finish};
use crate::report_comparison::period_settings::setting_of_plan;
use crate::report_comparison::{ArchivedPath, ArchivedRun, reverse_pair};
use longhaul_model::report::v1::copy::{CopyAnalysis, CopyLimiter};
use longhaul_model::report::v1::plan::RunDirection;
use longhaul_model::report::v1::quantity::PathQuantity;
use longhaul_model::report::v1::scan::{SettingChoice, TransferSetting};
use longhaul_model::report::v1::{
    AnyReport, FindingAdvice, HostPair, SERVER_PLACEHOLDER, ThroughputReport,
};
use std::time::Duration;

/// The minimum gain of advice, as a ratio of the duration.
const MIN_GAIN_RATIO: f64 = 0.05;
/// The starts that are compared: every hour of a day.
const LATER_STARTS: u32 = 24;
const HOUR: Duration = Duration::from_secs(3600);

/// The requested transfer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlannedTransfer {
    /// From the sender to the receiver.
    pub pair: HostPair,
    pub bytes: u64,
    pub start_us: i64,
}

/// A forecast of a transfer, with what it is based on.
#[derive(Debug, Clone, PartialEq)]
pub struct PathForecast {
    pub finish: FinishForecast,
    /// The mean rate of the current level, without busy hours.
    pub level_bps: u64,
    /// True if the rate depends on the hour.
    pub has_season: bool,
    /// The number of values in the archive, and the time of the newest.
    pub tests: usize,
    pub newest_us: i64,
    /// The setting of the newest test; absent if its report was deleted.
    pub setting: Option<TransferSetting>,
    /// The end that limits the transfer to a rate.
    pub host_limit: Option<HostLimit>,
    /// The ways to shorten the transfer, the best first.
    pub remedies: Vec<ForecastRemedy>,
}

/// A limit by a disk or CPU, seen in a copy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostLimit {
    pub limiter: CopyLimiter,
    pub rate_bps: u64,
    pub run_id: String,
}

/// A way to shorten a transfer.
#[derive(Debug, Clone, PartialEq)]
pub struct ForecastRemedy {
    pub kind: RemedyKind,
    /// The median duration with it, if that is known.
    pub duration: Option<Duration>,
}

#[derive(Debug, Clone, PartialEq)]
pub enum RemedyKind {
    /// To start later by this time.
    LaterStart(Duration),
    /// The setting that the newest scan recommends.
    TunedSetting(SettingChoice),
    /// Advice of the newest test.
    TestAdvice(FindingAdvice),
    /// A faster disk or CPU at the end that limited the newest copy.
    FasterHost(CopyLimiter),
}

/// Keeps, of the bulk tests in this direction, those in the setting of the newest one; returns the
/// number of others. Their goodput would look like changes of the path.
pub fn retain_newest_setting(runs: &mut Vec<ArchivedRun>, pair: &HostPair) -> usize {
    let newest = runs
        .iter()
        .filter_map(|run| Some((run.at_us, setting_of_plan(&find_bulk_test(run, pair)?.plan))))
        .max_by_key(|(at_us, _)| *at_us);
    let Some((_, setting)) = newest else { return 0 };
    let before = runs.len();
    runs.retain(|run| {
        find_bulk_test(run, pair).is_none_or(|test| setting_of_plan(&test.plan) == setting)
    });
    before - runs.len()
}

/// Returns the report if the run is a bulk test in this direction.
fn find_bulk_test<'a>(run: &'a ArchivedRun, pair: &HostPair) -> Option<&'a ThroughputReport> {
    let AnyReport::Throughput(test) = &run.report else { return None };
    let is_ours = is_forward(run, pair) || is_forward(run, &reverse_pair(pair));
    let is_sent = match test.plan.direction {
        RunDirection::Forward => is_forward(run, pair),
        RunDirection::Reverse => !is_forward(run, pair),
        RunDirection::Both => true,
    };
    (is_ours && is_sent).then_some(test)
}

fn is_forward(run: &ArchivedRun, pair: &HostPair) -> bool {
    run.near == pair.from && run.far == pair.to
}

/// Forecasts a transfer; `None` if the archive has no goodput in this direction.
pub fn forecast_transfer(path: &ArchivedPath, planned: &PlannedTransfer) -> Option<PathForecast> {
    let points = path.points(&planned.pair, PathQuantity::Goodput);
    let host_limit = find_host_limit(path, &planned.pair);
    let limit_bps = host_limit.as_ref().map(|limit| limit.rate_bps);
    let (finish, model) =
        forecast_from_series(&points, planned.bytes, planned.start_us, limit_bps)?;
    let tests = path.runs.iter().rev();
    let newest_test = tests.copied().find_map(|run| find_bulk_test(run, &planned.pair));
    let setting = newest_test.map(|test| setting_of_plan(&test.plan));
    let usual = finish.median();
    let case = RemedyCase { path, planned, model: &model, limit_bps, usual };
    let host_limit = host_limit.filter(|limit| limit.rate_bps < model.level_bps as u64);
    let found = [
        host_limit.as_ref().map(|limit| case.faster_host(limit)),
        case.later_start(),
        case.tuned_setting(setting.as_ref()),
        newest_test.filter(|_| host_limit.is_none()).and_then(|test| case.test_advice(test)),
    ];
    let gains = |duration: Duration| duration <= usual.mul_f64(1.0 - MIN_GAIN_RATIO);
    let mut remedies: Vec<ForecastRemedy> = found.into_iter().flatten().collect();
    remedies.retain(|remedy| remedy.duration.is_none_or(gains));
    remedies.sort_by_key(|remedy| remedy.duration.unwrap_or(Duration::MAX));
    Some(PathForecast {
        finish,
        level_bps: model.level_bps as u64,
        has_season: model.has_season(),
        tests: points.len(),
        newest_us: points.last()?.at_us,
        setting,
        host_limit,
        remedies,
    })
}

/// The transfer for which remedies are sought.
struct RemedyCase<'a> {
    path: &'a ArchivedPath<'a>,
    planned: &'a PlannedTransfer,
    model: &'a RateModel,
    limit_bps: Option<u64>,
    /// The median duration without a remedy.
    usual: Duration,
}

impl RemedyCase<'_> {
    fn faster_host(&self, limit: &HostLimit) -> ForecastRemedy {
        let without = simulate_finish(self.model, self.planned.bytes, None);
        ForecastRemedy {
            kind: RemedyKind::FasterHost(limit.limiter),
            duration: Some(without.median()),
        }
    }

    /// Returns the first start within a day that gives nearly the shortest transfer, if the path has
    /// a season.
    fn later_start(&self) -> Option<ForecastRemedy> {
        let starts = (1..LATER_STARTS).filter(|_| self.model.has_season());
        let remedies: Vec<ForecastRemedy> = starts
            .map(|hours| {
                let wait = HOUR * hours;
                let start_us = self.planned.start_us.saturating_add(wait.as_micros() as i64);
                let model = self.model.clone().starting_at(start_us);
                let finish = simulate_finish(&model, self.planned.bytes, self.limit_bps);
                let duration = Some(finish.median());
                ForecastRemedy { kind: RemedyKind::LaterStart(wait), duration }
            })
            .collect();
        let best = remedies.iter().filter_map(|remedy| remedy.duration).min()?;
        let enough = best.mul_f64(1.0 + MIN_GAIN_RATIO);
        remedies.into_iter().find(|remedy| remedy.duration <= Some(enough))
    }

    /// Returns the setting that the newest scan recommends, if the tests had another.
    fn tuned_setting(&self, tested: Option<&TransferSetting>) -> Option<ForecastRemedy> {
        let choice = self.path.runs.iter().rev().find_map(|run| {
            let AnyReport::Scan(scan) = &run.report else { return None };
            let forward = is_forward(run, &self.planned.pair);
            let direction = scan.analysis.directions.iter().find(|it| it.forward == forward)?;
            direction.recommended.clone()
        })?;
        let duration = self.scale_duration(choice.goodput_bps);
        let is_other = tested != Some(&choice.setting);
        is_other.then_some(ForecastRemedy { kind: RemedyKind::TunedSetting(choice), duration })
    }

    /// Returns the first advice of the newest test.
    fn test_advice(&self, test: &ThroughputReport) -> Option<ForecastRemedy> {
        let advice = test.findings.iter().flat_map(|finding| &finding.advice).next()?;
        let mut advice = advice.clone();
        if let Some(command) = &mut advice.command {
            *command = command.replace(SERVER_PLACEHOLDER, &test.run.responder.command_words());
        }
        let duration = advice.expected_bps.and_then(|bps| self.scale_duration(bps));
        Some(ForecastRemedy { kind: RemedyKind::TestAdvice(advice), duration })
    }

    /// Returns the median duration at another level.
    fn scale_duration(&self, level_bps: u64) -> Option<Duration> {
        let most_bps = self.limit_bps.unwrap_or(u64::MAX);
        let ratio = self.model.level_bps.min(most_bps as f64) / level_bps.min(most_bps) as f64;
        Duration::try_from_secs_f64(self.usual.as_secs_f64() * ratio).ok()
    }
}

/// Returns the limit by a disk or CPU in the newest copy in this direction, if that was its limiter.
fn find_host_limit(path: &ArchivedPath, pair: &HostPair) -> Option<HostLimit> {
    let copies = path.runs.iter().rev().filter_map(|run| match &run.report {
        AnyReport::Copy(copy) if copy.plan.forward == is_forward(run, pair) => Some(copy),
        _ => None,
    });
    let copy = copies.into_iter().next()?;
    let &CopyAnalysis { limited_by, asymptotic_bps, goodput_bps, .. } = &copy.analysis;
    let is_host = !matches!(limited_by, CopyLimiter::Network | CopyLimiter::CannotTell);
    let rate_bps = asymptotic_bps.or(goodput_bps).filter(|bps| is_host && *bps > 0)?;
    Some(HostLimit { limiter: limited_by, rate_bps, run_id: copy.run.id.clone() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report_comparison::test_archive::{MINUTE_US, TestArchive};
    use longhaul_model::report::v1::ReportFinding;

    const TESTS: i64 = 60;

    /// An archive with hourly tests of 1 Gbit/s in one direction and 100 Mbit/s in the other.
    fn archive_hourly_tests() -> TestArchive {
        let mut archive = TestArchive::default();
        for hour in 0..TESTS {
            let scatter = 1e6 * (hour * 37 % 11) as f64;
            archive.run(60 * hour, true, 1e9 + scatter);
            archive.run(60 * hour + 30, false, 1e8 + scatter / 10.0);
        }
        archive
    }

    /// Forecasts a transfer of an hour at 1 Gbit/s to `cesnet`.
    fn forecast_hour(archive: &TestArchive) -> PathForecast {
        let pair = HostPair { from: String::from("slac"), to: String::from("cesnet") };
        let start_us = 60 * TESTS * MINUTE_US;
        let planned = PlannedTransfer { pair, bytes: 450_000_000_000, start_us };
        forecast_transfer(&archive.material(), &planned).unwrap()
    }

    fn hours(duration: Duration) -> f64 {
        duration.as_secs_f64() / 3600.0
    }

    #[test]
    fn only_tests_in_the_direction_of_the_transfer_count() {
        let forecast = forecast_hour(&archive_hourly_tests());
        assert_eq!(forecast.tests, TESTS as usize);
        assert!((hours(forecast.finish.median()) - 1.0).abs() < 0.05, "{forecast:?}");
    }

    #[test]
    fn a_disk_that_limited_the_newest_copy_limits_the_forecast_and_is_named() {
        let mut archive = archive_hourly_tests();
        archive.copy(3500, true, CopyLimiter::TargetDisk, 250_000_000);
        archive.copy(3501, false, CopyLimiter::SourceDisk, 10_000_000);
        let forecast = forecast_hour(&archive);
        assert!((hours(forecast.finish.median()) - 4.0).abs() < 0.1, "{forecast:?}");
        let [remedy] = forecast.remedies.as_slice() else { panic!("{forecast:?}") };
        assert_eq!(remedy.kind, RemedyKind::FasterHost(CopyLimiter::TargetDisk));
        assert!((hours(remedy.duration.unwrap()) - 1.0).abs() < 0.05, "{remedy:?}");

        // A later copy that the network limited shows that the disk does not.
        archive.copy(3502, true, CopyLimiter::Network, 900_000_000);
        assert_eq!(forecast_hour(&archive).host_limit, None);
    }

    #[test]
    fn advice_of_the_newest_test_is_named_with_the_time_that_it_would_take() {
        let mut archive = archive_hourly_tests();
        archive.run(60 * TESTS, true, 1e9);
        archive.change_last(|report| {
            let mut finding = ReportFinding::new("receive_window", 0.9, "clipped");
            let mut advice = FindingAdvice::new("receiver", "raise the window");
            advice.expected_bps = Some(4_000_000_000);
            finding.advice.push(advice);
            report.findings.push(finding);
        });
        let forecast = forecast_hour(&archive);
        let duration = forecast.remedies[0].duration.unwrap();
        assert!((hours(duration) - 0.25).abs() < 0.02, "{duration:?}");
    }

    #[test]
    fn tests_in_other_settings_than_the_newest_are_left_out() {
        let mut archive = archive_hourly_tests();
        archive.run(60 * TESTS, true, 3e9);
        archive.change_last(|report| report.plan.streams = 8);
        let pair = HostPair { from: String::from("slac"), to: String::from("cesnet") };
        assert_eq!(retain_newest_setting(&mut archive.runs, &pair), TESTS as usize);
        let forecast = forecast_hour(&archive);
        assert_eq!((forecast.tests, forecast.setting.unwrap().streams), (1, 8));
    }
}
