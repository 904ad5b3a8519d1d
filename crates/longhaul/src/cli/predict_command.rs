//! `longhaul predict`: predicts throughput over windows and streams, alone or beside a scan.

mod prediction_input;

use super::args::PredictArgs;
use super::report_archiving;
use super::report_command::report_output;
use crate::cli::report_archiving::RunEnvelope;
use crate::command_failure::{CommandFailure, HOST};
use jiff::Timestamp;
use longhaul_analysis::predict::predict_goodput;
use longhaul_model::report::v1::PredictionReport;
use longhaul_report::plot;
use longhaul_report::prediction_text::build_prediction_document;
use prediction_input::PredictionInput;
use std::process::ExitCode;
use std::time::Instant;

pub fn run(args: &PredictArgs) -> Result<ExitCode, CommandFailure> {
    report_output::check_output_files(&args.output.form)?;
    if let Some(path) = &args.plot {
        plot::check_figure_path(path)?;
    }
    let (started, began) = (Timestamp::now(), Instant::now());
    let asked = prediction_input::resolve_prediction_input(args)?;
    let mut report = build_prediction(asked, started, began);
    if !args.output.no_save {
        report_archiving::archive_report(&args.output, &mut report);
    }
    write_prediction_files(args, &report)?;
    report_output::write_report(&args.output.form, &report, |_| {
        build_prediction_document(&report)
    })?;
    Ok(ExitCode::SUCCESS)
}

fn build_prediction(
    asked: PredictionInput,
    started: Timestamp,
    began: Instant,
) -> PredictionReport {
    let analysis = predict_goodput(&asked.plan, &asked.observation);
    RunEnvelope::new(started, began.elapsed(), asked.initiator, asked.responder)
        .report(asked.plan, asked.observation, analysis)
        .with_notes(Vec::new(), asked.caveats)
}

fn write_prediction_files(
    args: &PredictArgs,
    report: &PredictionReport,
) -> Result<(), CommandFailure> {
    if let Some(path) = &args.csv {
        std::fs::write(
            path,
            longhaul_report::prediction_text::prediction_csv::render_prediction_csv(report),
        )
        .map_err(|e| {
            let mut fail = CommandFailure::new(HOST, format!("cannot write {}", path.display()));
            fail.causes.push(e.to_string());
            fail.hint(Some("name a file in an existing, writable folder"))
        })?;
    }
    match &args.plot {
        Some(path) => Ok(plot::write_prediction_figure(report, path)?),
        None => Ok(()),
    }
}
