//! `longhaul predict finish`: forecasts when a transfer will finish, from the archive.

use crate::cli::args::{ArchiveArgs, EnvironmentArgs, ReportOutputArgs};
use crate::cli::command_output;
use crate::cli::report_archiving::saturating_micros;
use crate::cli::report_command::run_collection::{RunCollection, is_named};
use crate::cli::report_command::{ALL_TIME, LONGHAUL_VERSION, write_report};
use crate::cli::value_parsers::{parse_host_name, parse_run_bytes, time_period};
use crate::command_failure::{ARCHIVE, CommandFailure, USAGE};
use clap::Args;
use jiff::{SignedDuration, Timestamp};
use longhaul_history::finish_forecast::path_forecast::{
    ForecastRemedy, PathForecast, PlannedTransfer, RemedyKind, forecast_transfer,
    retain_newest_setting,
};
use longhaul_history::report_comparison::ArchivedPath;
use longhaul_model::report::v1::quantity::PathQuantity;
use longhaul_model::report::v1::{HostPair, ReportCaveat, SCHEMA};
use longhaul_model::units::Bytes;
use longhaul_report::document::ReportDocument;
use longhaul_report::number_format::{count_of, format_percent, format_rate};
use longhaul_report::scan_text::setting_format::{describe_setting, format_span};
use serde_json::{Value, json};
use std::process::ExitCode;
use std::time::Duration;

/// The number of tests below which the interval rests mainly on assumptions.
const MIN_TESTS: usize = 10;
/// The maximum age of the newest test.
const MAX_AGE: SignedDuration = SignedDuration::from_hours(48);

#[derive(Debug, Args)]
#[command(next_help_heading = "Transfer")]
pub struct FinishArgs {
    /// Size of the transfer, such as 50T
    #[arg(long, value_name = "SIZE", value_parser = parse_run_bytes)]
    pub bytes: u64,
    /// Receiver, as named in the archive
    #[arg(long, value_name = "HOST", value_parser = parse_host_name)]
    pub to: String,
    /// Sender, as named in the archive [default: the only one with tests]
    #[arg(long, value_name = "HOST", value_parser = parse_host_name)]
    pub from: Option<String>,
    /// Start, in UTC: 22:00, 2026-11-30 22:00, or 2h (from now) [default: now]
    #[arg(long, value_name = "TIME", value_parser = parse_coming_time)]
    pub start: Option<Timestamp>,
    /// Deadline, in the same forms; tells the chance to meet it
    #[arg(long, value_name = "TIME", value_parser = parse_coming_time)]
    pub by: Option<Timestamp>,
    #[command(flatten)]
    pub environment: EnvironmentArgs,
    #[command(flatten)]
    pub form: ReportOutputArgs,
    #[command(flatten)]
    pub archive: ArchiveArgs,
}

fn parse_coming_time(text: &str) -> Result<Timestamp, String> {
    time_period::resolve_coming_time(text, Timestamp::now())
}

/// A forecast with its times.
struct DatedForecast<'a> {
    planned: &'a PlannedTransfer,
    start: Timestamp,
    deadline: Option<Timestamp>,
    forecast: &'a PathForecast,
    caveats: Vec<ReportCaveat>,
}

pub fn run(args: &FinishArgs) -> Result<ExitCode, CommandFailure> {
    let now = Timestamp::now();
    let start = args.start.unwrap_or(now);
    check_times(now, start, args.by)?;
    let maker = format!("longhaul test {}", args.to);
    let archive = command_output::require_archive(&args.archive, &maker)?;
    let hosts = [args.to.clone()];
    let environment = args.environment.filter();
    let mut gathered = RunCollection::read(&archive, &hosts, ALL_TIME, environment)?;
    let pair = choose_pair(args, &gathered.materials(&hosts))?;
    let others = retain_newest_setting(&mut gathered.runs, &pair);
    let materials = gathered.materials(&hosts);
    let planned = PlannedTransfer { pair, bytes: args.bytes, start_us: start.as_microsecond() };
    let path = materials.iter().find(|path| path.directions().contains(&planned.pair));
    let forecast = path.and_then(|path| forecast_transfer(path, &planned));
    let forecast = forecast.ok_or_else(|| missing_tests(args))?;
    let caveats = list_caveats(gathered.caveats.clone(), &forecast, others, now);
    let dated =
        DatedForecast { planned: &planned, start, deadline: args.by, forecast: &forecast, caveats };
    write_report(&args.form, &dated.to_json(), &dated.build_document())?;
    Ok(ExitCode::SUCCESS)
}

fn check_times(
    now: Timestamp,
    start: Timestamp,
    deadline: Option<Timestamp>,
) -> Result<(), CommandFailure> {
    let fail = |text: String, hint: &str| Err(CommandFailure::new(USAGE, text).hint(Some(hint)));
    // A start of now is a moment ago.
    if start < now - SignedDuration::from_mins(1) {
        let text = format!("the start, {}, is in the past", format_time(start));
        return fail(text, "omit --start to start now");
    }
    match deadline {
        Some(deadline) if deadline < now => {
            let text = format!("the deadline, {}, is in the past", format_time(deadline));
            fail(text, "give a later time with --by, such as 06:40 or 12h")
        }
        Some(deadline) if deadline <= start => {
            let [deadline, start] = [deadline, start].map(format_time);
            let text = format!("the deadline, {deadline}, is not after the start, {start}");
            fail(text, "give a later --by or an earlier --start")
        }
        _ => Ok(()),
    }
}

/// Returns the pair with goodput that the options name.
fn choose_pair(args: &FinishArgs, materials: &[ArchivedPath]) -> Result<HostPair, CommandFailure> {
    let is_wanted = |pair: &HostPair| {
        is_named(&pair.to, &args.to)
            && args.from.as_ref().is_none_or(|from| is_named(&pair.from, from))
    };
    let mut found: Vec<HostPair> = materials
        .iter()
        .flat_map(|path| path.directions().map(|pair| (path, pair)))
        .filter(|(path, pair)| {
            is_wanted(pair) && !path.points(pair, PathQuantity::Goodput).is_empty()
        })
        .map(|(_, pair)| pair)
        .collect();
    match found.len() {
        0 => Err(missing_tests(args)),
        1 => Ok(found.remove(0)),
        _ => {
            let names: Vec<&str> = found.iter().map(|pair| pair.from.as_str()).collect();
            let text = format!("several hosts have tests to {}: {}", args.to, names.join(", "));
            Err(CommandFailure::new(USAGE, text).hint(Some("name the sender with `--from HOST`")))
        }
    }
}

fn missing_tests(args: &FinishArgs) -> CommandFailure {
    let from = args.from.as_ref().map(|from| format!(" from {from}")).unwrap_or_default();
    let text = format!("cannot find tests{from} to {} in the archive", args.to);
    CommandFailure::new(ARCHIVE, text).hint(Some(format!(
        "make one with `longhaul test {}`, better one each hour with `longhaul watch`; \
         `longhaul report list` shows the names of hosts",
        args.to
    )))
}

fn list_caveats(
    mut caveats: Vec<ReportCaveat>,
    forecast: &PathForecast,
    others: usize,
    now: Timestamp,
) -> Vec<ReportCaveat> {
    if others > 0 {
        let text = format!(
            "{} in other settings than the newest were left out",
            count_of(others as u64, "test")
        );
        caveats.push(ReportCaveat::new("other_settings", text));
    }
    if forecast.tests < MIN_TESTS {
        let text = format!(
            "{} only: busy hours and changes are unknown, and the interval is mostly assumed",
            count_of(forecast.tests as u64, "test")
        );
        caveats.push(ReportCaveat::new("few_tests", text));
    }
    let newest = timestamp_of(forecast.newest_us);
    if now.duration_since(newest) > MAX_AGE {
        let text = format!(
            "the newest test is of {}; the path may have changed since",
            format_time(newest)
        );
        caveats.push(ReportCaveat::new("old_tests", text));
    }
    caveats
}

fn timestamp_of(at_us: i64) -> Timestamp {
    Timestamp::from_microsecond(at_us).unwrap_or(Timestamp::MAX)
}

fn format_time(at: Timestamp) -> String {
    at.strftime("%Y-%m-%d %H:%M UTC").to_string()
}

impl DatedForecast<'_> {
    /// Returns the time so long after the start.
    fn time_after(&self, time: Duration) -> Timestamp {
        let time = SignedDuration::try_from(time).unwrap_or(SignedDuration::MAX);
        self.start.checked_add(time).unwrap_or(Timestamp::MAX)
    }

    fn chance(&self) -> Option<f64> {
        let time = Duration::try_from(self.deadline?.duration_since(self.start)).ok()?;
        Some(self.forecast.finish.chance_within(time))
    }

    fn to_json(&self) -> Value {
        let (forecast, finish) = (self.forecast, &self.forecast.finish);
        let [low, high] = finish.interval();
        let at = |time: Duration| self.time_after(time).to_string();
        let limit = forecast.host_limit.as_ref().map(|limit| {
            json!({ "limited_by": limit.limiter.word(), "rate_bps": limit.rate_bps,
                "run_id": limit.run_id })
        });
        let remedies: Vec<Value> = forecast
            .remedies
            .iter()
            .map(|remedy| {
                json!({ "text": self.describe_remedy(remedy), "duration_us": remedy.duration.map(saturating_micros) })
            })
            .collect();
        json!({
            "schema": SCHEMA,
            "kind": "finish",
            "longhaul": LONGHAUL_VERSION,
            "pair": self.planned.pair,
            "bytes": self.planned.bytes,
            "start_at": self.start.to_string(),
            "finish_at": at(finish.median()),
            "finish_low_at": at(low),
            "finish_high_at": at(high),
            "duration_us": saturating_micros(finish.median()),
            "duration_low_us": saturating_micros(low),
            "duration_high_us": saturating_micros(high),
            "deadline_at": self.deadline.map(|deadline| deadline.to_string()),
            "chance_ratio": self.chance(),
            "level_bps": forecast.level_bps,
            "has_season": forecast.has_season,
            "tests": forecast.tests,
            "newest_test_at": timestamp_of(forecast.newest_us).to_string(),
            "setting": forecast.setting,
            "host_limit": limit,
            "remedies": remedies,
            "caveats": self.caveats,
        })
    }

    fn build_document(&self) -> ReportDocument {
        let (forecast, finish) = (self.forecast, &self.forecast.finish);
        let pair = &self.planned.pair;
        let title = format!("{} from {} to {}", Bytes(self.planned.bytes), pair.from, pair.to);
        let mut page = ReportDocument::from_archive(title, LONGHAUL_VERSION);
        let [low, high] = finish.interval();
        let span = |time: Duration| format_span(saturating_micros(time));
        let time = |time: Duration| format_time(self.time_after(time));
        page.strong_fact("finish", time(finish.median()));
        page.fact("90 % interval", format!("{} to {}", time(low), time(high)));
        let interval = format!("{} to {}", span(low), span(high));
        page.fact("duration", format!("{} ({interval})", span(finish.median())));
        if let Some((deadline, chance)) = self.deadline.zip(self.chance()) {
            let text = format!(
                "{} is met with a chance of {}",
                format_time(deadline),
                format_percent(chance)
            );
            page.strong_fact("deadline", text);
        }
        page.gap();
        page.fact("start", format_time(self.start));
        let level = format!(
            "{}{}",
            format_rate(forecast.level_bps),
            if forecast.has_season { ", busy hours apart" } else { "" }
        );
        let tests = count_of(forecast.tests as u64, "test");
        let newest = format_time(timestamp_of(forecast.newest_us));
        page.fact("rate", format!("{level}; {tests}, the newest of {newest}"));
        page.facts("setting", forecast.setting.as_ref().map(describe_setting));
        page.facts(
            "limit",
            forecast.host_limit.as_ref().map(|limit| {
                let limiter = limit.limiter.word().replace('_', " ");
                format!("{limiter}, {} in copy {}", format_rate(limit.rate_bps), limit.run_id)
            }),
        );
        page.gap();
        if forecast.remedies.is_empty() {
            let text = "nothing known; `longhaul tune` may find a better setting";
            page.fact("shorter", text);
        }
        for remedy in &forecast.remedies {
            page.fact("shorter", self.describe_remedy(remedy));
        }
        page.caveats(&self.caveats);
        page
    }

    fn describe_remedy(&self, remedy: &ForecastRemedy) -> String {
        let way = match &remedy.kind {
            RemedyKind::LaterStart(wait) => {
                format!("start at {}", format_time(self.time_after(*wait)))
            }
            RemedyKind::TunedSetting(choice) => format!(
                "use {}, as `longhaul tune` recommends and `longhaul copy` does",
                describe_setting(&choice.setting)
            ),
            RemedyKind::TestAdvice(advice) => match &advice.command {
                Some(command) => format!("{} ({}): `{command}`", advice.text, advice.place),
                None => format!("{} ({})", advice.text, advice.place),
            },
            RemedyKind::FasterHost(limiter) => {
                format!("a faster {}, or more of them", limiter.word().replace('_', " "))
            }
        };
        match remedy.duration {
            Some(duration) => format!("{way}: {}", format_span(saturating_micros(duration))),
            None => way,
        }
    }
}
