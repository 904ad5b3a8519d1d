//! `longhaul report compare`: tests two sets of runs for differences.

use super::sets::Sets;
use super::written;
use crate::cli::args::CompareArgs;
use crate::fail::{EXPECTATION_MISSED, Fail};
use crate::render::beside;
use crate::render::style::{ERROR, paint};
use longhaul_analysis::beside::comparison::compare;
use longhaul_model::report::v1::SCHEMA;
use longhaul_model::report::v1::comparison::{Change, Comparison};
use serde_json::json;
use std::io::Write;
use std::process::ExitCode;

pub fn run(args: &CompareArgs) -> Result<ExitCode, Fail> {
    written::check(&args.written)?;
    let mut sets = Sets::new(args);
    let (mut a, mut b) = (sets.read(&args.a)?, sets.read(&args.b)?);
    let compared = compare(&mut a, &mut b);
    let [a, b] = compared.sides;
    let report = Comparison {
        schema: SCHEMA.to_owned(),
        kind: String::from("comparison"),
        longhaul: written::LONGHAUL.to_owned(),
        a,
        b,
        changes: compared.changes,
        caveats: compared.caveats,
    };
    let document = |_| beside::comparison::document(&report);
    written::write(&args.written, &json!(report), document)?;
    Ok(judged(args, &report.changes))
}

/// Reports every missed expectation.
fn judged(args: &CompareArgs, changes: &[Change]) -> ExitCode {
    let mut missed = false;
    for expectation in &args.expect {
        if let Some(found) = expectation.missed(changes) {
            missed = true;
            let text = format!(
                "{} expected {expectation}; {found}\n",
                paint(ERROR, "missed:")
            );
            // The exit code has the result as well.
            let _ = anstream::stderr().write_all(text.as_bytes());
        }
    }
    if missed {
        ExitCode::from(EXPECTATION_MISSED)
    } else {
        ExitCode::SUCCESS
    }
}
