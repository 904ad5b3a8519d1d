//! `longhaul predict`: predicts throughput over windows and streams, alone or beside a scan.

mod prediction_input;

use super::args::PredictArgs;
use super::{command_output, report_archiving};
use crate::command_failure::{CommandFailure, HOST};
use crate::{plot, render};
use jiff::Timestamp;
use longhaul_analysis::predict::predict_goodput;
use longhaul_model::report::v1::{PredictionReport, ReportKind, SCHEMA};
use prediction_input::PredictionInput;
use std::process::ExitCode;
use std::time::Instant;

pub fn run(args: &PredictArgs) -> Result<ExitCode, CommandFailure> {
    if let Some(path) = &args.plot {
        plot::check_figure_path(path)?;
    }
    let (started, began) = (Timestamp::now(), Instant::now());
    let asked = prediction_input::resolve_prediction_input(args)?;
    let mut report = build_prediction(asked, started, began);
    if !args.no_save {
        report_archiving::archive_report(&args.archive, &mut report);
    }
    write_prediction_files(args, &report)?;
    command_output::print_report(
        &report,
        render::prediction_text::render_prediction,
        args.json,
    )?;
    Ok(ExitCode::SUCCESS)
}

fn build_prediction(
    asked: PredictionInput,
    started: Timestamp,
    began: Instant,
) -> PredictionReport {
    let analysis = predict_goodput(&asked.plan, &asked.observation);
    PredictionReport {
        schema: SCHEMA.to_owned(),
        kind: ReportKind::Predict,
        run: report_archiving::describe_standalone_run(
            (report_archiving::generate_run_id(started), started),
            began.elapsed(),
            (asked.initiator, asked.responder),
        ),
        plan: asked.plan,
        observation: asked.observation,
        analysis,
        findings: Vec::new(),
        caveats: asked.caveats,
    }
}

fn write_prediction_files(
    args: &PredictArgs,
    report: &PredictionReport,
) -> Result<(), CommandFailure> {
    if let Some(path) = &args.csv {
        std::fs::write(
            path,
            render::prediction_text::prediction_csv::render_prediction_csv(report),
        )
        .map_err(|e| {
            let mut fail = CommandFailure::new(HOST, format!("cannot write {}", path.display()));
            fail.causes.push(e.to_string());
            fail.hint(Some("name a file in an existing, writable folder"))
        })?;
    }
    match &args.plot {
        Some(path) => plot::write_prediction_figure(report, path),
        None => Ok(()),
    }
}
