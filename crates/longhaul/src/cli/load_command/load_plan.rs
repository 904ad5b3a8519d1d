//! Builds the plan of `longhaul load` from its options. No I/O.

use crate::cli::args::LoadArgs;
use crate::cli::value_parsers;
use crate::command_failure::{CommandFailure, USAGE};
use longhaul_model::report::v1::load::{LoadPlan, LoadStep};
use longhaul_probe::load_run;

/// The size of a probe with its IP header: small beside any load, with room for timestamps.
const PROBE_BYTES: u32 = 100;
pub const IDLE_US: (u64, u64) = (500_000, 600_000_000);
/// The word for an unlimited rate.
const UNLIMITED: &str = "max";

/// A list of rates; `None` is unlimited.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RateList(pub Vec<Option<u64>>);

/// Builds the plan from the options.
pub fn plan_loads(args: &LoadArgs) -> Result<LoadPlan, CommandFailure> {
    let plan = LoadPlan {
        forward: !args.reverse,
        steps: plan_load_steps(args),
        probe_interval_us: args.probe_interval,
        probe_bytes: PROBE_BYTES,
        idle_us: args.idle,
        load_us: args.time,
    };
    load_run::check_load_plan(&plan).map_err(|e| CommandFailure::from_error(USAGE, &e))?;
    Ok(plan)
}

/// Returns a step for each number of streams at each rate: first plain, then scavenger. The
/// competitor runs beside each load, and alone before the first and after the last one.
fn plan_load_steps(args: &LoadArgs) -> Vec<LoadStep> {
    let settings = || {
        let rates = args.rate.0.iter();
        rates.flat_map(|rate| args.streams.0.iter().map(|streams| (*streams, *rate)))
    };
    let load = |(streams, rate_bps): (u32, Option<u64>), scavenger: bool| LoadStep {
        streams,
        window_bytes: args.window,
        congestion_control: args.congestion_control.clone(),
        rate_bps,
        dscp: None,
        scavenger,
        competitor: false,
        baseline: false,
    };
    let pairs = |setting| {
        let kinds: &[bool] = if args.scavenger { &[false, true] } else { &[false] };
        kinds.iter().map(move |scavenger| load(setting, *scavenger))
    };
    let loads: Vec<LoadStep> = settings().flat_map(pairs).collect();
    if !args.competitor {
        return loads;
    }
    let baseline = LoadStep { competitor: true, baseline: true, ..load((1, None), false) };
    let baseline = LoadStep { window_bytes: None, congestion_control: None, ..baseline };
    let beside = loads.iter().map(|step| LoadStep { competitor: true, ..step.clone() });
    let mut steps: Vec<LoadStep> =
        std::iter::once(baseline.clone()).chain(beside).chain([baseline]).collect();
    if args.scavenger {
        // These measure the cost of yielding without a competitor.
        steps.extend(loads);
    }
    steps
}

/// Parses `20M,40M,max`.
pub fn parse_rates(text: &str) -> Result<RateList, String> {
    let one = |part: &str| match part.trim() {
        UNLIMITED => Ok(None),
        rate => value_parsers::parse_rate(rate).map(Some),
    };
    let mut rates = text.split(',').map(one).collect::<Result<Vec<Option<u64>>, String>>()?;
    // Unlimited comes last.
    rates.sort_by_key(|rate| rate.unwrap_or(u64::MAX));
    rates.dedup();
    Ok(RateList(rates))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::args::{CliArgs, CliCommand};
    use clap::Parser;

    fn asked(options: &[&str]) -> LoadPlan {
        let line = ["longhaul", "load", "far"].iter().chain(options);
        match CliArgs::try_parse_from(line).expect("options").command {
            CliCommand::Load(args) => plan_loads(&args).expect("a plan"),
            _ => panic!("another command"),
        }
    }

    fn kinds(plan: &LoadPlan) -> Vec<(u32, Option<u64>, &'static str)> {
        let kind = |step: &LoadStep| match (step.baseline, step.scavenger, step.competitor) {
            (true, _, _) => "alone",
            (_, true, true) => "yields beside",
            (_, true, false) => "yields",
            (_, false, true) => "beside",
            (_, false, false) => "plain",
        };
        let steps = plan.steps.iter();
        steps.map(|s| (s.streams, s.rate_bps, kind(s))).collect()
    }

    #[test]
    fn lists_give_every_combination() {
        let plan = asked(&["-P", "1,4", "-b", "max,20M"]);
        assert_eq!(
            kinds(&plan),
            [
                (1, Some(20_000_000), "plain"),
                (4, Some(20_000_000), "plain"),
                (1, None, "plain"),
                (4, None, "plain"),
            ]
        );
        assert!(plan.forward && plan.idle_us == 3_000_000 && plan.load_us == 10_000_000);
    }

    #[test]
    fn a_competitor_is_measured_alone_before_and_after() {
        let names = |options: &[&str]| {
            let plan = asked(options);
            kinds(&plan).into_iter().map(|k| k.2).collect::<Vec<_>>()
        };
        assert_eq!(names(&["--competitor"]), ["alone", "beside", "alone"]);
        assert_eq!(names(&["--scavenger"]), ["plain", "yields"]);
        assert_eq!(
            names(&["--competitor", "--scavenger"]),
            ["alone", "beside", "yields beside", "alone", "plain", "yields"]
        );
        assert!(!asked(&["-R"]).forward);
    }

    #[test]
    fn rates_are_refused_with_what_would_be_right() {
        assert_eq!(parse_rates("max,1M,1M"), Ok(RateList(vec![Some(1_000_000), None])));
        for text in ["", "fast", "1M,,2M", "10"] {
            assert!(parse_rates(text).is_err(), "{text}");
        }
    }
}
