//! `longhaul load HOST`: runs loads and probes, then analyses, archives and shows the result.
//!
//! - [`asked`]: builds the plan from options; [`filed`]: archives runs and report
//! - [`progress`]: progress on stderr; [`files`]: CSV and plots

pub mod asked;
mod filed;
pub mod files;
mod progress;

use super::args::LoadArgs;
use super::{interrupt, output, resolve};
use crate::fail::{Fail, INTERRUPTED, PEER};
use crate::render;
use longhaul_model::report::v1::Load;
use longhaul_probe::load;
use progress::Told;
use std::process::ExitCode;

pub fn run(args: &LoadArgs) -> Result<ExitCode, Fail> {
    let plan = asked::plan(args)?;
    let target = resolve::target(
        (&args.host, args.port),
        &args.local,
        &args.token,
        args.connect_timeout,
    )?;
    files::check(&args.plot)?;
    let stop = interrupt::stop_flag()?;
    let mut told = Told::new(args, &plan);
    let outcome = load::run(&target, &plan, &stop, &mut |now| told.show(now))?;
    told.leave();
    let stopped = outcome.stopped;
    let report = filed::report(args, plan, outcome);
    output::report(&report, render::load::report, args.output.json)?;
    files::write(&args.plot, args.csv.as_deref(), &report)?;
    if stopped {
        let what = "the loads were interrupted: what was measured is shown";
        return Err(Fail::new(INTERRUPTED, what));
    }
    nothing_ran(&report)?;
    Ok(ExitCode::SUCCESS)
}

/// Fails if no load completed: the server or the path is then at fault.
fn nothing_ran(report: &Load) -> Result<(), Fail> {
    let mut phases = report.observation.phases.iter();
    if phases.any(|phase| phase.load.is_some() || phase.competitor.is_some()) {
        return Ok(());
    }
    let mut fail = Fail::new(PEER, "no load could be run");
    let errors = report.observation.phases.iter();
    fail.causes = errors
        .filter_map(|phase| phase.error.clone())
        .take(2)
        .collect();
    Err(fail)
}
