//! Analyses and archives the runs and the report of a load measurement.

use crate::cli::args::LoadArgs;
use crate::cli::report_archiving;
use crate::cli::report_archiving::{RunEnvelope, timestamp_of};
use longhaul_analysis::load::conclude_load;
use longhaul_model::report::v1::load::LoadPlan;
use longhaul_model::report::v1::{LoadReport, ParentRun, ReportCaveat};
use longhaul_probe::load_run::LoadOutcome;

/// Builds the report, and archives it and its runs unless `--no-save` is given.
pub fn archive_load_report(args: &LoadArgs, plan: LoadPlan, outcome: LoadOutcome) -> LoadReport {
    let run = RunEnvelope::new(
        timestamp_of(outcome.started_at),
        outcome.duration,
        outcome.initiator,
        outcome.responder,
    );
    let mut observation = outcome.observation;
    let mut caveats = outcome.caveats;
    for (index, part) in (0u32..).zip(outcome.runs) {
        let part_of = ParentRun { id: run.id.clone(), index };
        let mut report =
            report_archiving::build_throughput_report(part.plan, part.outcome, Some(part_of));
        report_archiving::archive_report(&args.output, &mut report);
        let phase = observation.phases.get_mut(part.phase);
        let flow = phase.and_then(|phase| {
            if part.competitor { phase.competitor.as_mut() } else { phase.load.as_mut() }
        });
        if let Some(flow) = flow {
            flow.limited_by = report.analysis.limited_by;
            flow.run_id = (!args.output.no_save).then(|| report.run.id.clone());
        }
    }
    if outcome.stopped {
        let text = "interrupted before the end of the loads";
        caveats.push(ReportCaveat::new("interrupted", text));
    }
    let conclusion = conclude_load(&plan, &observation);
    caveats.extend(conclusion.caveats);
    let mut report =
        run.report(plan, observation, conclusion.analysis).with_notes(conclusion.findings, caveats);
    report_archiving::archive_report(&args.output, &mut report);
    report
}
