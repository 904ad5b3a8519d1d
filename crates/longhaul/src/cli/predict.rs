//! `longhaul predict`: predicts throughput over windows and streams, alone or beside a scan.

mod asked;

use super::args::PredictArgs;
use super::{filing, output};
use crate::fail::{Fail, HOST};
use crate::{plot, render};
use asked::Asked;
use jiff::Timestamp;
use longhaul_analysis::predict::predict;
use longhaul_model::report::v1::{Kind, Predict, SCHEMA};
use std::process::ExitCode;
use std::time::Instant;

pub fn run(args: &PredictArgs) -> Result<ExitCode, Fail> {
    if let Some(path) = &args.plot {
        plot::check(path)?;
    }
    let (started, began) = (Timestamp::now(), Instant::now());
    let asked = asked::resolve(args)?;
    let mut report = concluded(asked, started, began);
    if !args.no_save {
        filing::keep(&args.archive, &mut report);
    }
    write(args, &report)?;
    output::report(&report, render::predict::report, args.json)?;
    Ok(ExitCode::SUCCESS)
}

fn concluded(asked: Asked, started: Timestamp, began: Instant) -> Predict {
    let analysis = predict(&asked.plan, &asked.observation);
    Predict {
        schema: SCHEMA.to_owned(),
        kind: Kind::Predict,
        run: filing::run(
            (filing::run_id(started), started),
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

fn write(args: &PredictArgs, report: &Predict) -> Result<(), Fail> {
    if let Some(path) = &args.csv {
        std::fs::write(path, render::predict::csv::table(report)).map_err(|e| {
            let mut fail = Fail::new(HOST, format!("cannot write {}", path.display()));
            fail.causes.push(e.to_string());
            fail.hint(Some(
                "name a file in a folder that exists and may be written",
            ))
        })?;
    }
    match &args.plot {
        Some(path) => plot::write_predicted(report, path),
        None => Ok(()),
    }
}
