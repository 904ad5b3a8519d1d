//! `longhaul load HOST`: runs loads and probes, then analyses, archives and shows the result.
//!
//! - [`load_plan`]: builds the plan from options; [`load_archiving`]: archives runs and report
//! - [`load_progress`]: progress on stderr; [`load_files`]: CSV and plots

mod load_archiving;
pub mod load_files;
pub mod load_plan;
mod load_progress;

use super::args::LoadArgs;
use super::report_command::report_output;
use super::{interrupt, option_resolution};
use crate::command_failure::{CommandFailure, INTERRUPTED, PEER};
use load_progress::LoadProgress;
use longhaul_model::report::v1::LoadReport;
use longhaul_probe::load_run;
use longhaul_report::load_text::build_load_document;
use std::process::ExitCode;

pub fn run(args: &LoadArgs) -> Result<ExitCode, CommandFailure> {
    report_output::check_output_files(&args.output.form)?;
    let plan = load_plan::plan_loads(args)?;
    let target = option_resolution::build_target(
        &args.host,
        args.port,
        &args.local,
        &args.token,
        args.connect_timeout,
    )?;
    load_files::check_load_plots(&args.plot)?;
    let stop = interrupt::install_stop_flag()?;
    let mut progress = LoadProgress::new(args, &plan);
    let outcome = load_run::run(&target, &plan, &stop, &mut |now| progress.show(now))?;
    progress.finish();
    let stopped = outcome.stopped;
    let report = load_archiving::archive_load_report(args, plan, outcome);
    report_output::write_report(&args.output.form, &report, |_| build_load_document(&report))?;
    load_files::write_load_files(&args.plot, args.csv.as_deref(), &report)?;
    if stopped {
        let what = "the loads were interrupted; the results so far are shown";
        return Err(CommandFailure::new(INTERRUPTED, what));
    }
    require_any_load(&report)?;
    Ok(ExitCode::SUCCESS)
}

/// Fails if no load completed: the server or the path is then at fault.
fn require_any_load(report: &LoadReport) -> Result<(), CommandFailure> {
    let mut phases = report.observation.phases.iter();
    if phases.any(|phase| phase.load.is_some() || phase.competitor.is_some()) {
        return Ok(());
    }
    let mut fail = CommandFailure::new(PEER, "no load has a result");
    let errors = report.observation.phases.iter();
    fail.causes = errors.filter_map(|phase| phase.error.clone()).take(2).collect();
    Err(fail)
}
