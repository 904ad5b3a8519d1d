//! Builds plan and target of a scan from options. No I/O except for the token.

use crate::cli::args::TuneArgs;
use crate::cli::value_parsers::setting_lists::check_grid_size;
use crate::cli::{option_resolution, value_parsers};
use crate::command_failure::{CommandFailure, USAGE};
use longhaul_analysis::scan::order_cells;
use longhaul_model::report::v1::plan::{self, RunDirection, StopCondition};
use longhaul_model::report::v1::scan::{ScanBudget, ScanPlan, SearchMode, TransferSetting};
use longhaul_probe::plan_limits;
use longhaul_probe::throughput::TargetHost;
use std::path::PathBuf;

/// The default budget of a guided search in one direction.
const DEFAULT_BUDGET_PROBES: u32 = 10;
const DEFAULT_BUDGET_TIME_US: u64 = 300 * 1_000_000;
/// The default payload time of a probe.
const DEFAULT_PROBE_TIME_US: u64 = 10 * 1_000_000;
/// The number of samples per probe, few because a scan has many reports.
const SAMPLES_PER_PROBE: u64 = 60;
const MIN_INTERVAL_US: u64 = 100_000;
/// The word for the sender's default congestion control.
const DEFAULT_CONTROL: &str = "default";

/// Builds the plan from the options.
pub fn plan_scan(args: &TuneArgs) -> Result<ScanPlan, CommandFailure> {
    let direction = scan_direction(args);
    let ways = if direction == RunDirection::Both { 2 } else { 1 };
    let budget = if args.grid {
        // The grid determines the number of probes.
        ScanBudget { probes: u32::MAX, time_us: u64::MAX, bytes: None }
    } else {
        ScanBudget {
            probes: args.budget_probes.unwrap_or(DEFAULT_BUDGET_PROBES * ways),
            time_us: args.budget_time.unwrap_or(DEFAULT_BUDGET_TIME_US * u64::from(ways)),
            bytes: args.budget_bytes,
        }
    };
    let mut plan = ScanPlan {
        search: if args.grid { SearchMode::Grid } else { SearchMode::Guided },
        direction,
        windows_bytes: scan_windows(args),
        streams: scan_streams(args),
        congestion_controls: scan_controls(args),
        repeats: args.repeats,
        seed: args.seed,
        present: args.present.clone(),
        budget,
        probe: probe_defaults(args),
    };
    check_scan_plan(&plan)?;
    if args.grid {
        plan.budget.probes = u32::try_from(order_cells(&plan).len()).unwrap_or(u32::MAX);
        plan.budget.time_us = plan_limits::MAX_RUN_US * u64::from(plan_limits::MAX_STREAMS);
    }
    Ok(plan)
}

fn scan_direction(args: &TuneArgs) -> RunDirection {
    match (args.reverse, args.bidir) {
        (_, true) => RunDirection::Both,
        (true, false) => RunDirection::Reverse,
        (false, false) => RunDirection::Forward,
    }
}

fn scan_windows(args: &TuneArgs) -> Vec<Option<u64>> {
    match &args.windows {
        Some(windows) => windows.0.clone(),
        None if args.grid => vec![
            None,
            Some(64 << 10),
            Some(256 << 10),
            Some(1 << 20),
            Some(4 << 20),
            Some(16 << 20),
        ],
        None => Vec::new(),
    }
}

fn scan_streams(args: &TuneArgs) -> Vec<u32> {
    match &args.streams {
        Some(counts) => counts.0.clone(),
        None if args.grid => vec![1, 2, 4, 8, 16, 32],
        None => Vec::new(),
    }
}

fn scan_controls(args: &TuneArgs) -> Vec<Option<String>> {
    let mut controls: Vec<Option<String>> = Vec::new();
    for name in &args.congestion_control {
        let control = (name != DEFAULT_CONTROL).then(|| name.clone());
        if !controls.contains(&control) {
            controls.push(control);
        }
    }
    controls
}

/// Returns the settings that all probes share.
fn probe_defaults(args: &TuneArgs) -> plan::ThroughputPlan {
    let time_us = args.time.unwrap_or(DEFAULT_PROBE_TIME_US);
    plan::ThroughputPlan {
        stop: StopCondition::TimeUs(time_us),
        interval_us: sample_interval_us(time_us),
        affinity: args.affinity.clone(),
        zero_copy: args.zerocopy,
        dscp: args.dscp,
        ..plan::ThroughputPlan::default()
    }
}

/// Returns the sample interval of a probe of this duration.
pub fn sample_interval_us(time_us: u64) -> u64 {
    let (least, most) = plan_limits::INTERVAL_US;
    (time_us / SAMPLES_PER_PROBE).clamp(MIN_INTERVAL_US.max(least), most)
}

/// Returns the payload time of the plan's probes.
pub fn probe_time_us(plan: &ScanPlan) -> u64 {
    match plan.probe.stop {
        StopCondition::TimeUs(us) => us,
        StopCondition::Bytes(_) | StopCondition::Blocks(_) => DEFAULT_PROBE_TIME_US,
    }
}

/// Checks combinations of values.
fn check_scan_plan(plan: &ScanPlan) -> Result<(), CommandFailure> {
    let usage = |text: String| Err(CommandFailure::new(USAGE, text));
    plan_limits::check_plan(&plan.probe, plan_limits::MAX_STREAMS)
        .map_err(|e| CommandFailure::from_error(USAGE, &e))?;
    if plan.search == SearchMode::Grid {
        let lengths = [
            plan.windows_bytes.len(),
            plan.streams.len(),
            plan.congestion_controls.len().max(1),
            plan.repeats as usize,
        ];
        if let Err(why) = check_grid_size(&lengths) {
            return usage(format!("the grid is too large: {why}"));
        }
    } else if plan.budget.time_us < probe_time_us(plan) {
        return usage(
            "invalid value for '--budget-time <TIME>': shorter than one probe; increase it, \
             or shorten the probes with `--time`"
                .to_owned(),
        );
    }
    Ok(())
}

/// Returns the server and its connection options.
pub fn scan_target(args: &TuneArgs) -> Result<TargetHost, CommandFailure> {
    option_resolution::build_target(
        &args.host,
        args.port,
        &args.local,
        &args.token,
        args.connect_timeout,
    )
}

/// Parses `8x1M` or `4xauto`: streams times window.
pub fn parse_setting(text: &str) -> Result<TransferSetting, String> {
    let (streams, window) =
        text.split_once(['x', 'X']).ok_or("expected streams x window, such as 8x1M or 4xauto")?;
    let part = |name: &str, why: String| format!("{name}: {why}");
    let window = window.trim();
    Ok(TransferSetting {
        streams: value_parsers::parse_streams(streams.trim())
            .map_err(|why| part("streams", why))?,
        window_bytes: match window {
            "auto" => None,
            size => {
                Some(value_parsers::parse_buffer_size(size).map_err(|why| part("window", why))?)
            }
        },
        ..TransferSetting::default()
    })
}

/// Parses the path of a plot whose format is supported.
pub fn parse_picture_path(text: &str) -> Result<PathBuf, String> {
    let path = PathBuf::from(text);
    let drawn = |end: &std::ffi::OsStr| ["svg", "png"].iter().any(|kind| end == *kind);
    match path.extension() {
        Some(end) if drawn(end) => Ok(path),
        _ => Err("expected a name that ends in .svg or .png".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_is_streams_times_window() {
        let of = |streams, window_bytes| TransferSetting {
            streams,
            window_bytes,
            ..TransferSetting::default()
        };
        for (text, want) in [
            ("8x1M", of(8, Some(1 << 20))),
            ("1xauto", of(1, None)),
            ("30 x 512K", of(30, Some(512 << 10))),
        ] {
            assert_eq!(parse_setting(text), Ok(want), "{text}");
        }
        for (text, part) in [
            ("8", "such as 8x1M"),
            ("0x1M", "streams: must be 1 to 128"),
            ("8x2G", "window: must be 1 B to 1 GiB"),
            ("x", "streams: not a whole number"),
            ("8x", "window: expected a size"),
            ("1M x 8", "streams: not a whole number"),
        ] {
            let told = parse_setting(text).expect_err(text);
            assert!(told.contains(part), "{text}: {told}");
        }
    }

    #[test]
    fn samples_stay_few_however_long_a_probe_is() {
        for (time_us, want) in [
            (1_000_000, 100_000),
            (10_000_000, 166_666),
            (60_000_000, 1_000_000),
            (86_400_000_000, 60_000_000),
        ] {
            assert_eq!(sample_interval_us(time_us), want, "{time_us}");
        }
    }

    #[test]
    fn pictures_are_svg_or_png() {
        assert!(parse_picture_path("a/heat.svg").is_ok());
        for text in ["heat", "heat.jpg", "svg", ".png", ""] {
            assert!(parse_picture_path(text).is_err(), "{text}");
        }
    }
}
