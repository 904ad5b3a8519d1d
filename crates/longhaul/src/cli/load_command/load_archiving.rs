//! Analyses and archives the runs and the report of a load measurement.

use crate::cli::args::LoadArgs;
use crate::cli::report_archiving;
use jiff::Timestamp;
use longhaul_analysis::load::conclude_load;
use longhaul_model::report::v1::load::LoadPlan;
use longhaul_model::report::v1::{LoadReport, ParentRun, ReportCaveat, ReportKind, SCHEMA};
use longhaul_probe::load_run::LoadOutcome;

/// Builds the report, and archives it and its runs unless `--no-save` is given.
pub fn archive_load_report(args: &LoadArgs, plan: LoadPlan, outcome: LoadOutcome) -> LoadReport {
    let started = Timestamp::try_from(outcome.started_at).unwrap_or_else(|_| Timestamp::now());
    let id = report_archiving::generate_run_id(started);
    let mut observation = outcome.observation;
    let mut caveats = outcome.caveats;
    for (index, run) in (0u32..).zip(outcome.runs) {
        let part_of = ParentRun {
            id: id.clone(),
            index,
        };
        let mut report =
            report_archiving::build_throughput_report(run.plan, run.outcome, Some(part_of));
        if !args.output.no_save {
            report_archiving::archive_report(&args.output.archive, &mut report);
        }
        let phase = observation.phases.get_mut(run.phase);
        let flow = phase.and_then(|phase| {
            if run.competitor {
                phase.competitor.as_mut()
            } else {
                phase.load.as_mut()
            }
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
    let mut report = LoadReport {
        schema: SCHEMA.to_owned(),
        kind: ReportKind::Load,
        run: report_archiving::describe_standalone_run(
            (id, started),
            outcome.duration,
            (outcome.initiator, outcome.responder),
        ),
        plan,
        observation,
        analysis: conclusion.analysis,
        findings: conclusion.findings,
        caveats,
    };
    if !args.output.no_save {
        report_archiving::archive_report(&args.output.archive, &mut report);
    }
    report
}
