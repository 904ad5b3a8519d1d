//! Builds plan and target of a scan from options. No I/O except for the token.

use crate::cli::args::TuneArgs;
use crate::cli::parse::grid::bearable;
use crate::cli::{parse, resolve};
use crate::fail::{Fail, USAGE};
use longhaul_analysis::scan::order;
use longhaul_model::report::v1::plan::{self, Direction, Stop};
use longhaul_model::report::v1::scan::{Budget, Plan, Search, Setting};
use longhaul_probe::limits;
use longhaul_probe::throughput::Target;
use std::path::PathBuf;

/// The default budget of a guided search in one direction.
const BUDGET_PROBES: u32 = 10;
const BUDGET_TIME_US: u64 = 300 * 1_000_000;
/// The maximum number of probes of a guided search.
const PROBES_MOST: u64 = 1000;
const REPEATS_MOST: u64 = 100;
/// The default payload time of a probe.
const PROBE_TIME_US: u64 = 10 * 1_000_000;
/// The number of samples per probe, few because a scan has many reports.
const SAMPLES: u64 = 60;
const INTERVAL_LEAST_US: u64 = 100_000;
/// The word for the sender's default congestion control.
const OWN_CONTROL: &str = "default";

/// Builds the plan from the options.
pub fn plan(args: &TuneArgs) -> Result<Plan, Fail> {
    let direction = direction(args);
    let ways = if direction == Direction::Both { 2 } else { 1 };
    let budget = if args.grid {
        // The grid determines the number of probes.
        Budget {
            probes: u32::MAX,
            time_us: u64::MAX,
            bytes: None,
        }
    } else {
        Budget {
            probes: args.budget_probes.unwrap_or(BUDGET_PROBES * ways),
            time_us: args.budget_time.unwrap_or(BUDGET_TIME_US * u64::from(ways)),
            bytes: args.budget_bytes,
        }
    };
    let mut plan = Plan {
        search: if args.grid {
            Search::Grid
        } else {
            Search::Guided
        },
        direction,
        windows_bytes: windows(args),
        streams: streams(args),
        congestion_controls: controls(args),
        repeats: args.repeats,
        seed: args.seed,
        present: args.present.clone(),
        budget,
        probe: probe(args),
    };
    check(&plan)?;
    if args.grid {
        plan.budget.probes = u32::try_from(order(&plan).len()).unwrap_or(u32::MAX);
        plan.budget.time_us = limits::LONGEST_US * u64::from(limits::MOST_STREAMS);
    }
    Ok(plan)
}

fn direction(args: &TuneArgs) -> Direction {
    match (args.reverse, args.bidir) {
        (_, true) => Direction::Both,
        (true, false) => Direction::Reverse,
        (false, false) => Direction::Forward,
    }
}

fn windows(args: &TuneArgs) -> Vec<Option<u64>> {
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

fn streams(args: &TuneArgs) -> Vec<u32> {
    match &args.streams {
        Some(counts) => counts.0.clone(),
        None if args.grid => vec![1, 2, 4, 8, 16, 32],
        None => Vec::new(),
    }
}

fn controls(args: &TuneArgs) -> Vec<Option<String>> {
    let mut controls: Vec<Option<String>> = Vec::new();
    for name in &args.congestion_control {
        let control = (name != OWN_CONTROL).then(|| name.clone());
        if !controls.contains(&control) {
            controls.push(control);
        }
    }
    controls
}

/// Returns the settings that all probes share.
fn probe(args: &TuneArgs) -> plan::Plan {
    let time_us = args.time.unwrap_or(PROBE_TIME_US);
    plan::Plan {
        stop: Stop::TimeUs(time_us),
        interval_us: interval_us(time_us),
        affinity: args.affinity.clone(),
        zero_copy: args.zerocopy,
        dscp: args.dscp,
        ..plan::Plan::default()
    }
}

/// Returns the sample interval of a probe of this duration.
pub fn interval_us(time_us: u64) -> u64 {
    let (least, most) = limits::INTERVAL_US;
    (time_us / SAMPLES).clamp(INTERVAL_LEAST_US.max(least), most)
}

/// Returns the payload time of the plan's probes.
pub fn time_us(plan: &Plan) -> u64 {
    match plan.probe.stop {
        Stop::TimeUs(us) => us,
        Stop::Bytes(_) | Stop::Blocks(_) => PROBE_TIME_US,
    }
}

/// Checks combinations of values.
fn check(plan: &Plan) -> Result<(), Fail> {
    let usage = |text: String| Err(Fail::new(USAGE, text));
    limits::check_plan(&plan.probe, limits::MOST_STREAMS)
        .map_err(|e| Fail::from_error(USAGE, &e))?;
    if plan.search == Search::Grid {
        let lengths = [
            plan.windows_bytes.len(),
            plan.streams.len(),
            plan.congestion_controls.len().max(1),
            plan.repeats as usize,
        ];
        if let Err(why) = bearable(&lengths) {
            return usage(format!("the grid is too large: {why}"));
        }
    } else if plan.budget.time_us < time_us(plan) {
        return usage(
            "invalid value for '--budget-time <TIME>': it is shorter than one probe; lengthen it, \
             or shorten the probes with `--time`"
                .to_owned(),
        );
    }
    Ok(())
}

/// Returns the server and its connection options.
pub fn target(args: &TuneArgs) -> Result<Target, Fail> {
    resolve::target(
        (&args.host, args.port),
        &args.local,
        &args.token,
        args.connect_timeout,
    )
}

/// Parses `8x1M` or `4xauto`: streams times window.
pub fn setting(text: &str) -> Result<Setting, String> {
    let (streams, window) = text
        .split_once(['x', 'X'])
        .ok_or("expected streams x window, such as 8x1M or 4xauto")?;
    let part = |name: &str, why: String| format!("{name}: {why}");
    let window = window.trim();
    Ok(Setting {
        streams: parse::streams(streams.trim()).map_err(|why| part("streams", why))?,
        window_bytes: match window {
            "auto" => None,
            size => Some(parse::buffer(size).map_err(|why| part("window", why))?),
        },
        ..Setting::default()
    })
}

pub fn probes(text: &str) -> Result<u32, String> {
    counted(text, PROBES_MOST)
}

pub fn repeats(text: &str) -> Result<u32, String> {
    counted(text, REPEATS_MOST)
}

fn counted(text: &str, most: u64) -> Result<u32, String> {
    match text.parse::<u64>() {
        Ok(number) if (1..=most).contains(&number) => Ok(number as u32),
        Ok(_) => Err(format!("allowed are 1 to {most}")),
        Err(_) => Err(format!("not a whole number; allowed are 1 to {most}")),
    }
}

/// Parses the path of a plot whose format is supported.
pub fn picture(text: &str) -> Result<PathBuf, String> {
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
        let of = |streams, window_bytes| Setting {
            streams,
            window_bytes,
            ..Setting::default()
        };
        for (text, want) in [
            ("8x1M", of(8, Some(1 << 20))),
            ("1xauto", of(1, None)),
            ("30 x 512K", of(30, Some(512 << 10))),
        ] {
            assert_eq!(setting(text), Ok(want), "{text}");
        }
        for (text, part) in [
            ("8", "such as 8x1M"),
            ("0x1M", "streams: allowed are 1 to 128"),
            ("8x2G", "window: allowed are 1 B to 1 GiB"),
            ("x", "streams: not a whole number"),
            ("8x", "window: expected a size"),
            ("1M x 8", "streams: not a whole number"),
        ] {
            let told = setting(text).expect_err(text);
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
            assert_eq!(interval_us(time_us), want, "{time_us}");
        }
    }

    #[test]
    fn pictures_are_svg_or_png() {
        assert!(picture("a/heat.svg").is_ok());
        for text in ["heat", "heat.jpg", "svg", ".png", ""] {
            assert!(picture(text).is_err(), "{text}");
        }
    }
}
