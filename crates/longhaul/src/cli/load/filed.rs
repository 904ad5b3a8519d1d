//! Analyses and archives the runs and the report of a load measurement.

use crate::cli::args::LoadArgs;
use crate::cli::filing;
use jiff::Timestamp;
use longhaul_analysis::load::conclude;
use longhaul_model::report::v1::load::Plan;
use longhaul_model::report::v1::{Caveat, Kind, Load, PartOf, SCHEMA};
use longhaul_probe::load::Outcome;

/// Builds the report, and archives it and its runs unless `--no-save` is given.
pub fn report(args: &LoadArgs, plan: Plan, outcome: Outcome) -> Load {
    let started = Timestamp::try_from(outcome.started_at).unwrap_or_else(|_| Timestamp::now());
    let id = filing::run_id(started);
    let mut observation = outcome.observation;
    let mut caveats = outcome.caveats;
    for (index, run) in (0u32..).zip(outcome.runs) {
        let part_of = PartOf {
            id: id.clone(),
            index,
        };
        let mut report = filing::throughput(run.plan, run.outcome, Some(part_of));
        if !args.output.no_save {
            filing::keep(&args.output.archive, &mut report);
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
        let text = "the loads were interrupted before their end";
        caveats.push(Caveat::new("interrupted", text));
    }
    let conclusion = conclude(&plan, &observation);
    caveats.extend(conclusion.caveats);
    let mut report = Load {
        schema: SCHEMA.to_owned(),
        kind: Kind::Load,
        run: filing::run(
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
        filing::keep(&args.output.archive, &mut report);
    }
    report
}
